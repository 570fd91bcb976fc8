//! Layouts, and what a naive reading of them says.

use pami::Layout;
use proptest::prelude::*;

/// The place of byte `index` of data in a layout.
fn place(layout: &Layout, index: usize) -> Option<usize> {
    match *layout {
        Layout::Contiguous => Some(index),
        Layout::Strided { block, stride } => {
            Some(index / block as usize * stride as usize + index % block as usize)
        }
        Layout::Indexed(runs) => {
            runs.iter().flat_map(|&(start, len)| start..start + len).nth(index).map(|place| place as usize)
        }
    }
}

/// The places of all bytes that a layout names in `extent` bytes.
pub fn places(layout: &Layout, extent: usize) -> Vec<usize> {
    (0..).map_while(|index| place(layout, index)).take_while(|&place| place < extent).collect()
}

/// Any layout whose bytes do not overlap.
pub fn layouts() -> impl Strategy<Value = Layout> {
    let strided =
        (1u32..200, 0u32..90).prop_map(|(block, gap)| Layout::Strided { block, stride: block + gap });
    let runs = proptest::collection::vec((0u32..50, 0u32..300), 1..20);
    let indexed = (runs, any::<bool>()).prop_map(|(runs, backwards)| {
        let mut end = 0;
        let place = |(gap, len): (u32, u32)| {
            let start = end + gap;
            end = start + len;
            (start, len)
        };
        let mut runs: Vec<_> = runs.into_iter().map(place).collect();
        if backwards {
            runs.reverse();
        }
        Layout::Indexed(runs.leak())
    });
    prop_oneof![Just(Layout::Contiguous), strided, indexed]
}

/// The bytes of `data` that a layout names, in order.
pub fn gathered(layout: &Layout, data: &[u8]) -> Vec<u8> {
    places(layout, data.len()).into_iter().map(|place| data[place]).collect()
}

/// Bytes of memory that `len` bytes of data in a layout reach over; `None` if it has fewer.
pub fn reach(layout: &Layout, len: usize) -> Option<usize> {
    (0..len)
        .map(|index| place(layout, index).map(|place| place + 1))
        .try_fold(0, |end, place| Some(end.max(place?)))
}

/// `memory` with `data` placed from `at` on.
pub fn scattered(layout: &Layout, memory: &[u8], at: usize, data: &[u8]) -> Vec<u8> {
    let mut memory = memory.to_vec();
    for (index, &byte) in data.iter().enumerate() {
        memory[at + place(layout, index).unwrap()] = byte;
    }
    memory
}
