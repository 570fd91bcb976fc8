//! Controllers of RISC-V's Advanced Interrupt Architecture, as the tree describes them. A tree may have several of a kind, for machines,
//! for supervisors, or for harts that are not ours; of each kind one is ours, that which interrupts all our harts as supervisors.

use super::at::{At, MOST_REGIONS, cell, value};
use super::{Controller, TreeError};
use crate::layout::Region;
use dtoolkit::fdt::FdtNode;
use dtoolkit::standard::NodeStandard as _;

/// What harts call the interrupts that controllers raise for supervisors.
pub(super) const SUPERVISOR_EXTERNAL: u32 = 9;
/// Bytes of a file.
const PAGE_BITS: u32 = 12;

/// Where harts' files of interrupts lie (`riscv,imsics`), each the first of its hart's pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Files {
    /// Pages, one after the other.
    pub regions: [Region; MOST_REGIONS],
    /// Each hart has `1 << guest_bits` pages.
    pub guest_bits: u32,
    /// Bits of an address that number a hart in its group, above those of its pages.
    pub hart_bits: u32,
    /// Bits that number the group.
    pub group_bits: u32,
    /// Where they begin.
    pub group_shift: u32,
    /// Interrupts that a file has.
    pub identities: u32,
}

/// Pairs of phandle and interrupt, one for each part of a controller that interrupts a hart.
pub(super) fn pairs(node: &FdtNode<'static>) -> &'static [[u8; 8]] {
    value(node, "interrupts-extended").unwrap_or_default().as_chunks().0
}

/// The interrupt of a pair, and whose.
pub(super) fn pair(&[a, b, c, d, e, f, g, h]: &[u8; 8]) -> (u32, u32) {
    (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]))
}

/// Whose controllers are looked for.
#[derive(Clone, Copy)]
pub(super) enum Whose<'h> {
    /// Those of all these harts, which are named by the phandles of their own controllers.
    All(&'h [u32]),
    /// Those of any harts: there are none for all of ours, and what is missing is to be told of the first that there is.
    Anybody,
}

/// Whether it interrupts them as supervisors.
fn interrupts(node: &FdtNode<'static>, whose: Whose<'_>) -> bool {
    let has = |wanted: (u32, u32)| pairs(node).iter().any(|bytes| pair(bytes) == wanted);
    match whose {
        Whose::All(harts) => !harts.is_empty() && harts.iter().all(|&hart| has((hart, SUPERVISOR_EXTERNAL))),
        Whose::Anybody => pairs(node).first().is_some_and(|first| pair(first).1 == SUPERVISOR_EXTERNAL),
    }
}

/// Whether it interrupts some of these harts as supervisors, and not all.
pub(super) fn is_partial(node: &FdtNode<'static>, harts: &[u32]) -> bool {
    let of = |hart: &u32| interrupts(node, Whose::All(&[*hart]));
    harts.iter().any(of) && !harts.iter().all(of)
}

/// Whether these are the harts' files for supervisors.
pub(super) fn is_imsic(node: &FdtNode<'static>, whose: Whose<'_>) -> bool {
    node.is_compatible("riscv,imsics") && interrupts(node, whose)
}

/// Whether a domain sends its interrupts to these files, and gives none to harts itself.
pub(super) fn sends_to(node: &FdtNode<'static>, imsic: Option<FdtNode<'static>>) -> bool {
    let to = cell(node, "msi-parent");
    to.is_some() && to == imsic.and_then(|imsic| cell(&imsic, "phandle"))
}

/// Whether it is the domain for supervisors, which gives interrupts to harts or sends them to `imsic`.
pub(super) fn is_aplic(node: &FdtNode<'static>, imsic: Option<FdtNode<'static>>, whose: Whose<'_>) -> bool {
    node.is_compatible("riscv,aplic") && (sends_to(node, imsic) || interrupts(node, whose))
}

/// What a domain's node says of it.
pub(super) fn domain(at: &At<'_>) -> Result<Controller, TreeError> {
    let sources = cell(&at.node, "riscv,num-sources").ok_or(at.error("an APLIC without sources"))?;
    Ok(Controller::Aplic { registers: at.registers()?, sources })
}

/// What the node of the harts' files says of them.
pub(super) fn files(at: &At<'_>) -> Result<Files, TreeError> {
    let number = |name| cell(&at.node, name);
    let mut regions = [Region::default(); MOST_REGIONS];
    let found = at.regions()?;
    regions[..found.len()].copy_from_slice(&found);
    let harts = pairs(&at.node).len();
    let files = Files {
        regions,
        guest_bits: number("riscv,guest-index-bits").unwrap_or(0),
        hart_bits: number("riscv,hart-index-bits").unwrap_or(harts.next_power_of_two().ilog2()),
        group_bits: number("riscv,group-index-bits").unwrap_or(0),
        group_shift: number("riscv,group-index-shift").unwrap_or(2 * PAGE_BITS),
        identities: number("riscv,num-ids").unwrap_or(0),
    };
    // As the architecture bounds them; at least 63 identities.
    let is_possible = files.guest_bits <= 6
        // An APLIC has 14 bits for both.
        && files.hart_bits <= 14
        && files.hart_bits + files.group_bits.min(14) <= 14
        && files.group_shift < usize::BITS
        && (63..2048).contains(&files.identities);
    if is_possible { Ok(files) } else { Err(at.error("numbers that no IMSIC has")) }
}
