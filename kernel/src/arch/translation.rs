//! The node's one translation: every address stands for itself, with the rights that it needs (SPEC N-10).

use super::this::caches::UNCACHED;
use super::this::translation::{PageEntry, install, is_wide};
use super::{image, uncached};
use crate::devicetree::{CardSlot, Controller, Machine, SlotKind};
use crate::layout::{Bank, Region};
use crate::paging::{Format as _, MapError, MemoryType, PageTables, Table};
use boot::HARTS;
use core::cell::UnsafeCell;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};

/// Tables: a root, and some for each gigabyte and each two megabytes that are not mapped as a whole.
const TABLES: usize = 76;

struct TableMemory(UnsafeCell<[Table; TABLES]>);

// SAFETY: `translate` takes it once, before other harts start; after that only the hardware reads it.
unsafe impl Sync for TableMemory {}

static POOL: TableMemory = TableMemory(UnsafeCell::new([Table::EMPTY; TABLES]));
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Only what lies below it can be mapped.
pub(crate) fn mapped_end(machine: &Machine) -> usize {
    PageEntry::end(is_wide(machine))
}

/// Whether devices are where the tree says.
static DEVICES: AtomicBool = AtomicBool::new(false);

/// Maps image, stacks, tree, `free` memory and the devices that the tree names, and turns the translation on.
/// The pages below the stacks stay unmapped, and that of address 0 unless harts spin in it. If that fails, what it takes to say so is mapped.
pub(crate) fn translate(machine: &Machine, free: &[Bank]) -> Result<(), MapError> {
    if TAKEN.swap(true, Ordering::AcqRel) {
        return Err(MapError::Twice);
    }
    // SAFETY: the flag makes this the only reference.
    let pool = unsafe { &mut *POOL.0.get() };
    let mapped = map_image(pool, machine).and_then(|tables| map_rest(tables, machine, free));
    let root = match mapped {
        Ok(root) => root,
        Err(_) => map_image(pool, machine)?.root(),
    };
    if needs_uncached(machine) {
        uncached::set_mapped();
    }
    install(root, is_wide(machine));
    DEVICES.store(true, Ordering::Release);
    mapped.map(|_| ())
}

/// Whether the translation maps the console, as far as the kernel knows one.
pub(crate) fn maps_devices() -> bool {
    DEVICES.load(Ordering::Acquire)
}

/// Whether a network card does not see the caches, and there is something to be done about it.
fn needs_uncached(machine: &Machine) -> bool {
    let apart = |slot: &CardSlot| matches!(slot.kind, SlotKind::Gem { coherent: false, .. });
    UNCACHED && machine.slots.iter().any(apart)
}

/// A translation of image, stacks, tree, console and what ends the machine.
fn map_image<'p>(pool: &'p mut [Table], machine: &Machine) -> Result<PageTables<'p, PageEntry>, MapError> {
    let mut tables = PageTables::<PageEntry>::new(pool, is_wide(machine))?;
    tables.map(range(image::text()), MemoryType::Code)?;
    tables.map(range(image::rodata()), MemoryType::Constant)?;
    let apart = uncached::region();
    for data in image::data() {
        if data.contains(apart.start) && needs_uncached(machine) {
            tables.map(range(Region::between(data.start, apart.start)), MemoryType::Data)?;
            tables.map(range(apart), MemoryType::Device)?;
            tables.map(range(Region::between(apart.end(), data.end())), MemoryType::Data)?;
        } else {
            tables.map(range(data), MemoryType::Data)?;
        }
    }
    for hart in 0..HARTS {
        for stack in [boot::stack(hart), boot::emergency_stack(hart)].into_iter().flatten() {
            tables.map(stack.bottom..stack.top, MemoryType::Data)?;
        }
    }
    tables.map(range(machine.tree), MemoryType::Constant)?;
    if let Some(uart) = machine.uart {
        tables.map(range(uart.registers), MemoryType::Device)?;
    }
    if let Some(finisher) = machine.finisher {
        tables.map(range(finisher), MemoryType::Device)?;
    }
    Ok(tables)
}

/// Adds the rest and returns the root's address.
fn map_rest(
    mut tables: PageTables<'_, PageEntry>,
    machine: &Machine,
    free: &[Bank],
) -> Result<usize, MapError> {
    for piece in free {
        tables.map(range(piece.region), MemoryType::Data)?;
    }
    match machine.controller {
        Some(
            Controller::GicV3 { distributor: a, redistributors: b, its: more, .. }
            | Controller::GicV2 { distributor: a, interface: b, frame: more },
        ) => {
            for region in [a, b].into_iter().chain(more) {
                tables.map(range(region), MemoryType::Device)?;
            }
        }
        Some(Controller::Plic { registers } | Controller::Aplic { registers, .. }) => {
            tables.map(range(registers), MemoryType::Device)?;
        }
        Some(Controller::Imsic { registers, files, .. }) => {
            for region in [registers].into_iter().chain(files.regions) {
                tables.map(range(region), MemoryType::Device)?;
            }
        }
        Some(Controller::Events) | None => {}
    }
    // Harts that spin share pages.
    for (number, hart) in machine.harts.iter().enumerate() {
        let known = |page| machine.harts[..number].iter().any(|other| other.release_page() == Some(page));
        if let Some(page) = hart.release_page().filter(|&page| !known(page)) {
            tables.map(range(page), MemoryType::Device)?;
        }
    }
    if let Some(pci) = machine.pci {
        tables.map(range(pci.configuration), MemoryType::Device)?;
        tables.map(range(pci.window), MemoryType::Device)?;
    }
    // Slots are smaller than pages on some machines; they come by rising address.
    let mut mapped = 0;
    for slot in &machine.slots {
        let pages = slot.registers.grown_to_pages();
        let rest = Region::between(pages.start.max(mapped), pages.end());
        tables.map(range(rest), MemoryType::Device)?;
        mapped = pages.end();
    }
    Ok(tables.root())
}

fn range(region: Region) -> Range<usize> {
    let pages = region.grown_to_pages();
    pages.start..pages.end()
}
