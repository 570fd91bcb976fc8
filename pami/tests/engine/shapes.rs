//! Layouts, and what a naive reading of them says.

use pami::Layout;
use pami::layout::{Cell, Run, StrideLevel, Table};
use proptest::prelude::*;

/// The places of the first `len` bytes of a layout, fewer if there are not so many.
fn first(layout: &Layout, len: usize) -> Vec<usize> {
    let places: Box<dyn Iterator<Item = usize>> = match *layout {
        Layout::Contiguous => Box::new(0..),
        Layout::Strided { block, stride } => {
            let (block, stride) = (block as usize, stride as usize);
            Box::new((0..).map(move |index| index / block * stride + index % block))
        }
        Layout::Indexed(runs) => {
            Box::new(runs.iter().flat_map(|&(start, len)| start..start + len).map(|place| place as usize))
        }
        Layout::Table(table, count) => Box::new(of_table(table, count).into_iter()),
    };
    places.take(len).collect()
}

/// The places of all bytes of so many elements, from the lowest on.
fn of_table(table: &Table, count: u32) -> Vec<usize> {
    let mut origins: Vec<i64> = (0..i64::from(count)).map(|element| element * table.extent()).collect();
    let levels: Vec<_> = table.levels().collect();
    for level in levels.into_iter().rev() {
        let inside = |at: i64| (0..i64::from(level.count)).map(move |number| at + number * level.stride);
        origins = origins.into_iter().flat_map(inside).collect();
    }
    let block = |at: i64, run: Run| {
        (0..i64::from(run.count)).flat_map(move |number| {
            let start = at + run.offset + number * run.stride;
            start..start + i64::from(run.block)
        })
    };
    let places: Vec<i64> =
        origins.into_iter().flat_map(|at| table.runs().flat_map(move |run| block(at, run))).collect();
    let low = places.iter().copied().min().unwrap_or(0);
    places.into_iter().map(|place| (place - low) as usize).collect()
}

/// The places of all bytes that a layout names in `extent` bytes.
pub fn places(layout: &Layout, extent: usize) -> Vec<usize> {
    first(layout, extent).into_iter().take_while(|&place| place < extent).collect()
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
    prop_oneof![Just(Layout::Contiguous), strided, indexed, tables()]
}

/// Something that is repeated `count` times, forwards or backwards, with a gap in between.
type Repeated = (u32, i64, bool);

fn repeated(most: u32) -> impl Strategy<Value = Repeated> {
    (1..most, 0i64..20, any::<bool>())
}

/// Where the first one begins, from one to the next, and how far it all reaches, if each reaches over `span` bytes.
fn spread((count, gap, backwards): Repeated, span: i64) -> (i64, i64, i64) {
    let (stride, last) = (span + gap, i64::from(count - 1) * (span + gap));
    if backwards { (last, -stride, last + span) } else { (0, stride, last + span) }
}

/// Lists of runs that each are blocks at a distance, with levels around them.
fn tables() -> impl Strategy<Value = Layout> {
    let runs = proptest::collection::vec((0u32..60, repeated(4)), 1..5);
    let levels = proptest::collection::vec(repeated(4), 0..4);
    (runs, levels, repeated(4)).prop_map(|(runs, levels, elements)| {
        let mut end = 0;
        let run = |(block, blocks): (u32, Repeated)| {
            let (first, stride, reach) = spread(blocks, block.into());
            let offset = end + first;
            end += reach;
            Run { offset, block, count: blocks.0, stride, tag: 0 }
        };
        let runs: Vec<_> = runs.into_iter().map(run).collect();
        let level = |level: Repeated| {
            let (_, stride, reach) = spread(level, end);
            end = reach;
            StrideLevel { count: level.0, stride }
        };
        let levels: Vec<_> = levels.into_iter().map(level).collect();
        let (_, extent, _) = spread(elements, end);
        let cells: Vec<_> = (0..runs.len() + levels.len()).map(|_| Cell::new()).collect();
        let table: &'static Table = Box::leak(Box::new(Table::new(cells.leak())));
        table.set(&runs, &levels, extent).unwrap();
        Layout::Table(table, elements.0)
    })
}

/// Bytes of memory that a layout with an end is used on; `otherwise` for one without.
pub fn extent(layout: &Layout, otherwise: usize) -> usize {
    match *layout {
        Layout::Contiguous | Layout::Strided { .. } => otherwise,
        Layout::Indexed(runs) => runs.iter().map(|run| (run.0 + run.1) as usize).max().unwrap_or(0),
        Layout::Table(table, count) => of_table(table, count).into_iter().max().map_or(0, |last| last + 1),
    }
}

/// The bytes of `data` that a layout names, in order.
pub fn gathered(layout: &Layout, data: &[u8]) -> Vec<u8> {
    places(layout, data.len()).into_iter().map(|place| data[place]).collect()
}

/// Bytes of memory that `len` bytes of data in a layout reach over; `None` if it has fewer.
pub fn reach(layout: &Layout, len: usize) -> Option<usize> {
    let places = first(layout, len);
    (places.len() == len).then(|| places.into_iter().max().map_or(0, |last| last + 1))
}

/// `memory` with `data` placed from `at` on.
pub fn scattered(layout: &Layout, memory: &[u8], at: usize, data: &[u8]) -> Vec<u8> {
    let mut memory = memory.to_vec();
    for (place, &byte) in first(layout, data.len()).into_iter().zip(data) {
        memory[at + place] = byte;
    }
    memory
}
