//! On trees as QEMU 7.2's `virt` boards have them (`dumpdtb`, packed by `dtc`), named by architecture and
//! sockets x clusters x cores x threads, and on trees that no board should have.

use super::*;
use crate::devicetree::{at::value, sound::open};
use std::vec::Vec;

const AARCH64: [(&[u8], [u16; 4]); 4] = [
    (include_bytes!("trees/aarch64-2x1x2x2.dtb"), [2, 1, 2, 2]),
    (include_bytes!("trees/aarch64-1x1x4x2.dtb"), [1, 1, 4, 2]),
    (include_bytes!("trees/aarch64-2x2x2x1.dtb"), [2, 2, 2, 1]),
    (include_bytes!("trees/aarch64-3x1x2x1.dtb"), [3, 1, 2, 1]),
];
const RISCV64: &[u8] = include_bytes!("trees/riscv64-8.dtb");

/// The phandles of all cpu nodes, as the kernel finds them.
fn cpus(tree: Fdt<'static>) -> Vec<Option<u32>> {
    let is_cpu = |node: &FdtNode<'static>| value(node, "device_type") == Some(b"cpu\0");
    let cpus = tree.find_node("/cpus").unwrap();
    cpus.children().filter(is_cpu).map(|node| cell(&node, "phandle")).collect()
}

fn place(socket: u16, cluster: u16, core: u16, thread: u16) -> HartPlace {
    HartPlace { socket, cluster, core, thread }
}

#[test]
fn a2_harts_are_placed_as_the_emulator_was_told() {
    for (bytes, [sockets, clusters, cores, threads]) in AARCH64 {
        let tree = open(bytes).unwrap();
        let mut expected = Vec::new();
        for socket in 0..sockets {
            for cluster in 0..clusters {
                for core in 0..cores {
                    expected.extend((0..threads).map(|thread| place(socket, cluster, core, thread)));
                }
            }
        }
        assert_eq!(places(tree, &cpus(tree)).unwrap().to_vec(), expected);
    }
}

#[test]
fn a2_the_riscv_board_has_one_chip_whatever_it_was_told() {
    let tree = open(RISCV64).unwrap();
    let expected: Vec<_> = (0..8).map(|core| place(0, 0, core, 0)).collect();
    assert_eq!(places(tree, &cpus(tree)).unwrap().to_vec(), expected);
}

/// A flattened device tree of `/cpus` with `body` in it.
struct Maker {
    nodes: Vec<u8>,
}

impl Maker {
    fn cell(&mut self, cell: u32) {
        self.nodes.extend(cell.to_be_bytes());
    }

    fn begin(&mut self, name: &str) {
        self.cell(1);
        self.nodes.extend(name.bytes());
        let padded = self.nodes.len() + 4 - self.nodes.len() % 4;
        self.nodes.resize(padded, 0);
    }

    fn end(&mut self) {
        self.cell(2);
    }

    /// The property `cpu`, the only name there is.
    fn cpu(&mut self, phandle: u32) {
        for cell in [3, 4, 0, phandle] {
            self.cell(cell);
        }
    }

    /// Nodes in words: `name {` begins one, `}` ends it, a number is its cpu.
    fn of(words: &str) -> Vec<u8> {
        let mut maker = Self { nodes: Vec::new() };
        maker.begin("");
        maker.begin("cpus");
        for word in words.split_ascii_whitespace() {
            match (word, word.parse()) {
                (_, Ok(phandle)) => maker.cpu(phandle),
                ("}", _) => maker.end(),
                ("{", _) => {}
                (name, _) => maker.begin(name),
            }
        }
        maker.end();
        maker.end();
        maker.cell(9);
        const HEAD: usize = 40 + 16;
        let strings = HEAD + maker.nodes.len();
        let total = strings + 4;
        let mut tree = Vec::new();
        let head = [0xd00d_feed, total, HEAD, strings, 40, 17, 16, 0, 4, maker.nodes.len()];
        tree.extend(head.into_iter().flat_map(|cell| (cell as u32).to_be_bytes()));
        tree.extend([0; 16]);
        tree.extend(maker.nodes);
        tree.extend(b"cpu\0");
        tree
    }
}

/// What the words' map makes of harts with phandles 1 to `harts`.
fn read(words: &str, harts: u32) -> Result<Vec<HartPlace>, CpuMapError> {
    let bytes = Maker::of(words).leak();
    let cpus: Vec<_> = (1..=harts).map(Some).collect();
    // Sound, but for how deep it is.
    places(Fdt::new_unchecked(bytes), &cpus).map(|places| places.to_vec())
}

