//! A host bridge of PCI, as the tree describes one (`pci-host-ecam-generic`), and where its devices' interrupts go.

use super::at::{At, Parent, cell, interrupt, number, value};
use super::{Interrupt, TreeError};
use crate::layout::Region;

/// Most addresses that devices are given, in bytes.
pub const WINDOW_BYTES: usize = 2 << 20;
/// Bytes of the configuration space of a bus.
pub const BUS_BYTES: usize = 1 << 20;
/// Cells of an address on the bus.
const ADDRESS: usize = 3;
/// Bits of the first of them: memory of 32 bits, among ports, memory of 64 bits and configuration.
const KIND: u32 = 3 << 24;
const MEMORY: u32 = 2 << 24;

/// A host bridge.
#[derive(Clone, Copy, Debug)]
pub struct PciHost {
    /// Configuration space of the first bus.
    pub configuration: Region,
    /// Where harts see what devices on the bus may be given, at most [`WINDOW_BYTES`].
    pub window: Region,
    /// What devices call the first address of that.
    pub on_bus: u32,
    /// Where interrupts go.
    pub interrupts: InterruptMap,
    /// Where messages of devices go.
    pub(super) messages: Messages,
    /// Why a card behind it cannot be used, if so.
    pub problem: Option<TreeError>,
}

/// Where messages of devices go: all to one, by the numbers of their functions, or by a map of ranges of these (first, phandle, what
/// the first is called there, how many).
#[derive(Clone, Copy, Debug)]
pub(super) struct Messages {
    map: Option<&'static [[u8; 4]]>,
    /// Bits of a function's number that count in the map.
    mask: u32,
    parent: Option<u32>,
    bus: u32,
    /// What takes those that are the interrupt controller's.
    taken: Option<u32>,
}

/// Where interrupts of devices on the bus go.
#[derive(Clone, Copy, Debug)]
pub struct InterruptMap {
    /// Bits of address and pin that count.
    mask: [u32; 2],
    entries: &'static [[u8; 4]],
    parent: Parent,
    bus: u32,
}

impl PciHost {
    /// The bridge that a node describes, if there is memory of 32 bits behind it; with what is wrong with all cards there.
    ///
    /// # Errors
    /// What cannot be read of it.
    pub(super) fn read(
        at: &At<'_>,
        parent: Parent,
        problem: Option<TreeError>,
    ) -> Result<Option<Self>, TreeError> {
        let registers = at.registers()?;
        let Some((window, on_bus)) = window(at)? else { return Ok(None) };
        let configuration = Region { start: registers.start, bytes: BUS_BYTES };
        if registers.bytes < BUS_BYTES {
            return Ok(None);
        }
        let cells = |name| value(&at.node, name).unwrap_or_default().as_chunks::<4>().0;
        let mask = match *cells("interrupt-map-mask") {
            [high, _, _, pin] => [high, pin].map(u32::from_be_bytes),
            _ => [u32::MAX; 2],
        };
        // Configuration space begins with it, and its devices are those that are known.
        let bus = cell(&at.node, "bus-range").unwrap_or(0) & 0xff;
        let interrupts = InterruptMap { mask, entries: cells("interrupt-map"), parent, bus };
        let messages = Messages {
            map: value(&at.node, "msi-map").map(|map| map.as_chunks::<4>().0),
            mask: cell(&at.node, "msi-map-mask").unwrap_or(u32::MAX),
            parent: cell(&at.node, "msi-parent"),
            bus,
            taken: None,
        };
        Ok(Some(Self { configuration, window, on_bus, interrupts, messages, problem }))
    }

    /// What device `device` of the first bus is called where its messages go, if the interrupt controller takes them.
    pub fn sender(&self, device: u8) -> Option<u32> {
        let (phandle, called) = self.messages.of(device)?;
        (Some(phandle) == self.messages.taken).then_some(called)
    }
}

impl Messages {
    /// Ranges of the map.
    fn ranges(&self) -> impl Iterator<Item = [u32; 4]> {
        self.map.unwrap_or_default().as_chunks::<4>().0.iter().map(|range| range.map(u32::from_be_bytes))
    }

    /// What messages go to, in the order in which it is named.
    pub(super) fn named(&self) -> impl Iterator<Item = u32> {
        let parent = self.parent.filter(|_| self.map.is_none());
        self.ranges().map(|[_, phandle, ..]| phandle).chain(parent)
    }

    /// The interrupt controller takes what goes to this one, if to any.
    pub(super) fn take(&mut self, phandle: Option<u32>) {
        self.taken = phandle;
    }

    /// Where those of a device of the first bus go, and what it is called there. A map that leaves it out says that it sends none.
    fn of(&self, device: u8) -> Option<(u32, u32)> {
        let function = self.bus << 8 | u32::from(device) << 3;
        if self.map.is_none() {
            return Some((self.parent?, function));
        }
        let masked = function & self.mask;
        self.ranges().find_map(|[from, phandle, to, count]| {
            let index = masked.checked_sub(from).filter(|&index| index < count)?;
            Some((phandle, to.checked_add(index)?))
        })
    }
}

/// The first memory of 32 bits that is behind the bridge: where harts see it, and what devices call it.
fn window(at: &At<'_>) -> Result<Option<(Region, u32)>, TreeError> {
    for (on_bus, outer, bytes) in at.ranges("ranges") {
        let &[kind, ref on_bus @ ..] = on_bus else { continue };
        if on_bus.len() != ADDRESS - 1 || u32::from_be_bytes(kind) & KIND != MEMORY {
            continue;
        }
        let Ok(on_bus) = u32::try_from(number(on_bus)) else { continue };
        let bytes = bytes.min(WINDOW_BYTES as u64);
        let start = at.seen_by_harts(outer, bytes)? as usize;
        return Ok(Some((Region { start, bytes: bytes as usize }, on_bus)));
    }
    Ok(None)
}

impl InterruptMap {
    /// The interrupt that is pin `pin`, 1 to 4, of device `device` of the first bus, if it goes to the interrupt controller.
    pub fn find(&self, device: u8, pin: u8) -> Option<Interrupt> {
        let wanted = [self.bus << 16 | u32::from(device) << 11, u32::from(pin)];
        let Parent { phandle, cells, address_cells } = self.parent;
        let width = ADDRESS + 1 + 1 + address_cells + cells;
        self.entries.chunks_exact(width).find_map(|entry| {
            let (device, parent) = entry.split_at(ADDRESS + 1);
            let [high, .., pin] = *device else { return None };
            let (controller, parent) = parent.split_first()?;
            let is_it = [high, pin].map(u32::from_be_bytes).into_iter().zip(wanted).zip(self.mask);
            let is_it =
                is_it.map(|((told, wanted), mask)| (told ^ wanted) & mask).all(|differs| differs == 0);
            let is_ours = Some(u32::from_be_bytes(*controller)) == phandle;
            if is_it && is_ours { interrupt(parent.get(address_cells..)?) } else { None }
        })
    }
}
