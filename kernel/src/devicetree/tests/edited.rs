//! Device trees with something changed in them, as their bytes lie; the tests that boot guests change trees by these, too.

use std::format;
use std::vec::Vec;

/// Places of a header's fields: bytes of all, where nodes and strings begin, bytes of both.
const TOTAL: usize = 4;
const NODES: usize = 8;
const STRINGS: usize = 12;
const STRING_BYTES: usize = 32;
const NODE_BYTES: usize = 36;

/// Cells as their bytes lie.
pub fn cells<const N: usize>(cells: [u32; N]) -> Vec<u8> {
    cells.iter().flat_map(|cell| cell.to_be_bytes()).collect()
}

fn word(tree: &[u8], at: usize) -> usize {
    u32::from_be_bytes(tree[at..at + 4].try_into().unwrap()) as usize
}

/// A field of the header is so much more.
fn add(tree: &mut [u8], field: usize, bytes: usize) {
    let sum = (word(tree, field) + bytes) as u32;
    tree[field..field + 4].copy_from_slice(&sum.to_be_bytes());
}

/// How a node of this name begins, up to its properties.
pub fn beginning(name: &str) -> Vec<u8> {
    let mut bytes = [&cells([1])[..], name.as_bytes(), b"\0"].concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Where the first node of this name begins.
///
/// # Panics
/// If there is none.
pub fn place(tree: &[u8], node: &str) -> usize {
    let (nodes, strings, begin) = (word(tree, NODES), word(tree, STRINGS), beginning(node));
    (nodes..strings).step_by(4).find(|&at| tree[at..].starts_with(&begin)).expect("a node")
}

/// The tree with more among its nodes: these bytes at this place.
pub fn inserted(tree: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut told = [&tree[..at], bytes, &tree[at..]].concat();
    [TOTAL, STRINGS, NODE_BYTES].into_iter().for_each(|field| add(&mut told, field, bytes.len()));
    told
}

/// The tree with some bytes in place of others, wherever it has them.
///
/// # Panics
/// If it has them nowhere.
pub fn patched(tree: &[u8], old: &[u8], new: &[u8]) -> &'static [u8] {
    assert_eq!(old.len(), new.len());
    let mut patched = tree.to_vec();
    let places: Vec<usize> = (0..tree.len() - old.len()).filter(|&at| tree[at..].starts_with(old)).collect();
    assert!(!places.is_empty(), "the tree has no {old:?}");
    places.iter().for_each(|&at| patched[at..at + old.len()].copy_from_slice(new));
    patched.leak()
}

/// The tree with one more property of the first node of this name, in front of its others. What lies behind the strings goes.
///
/// # Panics
/// If there is no such node.
pub fn with_property(tree: &[u8], node: &str, name: &str, value: &[u8]) -> &'static [u8] {
    let (strings, string_bytes) = (word(tree, STRINGS), word(tree, STRING_BYTES));
    let mut property = [&cells([3, value.len() as u32, string_bytes as u32])[..], value].concat();
    property.resize(property.len().next_multiple_of(4), 0);
    let end = strings + string_bytes;
    let mut told = inserted(&tree[..end], place(tree, node) + beginning(node).len(), &property);
    told.extend_from_slice(name.as_bytes());
    told.push(0);
    add(&mut told, STRING_BYTES, name.len() + 1);
    let total = (told.len() as u32).to_be_bytes();
    told[TOTAL..TOTAL + 4].copy_from_slice(&total);
    told.leak()
}

/// The tree with a copy of the first node of this name in front of it, under a name as long, of which these properties are others.
///
/// # Panics
/// If there is no such node, or it has nodes within.
pub fn with_copy(tree: &[u8], node: &str, name: &str, told: &[(&str, Vec<u8>)]) -> &'static [u8] {
    let (start, strings) = (place(tree, node), word(tree, STRINGS));
    let mut copy = tree[start..].to_vec();
    copy[4..4 + node.len()].copy_from_slice(name.as_bytes());
    let mut at = start + beginning(node).len();
    while word(tree, at) == 3 {
        let (bytes, string) = (word(tree, at + 4), strings + word(tree, at + 8));
        for (_, value) in
            told.iter().filter(|(name, _)| tree[string..].starts_with(format!("{name}\0").as_bytes()))
        {
            copy[at + 12 - start..][..bytes].copy_from_slice(value);
        }
        at += 12 + bytes.next_multiple_of(4);
    }
    assert_eq!(word(tree, at), 2, "it has nodes within");
    inserted(tree, start, &copy[..at + 4 - start]).leak()
}
