//! How much of everything a tree may have (SPEC B-3).

use super::at::MOST_REGIONS;
use super::edited::{beginning, inserted, place};
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
    // In front of the first node within the root.
    let node = [beginning("reserved-memory"), beginning(area), cells([2, 2])].concat();
    let told = inserted(tree, place(tree, "memory@80000000"), &node);
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
    assert_eq!((problem.what, problem.node), ("more reserved areas of memory than 64", "firmware@80000000"));
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
fn b2_harts_that_spin_say_where_and_their_page_is_kept() {
    let spinning = |tree: &[u8], cpu: &str, address: &[u8]| {
        let tree = with_property(tree, cpu, "enable-method", b"spin-table\0");
        with_property(tree, cpu, "cpu-release-addr", address)
    };
    let both = spinning(GAPS[0], "cpu@16", &cells([0, 0x4f00_0060]));
    let machine = read(spinning(both, "cpu@17", &cells([0x4f00_0068])), 0x4020_0000, 0);
    assert_eq!(machine.problem, None);
    let spin: Vec<_> = machine.harts.iter().filter_map(|hart| hart.release.map(|at| (hart.id, at))).collect();
    assert_eq!(spin, [(0x100, 0x4f00_0060), (0x101, 0x4f00_0068)]);
    assert_eq!(machine.reserved, [region(0x4f00_0000, 0x1000)]);
    // The method of all, said once; those that PSCI starts say so.
    let all = with_property(GAPS[0], "cpus", "enable-method", b"spin-table\0");
    assert!(read(all, 0x4020_0000, 0).harts.iter().all(|hart| hart.release.is_none()));
    // Without a place, and at one where no word is.
    let problem = |tree| read(tree, 0x4020_0000, 0).problem.unwrap();
    let none = problem(with_property(GAPS[0], "cpu@16", "enable-method", b"spin-table\0"));
    assert_eq!((none.what, none.node), ("a spin-table without cpu-release-addr", "cpu@16"));
    let odd = problem(spinning(GAPS[0], "cpu@16", &cells([0, 0x4f00_0064])));
    assert_eq!((odd.what, odd.node), ("a cpu-release-addr that is no multiple of 8", "cpu@16"));
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
