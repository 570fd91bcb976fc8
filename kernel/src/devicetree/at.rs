//! A node of the device tree in its surroundings: what its properties mean depends on the nodes around it.

use super::{Interrupt, TreeError, UartKind};
use crate::layout::{Bank, Region};
use dtoolkit::fdt::FdtNode;
use dtoolkit::{Node as _, Property as _, ToCellInt as _};
use heapless::Vec;

/// Most pairs of address and length of a node that are read.
pub const MOST_REGIONS: usize = 4;
/// Most interrupts of a node that are read.
const MOST_INTERRUPTS: usize = 8;

/// A node and the one around it.
#[derive(Clone, Copy)]
pub struct At<'o> {
    pub node: FdtNode<'static>,
    pub outer: Option<&'o At<'o>>,
}

/// The interrupt controller that the kernel drives.
#[derive(Clone, Copy, Debug)]
pub struct Parent {
    /// What others call it.
    pub phandle: Option<u32>,
    /// Cells of an interrupt.
    pub cells: usize,
    /// Cells of an address in front of it, where a map of interrupts names it.
    pub address_cells: usize,
}

/// What devices on a bus call memory.
const DMA_RANGES: &str = "dma-ranges";

/// Cells as one number.
pub fn number(cells: &[[u8; 4]]) -> u64 {
    cells.iter().fold(0, |number, &cell| number << 32 | u64::from(u32::from_be_bytes(cell)))
}

