//! How much of everything a tree may have (SPEC B-3).

use super::at::MOST_REGIONS;
use super::*;
use std::format;

/// `count` pairs of address and length in two cells each, a MiB at every second MiB from `start` on.
fn regions(start: u32, count: u32) -> Vec<u8> {
    (0..count).flat_map(|index| cells([0, start + (index << 21), 0, 1 << 20])).collect()
}

#[test]
fn b3_all_banks_of_a_node_are_read_and_one_beyond_the_limit_is_refused() {
    let memory = |count| with_property(RISCV, "memory@80000000", "reg", &regions(0x8000_0000, count));
    // More than a device's registers are read of.
    for count in [1, MOST_REGIONS as u32 + 1, MAX_BANKS as u32] {
        let machine = read(memory(count), 0x8000_0000, 0);
        assert_eq!((machine.problem, machine.banks.len()), (None, count as usize));
        let last = region(0x8000_0000 + ((count as usize - 1) << 21), 1 << 20);
        assert_eq!(machine.banks.last().unwrap().region, last);
    }
    let problem = read(memory(MAX_BANKS as u32 + 1), 0x8000_0000, 0).problem.unwrap();
    assert!(problem.what.contains(&format!("more banks of memory than {MAX_BANKS}")), "{problem}");
    assert_eq!(problem.node, "memory@80000000");
}

/// The tree with a node for what is reserved, which has one area in it.
fn with_area(tree: &[u8], area: &str, regions: &[u8]) -> &'static [u8] {
    let word = |at: usize| u32::from_be_bytes(tree[at..at + 4].try_into().unwrap());
    let begin = |name: &str| {
        let mut bytes = [&cells([1])[..], name.as_bytes(), b"\0"].concat();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    };
    let nodes = word(8) as usize;
    // In front of the first node within the root.
    let first = (nodes + 8..tree.len())
        .step_by(4)
        .find(|&at| tree[at..].starts_with(&begin("memory@80000000")))
        .unwrap();
    let node = [begin("reserved-memory"), begin(area), cells([2, 2])].concat();
    let mut told = [&tree[..first], &node, &tree[first..]].concat();
    for field in [4, 12, 36] {
        told[field..field + 4].copy_from_slice(&(word(field) + node.len() as u32).to_be_bytes());
    }
    let told = with_property(&told, area, "reg", regions);
    let told = with_property(told, "reserved-memory", "ranges", &[]);
    let told = with_property(told, "reserved-memory", "#address-cells", &cells([2]));
    with_property(told, "reserved-memory", "#size-cells", &cells([2]))
}

#[test]
fn b3_all_areas_of_a_node_are_reserved_and_one_beyond_the_limit_is_refused() {
    let reserved =
        |count| read(with_area(RISCV, "firmware@80000000", &regions(0x8000_0000, count)), 0x8020_0000, 0);
    for count in [1, MOST_REGIONS as u32 + 1, MAX_RESERVED as u32] {
        let machine = reserved(count);
        assert_eq!((machine.problem, machine.reserved.len()), (None, count as usize));
        let last = region(0x8000_0000 + ((count as usize - 1) << 21), 1 << 20);
        assert_eq!(machine.reserved.last(), Some(&last));
    }
    let problem = reserved(MAX_RESERVED as u32 + 1).problem.unwrap();
    assert_eq!((problem.what, problem.node), ("more reserved areas of memory than 16", "firmware@80000000"));
}

#[test]
fn b3_harts_beyond_the_limit_are_refused() {
    // 80 harts that are there, and as many that are not.
    let copies = |count: u32, status: Option<&'static str>| {
        let mut tree = GAPS[0];
        for id in 0..count {
            // As long as the name of which it is a copy.
            let name = format!("cpu@{}{}", char::from(b'g' + id as u8 / 10), id % 10);
            let told = [("reg", cells([id + 0x200])), ("phandle", cells([id + 0x5000]))];
            tree = with_copy(tree, "cpu@16", &name, &told);
            if let Some(status) = status {
                tree = with_property(tree, &name, "status", format!("{status}\0").as_bytes());
            }
        }
        read(tree, 0x4020_0000, 0)
    };
    let ours = read(GAPS[0], 0x4020_0000, 0).harts.len() as u32;
    let full = copies(HARTS as u32 - ours, None);
    assert_eq!((full.problem, full.harts.len()), (None, HARTS));
    let problem = copies(HARTS as u32 - ours + 1, None).problem.unwrap();
    assert!(problem.what.contains(&format!("more than {HARTS} harts")), "{problem}");
    assert!(problem.node.starts_with("cpu@"), "{problem}");
    // Those that are not for us do not count.
    for status in ["disabled", "fail", "reserved"] {
        let machine = copies(80, Some(status));
        assert_eq!((machine.problem, machine.harts.len()), (None, ours as usize), "{status}");
    }
}

#[test]
fn b1_controllers_that_each_reach_some_of_the_harts_are_refused_as_such() {
    // The harts' own controllers are 4 and 2: as of two sockets, with a domain or a PLIC each.
    let halves = |tree: &[u8], both: &[u8], node: &str, other: &str| {
        let (first, second) = (cells([4, 9, 0x82, 9]), cells([2, 9, 0x84, 9]));
        let told = [("phandle", cells([0x66])), ("interrupts-extended", second)];
        read(with_copy(patched(tree, both, &first), node, other, &told), 0x8020_0000, 1).problem.unwrap()
    };
    let problem = halves(APLIC, &cells([4, 9, 2, 9]), "aplic@d000000", "aplic@b000000");
    assert!(problem.what.contains("one for all of them is wanted"), "{problem}");
    assert_eq!(problem.node, "aplic@b000000");
}