#[test]
fn a2_any_kind_but_cores_may_be_left_out() {
    let flat = "cpu-map { core0 { 2 } core1 { 1 } }";
    assert_eq!(read(flat, 2), Ok([place(0, 0, 1, 0), place(0, 0, 0, 0)].to_vec()));
    let no_cluster = "cpu-map { socket0 { core0 { 1 } } socket1 { core0 { thread0 { 2 } thread1 { 3 } } } }";
    assert_eq!(read(no_cluster, 3), Ok([place(0, 0, 0, 0), place(1, 0, 0, 0), place(1, 0, 0, 1)].to_vec()));
    let empty = "cpu-map { cluster0 { core0 { } core1 { 1 } } cluster1 { } }";
    assert_eq!(read(empty, 1), Ok([place(0, 0, 1, 0)].to_vec()));
    let others = "l2-cache { } cpu-map { note { 7 } cluster0 { core0 { 1 } } }";
    assert_eq!(read(others, 1), Ok([place(0, 0, 0, 0)].to_vec()));
}

#[test]
fn a2_the_innermost_clusters_are_the_chips() {
    let nested = "cpu-map { socket0 { cluster0 { cluster0 { core0 { 1 } } cluster1 { core0 { 2 } } }
                  cluster1 { core0 { 3 } core1 { 4 } } } socket1 { cluster0 { core0 { 5 } } } }";
    let expected = [(0, 0, 0), (0, 1, 0), (0, 2, 0), (0, 2, 1), (1, 0, 0)];
    let expected = expected.map(|(socket, cluster, core)| place(socket, cluster, core, 0));
    assert_eq!(read(nested, 5), Ok(expected.to_vec()));
}

#[test]
fn a2_an_odd_map_is_refused_by_its_mistake() {
    for (words, harts, error) in [
        ("", 1, CpuMapError::Missing),
        ("cpu-map { }", 1, CpuMapError::Unplaced(0)),
        ("cpu-map { core0 { 1 } }", 2, CpuMapError::Unplaced(1)),
        ("cpu-map { core0 { 1 } core1 { 1 } }", 2, CpuMapError::Cpu(1)),
        ("cpu-map { core0 { 1 } core1 { 9 } }", 1, CpuMapError::Cpu(9)),
        ("cpu-map { core0 { 1 thread0 { 2 } } }", 2, CpuMapError::Inner),
        ("cpu-map { cluster0 { 1 } }", 1, CpuMapError::Inner),
        ("cpu-map { 1 }", 1, CpuMapError::Inner),
        ("cpu-map { core0 { cluster0 { 1 } } }", 1, CpuMapError::Nodes),
        ("cpu-map { socket0 { socket0 { core0 { 1 } } } }", 1, CpuMapError::Nodes),
        ("cpu-map { cluster0 { core0 { 1 } } core0 { 2 } }", 2, CpuMapError::Nodes),
    ] {
        assert_eq!(read(words, harts), Err(error), "{words}");
        assert!(!std::format!("{error}").is_empty());
    }
    let deep = |depth| {
        let (begin, end) = ("cluster0 { ".repeat(depth), "} ".repeat(depth));
        read(&std::format!("cpu-map {{ {begin} core0 {{ 1 }} {end} }}"), 1)
    };
    assert_eq!(deep(MAX_DEPTH - 2), Ok([place(0, 0, 0, 0)].to_vec()));
    assert_eq!(deep(MAX_DEPTH), Err(CpuMapError::Nodes));
    assert_eq!(deep(1000), Err(CpuMapError::Nodes));
}

/// Whatever stands in the tree: an error, or a different place for each hart.
#[test]
fn a2_a_damaged_map_never_gives_two_harts_one_place() {
    let mut seed = 1u64;
    let mut random = |limit: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % limit
    };
    let (mut refused, mut placed) = (0, 0);
    for (bytes, _) in AARCH64.into_iter().chain([(RISCV64, [0; 4])]) {
        let cpus = cpus(open(bytes).unwrap());
        let start = bytes.windows(7).position(|window| window == b"cpu-map").unwrap();
        for _ in 0..400 {
            let mut damaged = bytes.to_vec();
            for _ in 0..=random(3) {
                // The map is about this long.
                let at = start + random(600).min(bytes.len() - start - 1);
                damaged[at] = [0, 1, 2, 3, 4, 9, b'0', 0x80, 0xff][random(9)];
            }
            let damaged = open(damaged.leak());
            let Some(mut places) = damaged.ok().and_then(|tree| places(tree, &cpus).ok()) else {
                refused += 1;
                continue;
            };
            placed += 1;
            assert_eq!(places.len(), cpus.len());
            places.sort_unstable();
            assert!(places.windows(2).all(|pair| pair[0] < pair[1]), "{places:?}");
        }
    }
    assert!(refused > 100 && placed > 100, "{refused} refused, {placed} placed");
}
