//! Cores of machines that are files in a folder.

use super::*;
use std::fs;
use tempfile::TempDir;

/// A machine that is files.
struct Fake {
    folder: TempDir,
}

impl Fake {
    /// One whose cores `present` are there, of which those `online` are.
    fn new(present: &str, online: &str) -> Self {
        let fake = Self { folder: tempfile::tempdir().expect("a folder") };
        fake.write("cpu/present", present);
        fake.write("cpu/online", online);
        fake
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.folder.path().join(file);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, format!("{text}\n")).expect("a file");
    }

    /// Two sockets of two caches of two cores of two threads, of which the second are numbered behind all first ones; a NUMA node
    /// each socket.
    fn large() -> Self {
        let fake = Self::new("0-15", "0-15");
        for cpu in 0..16 {
            let core = cpu % 8;
            fake.write(&format!("cpu/cpu{cpu}/topology/physical_package_id"), &(core / 4).to_string());
            fake.write(
                &format!("cpu/cpu{cpu}/topology/thread_siblings_list"),
                &format!("{core},{}", core + 8),
            );
            let chip = core / 2 * 2;
            let shared = format!("{chip}-{},{}-{}", chip + 1, chip + 8, chip + 9);
            for (cache, level, kind, who) in [
                (0, 1, "Data", format!("{core},{}", core + 8)),
                (1, 1, "Instruction", format!("{core},{}", core + 8)),
                (2, 2, "Unified", format!("{core},{}", core + 8)),
                (3, 3, "Unified", shared),
            ] {
                let folder = format!("cpu/cpu{cpu}/cache/index{cache}");
                fake.write(&format!("{folder}/level"), &level.to_string());
                fake.write(&format!("{folder}/type"), kind);
                fake.write(&format!("{folder}/shared_cpu_list"), &who);
            }
        }
        fake.write("node/node0/cpulist", "0-3,8-11");
        fake.write("node/node1/cpulist", "4-7,12-15");
        fake
    }

    fn cores(&self, allowed: &[usize]) -> Cores {
        Cores { system: self.folder.path().to_owned(), allowed: allowed.to_vec() }
    }
}

/// The places of nodes of so many harts on these cores, in numbers, and the cores as they are then.
fn places(cores: &Cores, bound: &[usize], harts: usize) -> (Vec<[u16; 4]>, Vec<usize>) {
    let mut bound = bound.to_vec();
    let places = cores.places(&mut bound, harts);
    let numbers = places.iter().map(|place| [place.socket, place.cluster, place.core, place.thread]);
    (numbers.collect(), bound)
}

#[test]
fn a2_sockets_caches_cores_and_threads_are_the_machines() {
    let fake = Fake::large();
    let all: Vec<_> = (0..16).collect();
    let (all, bound) = places(&fake.cores(&all), &all, 16);
    assert_eq!(bound, [0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15]);
    let expected = |hart: u16| [hart / 8, hart / 4 % 2, hart / 2 % 2, hart % 2];
    assert_eq!(all, (0..16).map(expected).collect::<Vec<_>>());
}

#[test]
fn a2_a_chip_ends_where_its_numa_node_does() {
    let fake = Fake::large();
    fake.write("node/node0/cpulist", "0,8");
    fake.write("node/node2/cpulist", "1-3,9-11");
    let (all, _) = places(&fake.cores(&[]), &[0, 1, 2, 3], 4);
    assert_eq!(all, [[0, 0, 0, 0], [0, 1, 0, 0], [0, 2, 0, 0], [0, 2, 1, 0]]);
}

#[test]
fn a2_harts_of_equal_numbers_have_places_that_are_true_of_every_node() {
    let fake = Fake::large();
    let cores = fake.cores(&[]);
    // Threads of a core in one node, cores of a chip in the other, and two sockets in a third.
    assert_eq!(places(&cores, &[0, 8, 9, 1], 2).0, [[0, 0, 0, 0], [0, 0, 0, 1]]);
    assert_eq!(places(&cores, &[0, 8, 0, 1], 2).0, [[0, 0, 0, 0], [0, 0, 1, 0]]);
    assert_eq!(places(&cores, &[0, 8, 0, 1, 7, 0], 2), (vec![[0; 4], [1, 0, 0, 0]], vec![0, 8, 0, 1, 0, 7]));
}

