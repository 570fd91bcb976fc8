//! Whether a flattened device tree hangs together (Devicetree Specification 0.4, chapter 5): seen to once, before anybody
//! reads it, so that reading cannot go wrong (SPEC D-9, R-5).
//!
//! Names are as long as their makers want: trees of real boards break the specification's 31 letters.

use super::TreeError;
use dtoolkit::fdt::Fdt;

/// What a tree begins with.
pub const MAGIC: u32 = 0xd00d_feed;
/// Bytes of a header.
pub const HEADER_BYTES: usize = 40;
/// No tree is longer, by the boot protocol; `boot` maps no more.
pub const MOST_BYTES: usize = 2 << 20;
/// The layout that is understood.
const VERSION: u32 = 17;
/// Nodes within nodes, the root included.
pub const MOST_DEPTH: usize = 16;

const BEGIN_NODE: u32 = 1;
const END_NODE: u32 = 2;
const PROPERTY: u32 = 3;
const NOP: u32 = 4;
const END: u32 = 9;

const DAMAGED: TreeError = TreeError::of("damage: what its header or its nodes say of themselves cannot be");

/// The tree in `bytes`, which may be longer.
///
/// # Errors
/// It is none, or not a whole one.
pub fn open(bytes: &[u8]) -> Result<Fdt<'_>, TreeError> {
    let whole = check(bytes).ok_or(DAMAGED)?;
    let depth = depth(whole).ok_or(DAMAGED)?;
    if depth > MOST_DEPTH {
        return Err(TreeError::of("too many nodes within nodes"));
    }
    Ok(Fdt::new_unchecked(whole))
}

/// The 32-bit word at `offset`.
fn word(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().map(|word| u32::from_be_bytes(*word))
}

/// Field `number` of the header.
fn field(bytes: &[u8], number: usize) -> Option<usize> {
    word(bytes, 4 * number).map(|word| word as usize)
}

/// All of the tree, if its header is right and its reservations have an end.
fn check(bytes: &[u8]) -> Option<&[u8]> {
    let total = field(bytes, 1).filter(|_| word(bytes, 0) == Some(MAGIC))?;
    let tree = bytes.get(..total).filter(|tree| tree.len() >= HEADER_BYTES)?;
    if !(word(tree, 24)?..=word(tree, 20)?).contains(&VERSION) {
        return None;
    }
    let reservations = tree.get(field(tree, 4)?..)?;
    reservations.as_chunks::<16>().0.iter().position(|&pair| pair == [0; 16])?;
    Some(tree)
}

/// How deep the nodes are, if they are well formed.
fn depth(tree: &[u8]) -> Option<usize> {
    let strings = field(tree, 3)?;
    let strings = tree.get(strings..strings.checked_add(field(tree, 8)?)?)?;
    let start = field(tree, 2)?;
    let nodes = tree.get(..start.checked_add(field(tree, 9)?)?)?;
    if !start.is_multiple_of(4) || word(nodes, start)? != BEGIN_NODE {
        return None;
    }
    let (mut at, mut depth, mut deepest) = (start, 0usize, 0);
    // Properties come before a node's nodes.
    let mut may_have_properties = false;
    loop {
        let token = word(nodes, at)?;
        at += 4;
        match token {
            BEGIN_NODE => {
                at += string(nodes.get(at..)?)? + 1;
                depth += 1;
                deepest = deepest.max(depth);
                may_have_properties = true;
            }
            END_NODE => {
                depth = depth.checked_sub(1)?;
                may_have_properties = false;
                if depth == 0 {
                    break;
                }
            }
            PROPERTY if may_have_properties => {
                let (len, name) = (word(nodes, at)? as usize, word(nodes, at + 4)? as usize);
                string(strings.get(name..)?)?;
                at = at.checked_add(8 + len).filter(|&end| end <= nodes.len())?;
            }
            NOP => {}
            _ => return None,
        }
        at = at.next_multiple_of(4);
    }
    while word(nodes, at)? == NOP {
        at += 4;
    }
    (word(nodes, at)? == END).then_some(deepest)
}

/// Length of the text that `bytes` begin with.
fn string(bytes: &[u8]) -> Option<usize> {
    let len = bytes.iter().position(|&byte| byte == 0)?;
    core::str::from_utf8(&bytes[..len]).ok().map(str::len)
}