/// The value of a node's property.
pub fn value(node: &FdtNode<'static>, name: &str) -> Option<&'static [u8]> {
    node.property(name)?.value_as().ok()
}

/// The same as text.
pub fn text(node: &FdtNode<'static>, name: &str) -> Option<&'static str> {
    node.property(name)?.value_as().ok()
}

/// The same as a number of 32 bits, the first if there are more.
pub fn cell(node: &FdtNode<'static>, name: &str) -> Option<u32> {
    value(node, name)?.first_chunk().map(|cell| u32::from_be_bytes(*cell))
}

/// The same as a rate, or what else 0 is not: 32 or 64 bits.
pub fn nonzero(node: &FdtNode<'static>, name: &str) -> Option<u64> {
    let rate = match *value(node, name)? {
        [_, _, _, _] => u64::from(cell(node, name)?),
        [_, _, _, _, _, _, _, _] => u64::from_be_bytes(*value(node, name)?.first_chunk()?),
        _ => 0,
    };
    Some(rate).filter(|&rate| rate > 0)
}

/// Whether the node is there to be used: a device that its status calls anything but `okay` is somebody else's, or none.
pub fn is_available(node: &FdtNode<'static>) -> bool {
    value(node, "status").is_none_or(|status| matches!(status, b"okay\0" | b"ok\0"))
}

impl At<'_> {
    /// An error in this node.
    pub fn error(&self, what: &'static str) -> TreeError {
        TreeError { what, node: self.node.name() }
    }

    /// The address of a network card: that which firmware used last, else that which it was made with. Zeros hold the place of
    /// one that nobody has filled in.
    ///
    /// # Errors
    /// It is not of six bytes, or a group's.
    pub fn station(&self) -> Result<Option<[u8; 6]>, TreeError> {
        let mut told = ["mac-address", "local-mac-address"].iter().filter_map(|name| value(&self.node, name));
        let Some(bytes) = told.find(|bytes| **bytes != [0; 6]) else { return Ok(None) };
        let station = bytes.try_into().ok().filter(|station: &[u8; 6]| station[0] & 1 == 0);
        station.map(Some).ok_or(self.error("a network card whose address is no station's"))
    }

    /// Where the node's registers lie for a hart, through all the buses around it, the first [`MOST_REGIONS`]; those of no length are
    /// left out.
    ///
    /// # Errors
    /// A bus says nothing of them, or they cannot be read.
    pub fn regions(&self) -> Result<Vec<Region, MOST_REGIONS>, TreeError> {
        let mut regions = Vec::new();
        self.each_region(MOST_REGIONS, |region| {
            // There is room for so many.
            let _ = regions.push(region);
            Ok(())
        })?;
        Ok(regions)
    }

    /// Calls `each` for these, as many as the node has but no more than `most`.
    ///
    /// # Errors
    /// As of [`regions`](Self::regions), and that of `each`.
    pub fn each_region(
        &self,
        most: usize,
        mut each: impl FnMut(Region) -> Result<(), TreeError>,
    ) -> Result<(), TreeError> {
        let unreadable = || self.error("addresses that cannot be read");
        let Some(pairs) = self.node.reg().map_err(|_| unreadable())? else { return Ok(()) };
        for pair in pairs.take(most) {
            let (start, bytes) =
                pair.address::<u64>().ok().zip(pair.size::<u64>().ok()).ok_or_else(unreadable)?;
            if bytes > 0 {
                let start = self.seen_by_harts(start, bytes)?;
                let (start, bytes) = (start as usize, bytes as usize);
                start.checked_add(bytes).ok_or_else(unreadable)?;
                each(Region { start, bytes })?;
            }
        }
        Ok(())
    }

    /// The first of the [`regions`](Self::regions).
    ///
    /// # Errors
    /// There is none.
    pub fn registers(&self) -> Result<Region, TreeError> {
        self.regions()?.first().copied().ok_or(self.error("a device without registers"))
    }

    /// Whether the device sees memory through the harts' caches; `usual` if neither its node nor one around it says so.
    pub fn is_coherent(&self, usual: bool) -> bool {
        let says = |name| self.node.property(name).is_some();
        match (says("dma-coherent"), says("dma-noncoherent"), self.outer) {
            (false, false, Some(outer)) => outer.is_coherent(usual),
            (false, false, None) => usual,
            (coherent, ..) => coherent,
        }
    }

    /// The ranges of this bus that a property tells: the cells of the first address on it, the same on the bus around it, and bytes.
    pub fn ranges(&self, name: &str) -> impl Iterator<Item = (&'static [[u8; 4]], u64, u64)> {
        let cells =
            |node: &FdtNode<'static>, name, most| cell(node, name).unwrap_or(2).clamp(1, most) as usize;
        let own = cells(&self.node, "#address-cells", 3);
        let outer = self.outer.map_or(2, |outer| cells(&outer.node, "#address-cells", 2));
        let bytes = cells(&self.node, "#size-cells", 2);
        let (all, _) = value(&self.node, name).unwrap_or_default().as_chunks::<4>();
        all.chunks_exact(own + outer + bytes).map(move |range| {
            let (on_bus, rest) = range.split_at(own);
            let (outer, bytes) = rest.split_at(outer);
            (on_bus, number(outer), number(bytes))
        })
    }

    /// Whether devices on this bus call all memory as harts do, through the buses around it too.
    pub fn is_one_to_one(&self, banks: &[Bank]) -> bool {
        // The root's addresses are the harts'.
        let Some(outer) = self.outer else { return true };
        // Nothing said of them means that the two are one.
        let is_silent = value(&self.node, DMA_RANGES).is_none_or(<[u8]>::is_empty);
        let is_seen = |Bank { region, .. }: &Bank| {
            self.ranges(DMA_RANGES).any(|(on_bus, outer, bytes)| {
                let (start, end) = (region.start as u64, region.end() as u64);
                // Of three cells the first says of what kind it is.
                number(&on_bus[on_bus.len().saturating_sub(2)..]) == outer
                    && outer <= start
                    && outer.checked_add(bytes).is_none_or(|behind| end <= behind)
            })
        };
        (is_silent || banks.iter().all(is_seen)) && outer.is_one_to_one(banks)
    }

    /// What harts call an address of the bus that this node is on.
    pub fn seen_by_harts(&self, mut address: u64, bytes: u64) -> Result<u64, TreeError> {
        let mut bus = self.outer;
        // The root's addresses are the harts'.
        while let Some(At { outer: Some(outer), .. }) = bus.copied().as_ref() {
            address = bus.map_or(Ok(address), |bus| bus.map(address, bytes))?;
            bus = Some(outer);
        }
        Ok(address)
    }

    /// What is `address` on this bus, on the one around it.
    fn map(&self, address: u64, bytes: u64) -> Result<u64, TreeError> {
        let none = self.error("a bus without `ranges` for a device on it");
        // Nothing said of them means that the two are one.
        if value(&self.node, "ranges").ok_or(none)?.is_empty() {
            return Ok(address);
        }
        let ranges = self.node.ranges().ok().flatten().ok_or(none)?;
        let mapped = ranges.filter_map(|range| {
            let from = range.child_bus_address.to_int::<u64>().ok()?;
            let to = range.parent_bus_address.to_int::<u64>().ok()?;
            let length = range.length.to_int::<u64>().ok()?;
            let inside = address.checked_sub(from)?;
            (inside.checked_add(bytes)? <= length).then_some(to.checked_add(inside)?)
        });
        mapped.take(1).next().ok_or(none)
    }

    /// The interrupts that the node has at `parent`, the first [`MOST_INTERRUPTS`].
    ///
    /// # Errors
    /// They go somewhere else.
    pub fn interrupts(&self, parent: Parent) -> Result<Vec<Interrupt, MOST_INTERRUPTS>, TreeError> {
        let elsewhere = self.error("an interrupt that does not go to the interrupt controller");
        if let Some(pairs) = value(&self.node, "interrupts-extended") {
            let (cells, _) = pairs.as_chunks::<4>();
            return cells
                .chunks(1 + parent.cells)
                .take(MOST_INTERRUPTS)
                .map(|cells| match cells {
                    [phandle, cells @ ..] if Some(u32::from_be_bytes(*phandle)) == parent.phandle => {
                        interrupt(cells).ok_or(elsewhere)
                    }
                    _ => Err(elsewhere),
                })
                .collect();
        }
        let Some(cells) = value(&self.node, "interrupts") else { return Ok(Vec::new()) };
        let told = self.inherited("interrupt-parent");
        if told.is_some() && told != parent.phandle {
            return Err(elsewhere);
        }
        let (cells, _) = cells.as_chunks::<4>();
        let each = cells.chunks_exact(parent.cells).take(MOST_INTERRUPTS);
        each.map(|cells| interrupt(cells).ok_or(elsewhere)).collect()
    }

    /// Where a cpu spins until it is told to go on, if it does: its node says how it starts, or that around it.
    ///
    /// # Errors
    /// It spins, and there is no such word.
    pub fn release(&self) -> Result<Option<usize>, TreeError> {
        let method = |at: &At<'_>| text(&at.node, "enable-method");
        if method(self).or_else(|| method(self.outer?)) != Some("spin-table") {
            return Ok(None);
        }
        let none = self.error("a spin-table without cpu-release-addr");
        let address = nonzero(&self.node, "cpu-release-addr").ok_or(none)?;
        let is_word = address.is_multiple_of(8);
        is_word
            .then_some(Some(address as usize))
            .ok_or(self.error("a cpu-release-addr that is no multiple of 8"))
    }

    /// The form of a 16550's registers, or of Synopsys' UART's.
    ///
    /// # Errors
    /// Accesses of a width that nobody has, or that reach into the next register.
    pub fn ns16550(&self, synopsys: bool) -> Result<UartKind, TreeError> {
        let stride = 1 << cell(&self.node, "reg-shift").unwrap_or(0).min(4);
        let width = cell(&self.node, "reg-io-width").unwrap_or(1);
        if !matches!(width, 1 | 2 | 4) || width > stride {
            return Err(
                self.error("a reg-io-width that is not 1, 2 or 4, or more than reg-shift has room for")
            );
        }
        let [stride, width] = [stride, width].map(|bytes| bytes as u8);
        Ok(UartKind::Ns16550 { stride, width, synopsys })
    }

    /// A property of this node or of the nearest around it that has it.
    fn inherited(&self, name: &str) -> Option<u32> {
        let mut at = Some(self);
        core::iter::from_fn(|| {
            let here = at?;
            at = here.outer;
            Some(here)
        })
        .find_map(|at| cell(&at.node, name))
    }
}

/// An interrupt as the controller's cells say: at a GIC (shared or private, number, trigger), maybe with more that do
/// not matter; at an APLIC (number, trigger), of which falling edges and low levels are not known here; at a PLIC its number.
pub fn interrupt(cells: &[[u8; 4]]) -> Option<Interrupt> {
    const SHARED: u32 = 0;
    const PRIVATE: u32 = 1;
    const RISING: u32 = 1;
    const HIGH: u32 = 4;
    match *cells {
        [number, trigger] => {
            let [number, trigger] = [number, trigger].map(u32::from_be_bytes);
            matches!(trigger, RISING | HIGH).then_some(Interrupt { number, edge: trigger == RISING })
        }
        [number] => Some(Interrupt { number: u32::from_be_bytes(number), edge: false }),
        [kind, number, trigger, ..] => {
            let [kind, number, trigger] = [kind, number, trigger].map(u32::from_be_bytes);
            let first = match kind {
                SHARED => 32,
                PRIVATE => 16,
                _ => return None,
            };
            Some(Interrupt { number: number.checked_add(first)?, edge: trigger & 3 != 0 })
        }
        _ => None,
    }
}