#[test]
fn a2_a_machine_that_says_nothing_is_one_chip() {
    let fake = Fake::new("0", "0");
    assert_eq!(places(&fake.cores(&[0]), &[0], 1).0, [[0; 4]]);
    fake.write("cpu/cpu0/topology/physical_package_id", "-1");
    // Two harts of the only core are its threads.
    assert_eq!(places(&fake.cores(&[0]), &[0, 0], 2).0, [[0; 4], [0, 0, 0, 1]]);
    assert_eq!(places(&fake.cores(&[0, 1]), &[0, 1], 2).0, [[0; 4], [0, 0, 1, 0]]);
}

#[test]
fn h1_harts_go_to_the_cores_of_a_list_and_again_to_the_first() {
    let fake = Fake::new("0-9", "0-9");
    let cores = fake.cores(&[0, 1, 2, 3, 8]);
    assert_eq!(cores.listed("1-3,8", 3).expect("cores"), [1, 2, 3]);
    assert_eq!(cores.listed("8,0", 5).expect("cores"), [8, 0, 8, 0, 8]);
    assert_eq!(cores.enough(1, 3), [0, 1, 2]);
    assert!(cores.enough(3, 2).is_empty());
}

#[test]
fn h1_harts_of_a_node_have_cores_that_share_a_cache_and_memory_where_they_can() {
    let fake = Fake::large();
    let all = fake.cores(&(0..16).collect::<Vec<_>>());
    // First threads first, and no node over two chips while one has enough.
    assert_eq!(all.enough(4, 2), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(all.enough(8, 2), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
    assert_eq!(all.enough(4, 4), [0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15]);
    // By number the second and third would each lie on two chips.
    assert_eq!(all.enough(4, 3), [0, 1, 8, 2, 3, 10, 4, 5, 12, 6, 7, 14]);
    assert_eq!(all.enough(2, 6), [0, 1, 2, 3, 8, 9, 4, 5, 6, 7, 12, 13]);
    assert_eq!(all.enough(1, 16).len(), 16);
    assert!(all.enough(1, 17).is_empty());
    // What is left of both sockets is taken at last.
    assert_eq!(fake.cores(&[2, 3, 4]).enough(1, 3), [2, 3, 4]);
}

#[test]
fn h1_a_nodes_memory_is_of_the_numa_node_of_all_its_cores_if_there_are_several() {
    let fake = Fake::large();
    let all = fake.cores(&(0..16).collect::<Vec<_>>());
    assert_eq!(all.numa_nodes(&[0, 9, 4, 15, 3, 4], 2), [Some(0), Some(1), None]);
    assert!(all.numa_nodes(&[], 2).is_empty());
    // With one there is nothing to choose.
    assert_eq!(fake.cores(&[0, 1, 2, 3]).numa_nodes(&[0, 1, 2, 3], 2), [None, None]);
    let words = all.words();
    assert!(
        words.ends_with("2 sockets, 2 NUMA nodes, 4 last-level caches, 8 cores, 16 threads")
            && words.contains("0-15"),
        "{words}"
    );
}

#[test]
fn h1_a_core_that_is_not_to_be_had_is_named_with_the_reason() {
    let fake = Fake::new("0-5", "0-3,5");
    let cores = fake.cores(&[0, 1, 3]);
    let told = |words: &str| cores.listed(words, 1).expect_err(words).to_string();
    assert_eq!(told("0,9"), "there is no core 9: this machine has 0-5");
    assert_eq!(told("4"), "core 4 is offline: of this machine 0-3,5 are online");
    let refused =
        "core 2 is not for this process, which may run on 0-1,3: `taskset` or its container says so";
    assert_eq!(told("0-3"), refused);
    for words in ["", "x", "1,", "3-1", "0-99999999", "-1"] {
        assert!(told(words).contains("0-3,8"), "{words:?}: {}", told(words));
    }
    // Where the host says nothing of its cores, whether this process may run there is known all the same.
    fs::remove_dir_all(fake.folder.path().join("cpu")).expect("a folder");
    assert!(cores.listed("9", 1).expect_err("no such core").to_string().contains("core 9 is not for this"));
}
