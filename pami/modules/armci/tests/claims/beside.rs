//! Two libraries in one program, MPI and ARMCI: what each one's settings do to its packets, and not to the other's (SPEC M-4).

use crate::machine::{TestNode, buffer, machine_of};
use crate::tasks::{SMALL, bytes, malloc};
use crate::threads::on_nodes;
use armci::{Library, Local, Scale, Settings, Split};
use mpi::{Assert, Data, Mpi, Op, Target, Threads};
use pami::packet::Kind;
use std::sync::Barrier;

/// A message that is above one eager limit of MPI's and below the other.
const WORDS: usize = 50;
/// Advice is asked for again when this time has passed.
const LONG_NS: u64 = 1_000_000_000;

/// Packets of a kind, and bytes, that node 0 has sent.
fn sent(node: &TestNode, kind: Kind) -> (usize, usize) {
    let state = node.world.lock();
    let from = || state.seen.iter().filter(|seen| seen.1 == 0);
    (from().filter(|seen| seen.0 == kind).count(), from().map(|seen| seen.3).sum())
}

/// What node 0 has sent more of while both tasks did `act`.
fn sends(node: &TestNode, all: &Barrier, kind: Kind, act: impl FnOnce()) -> (usize, usize) {
    all.wait();
    let before = sent(node, kind);
    all.wait();
    act();
    all.wait();
    let after = sent(node, kind);
    all.wait();
    (after.0 - before.0, after.1 - before.1)
}

/// Task 0 sends a message to task 1 through MPI; returns whether its data is sent before somebody wants it.
fn sends_eagerly(node: &'static TestNode, all: &Barrier, mpi: Mpi<TestNode>) -> bool {
    let (world, data) = (mpi.world(), Data::all::<u32>(&buffer(4 * WORDS).share()));
    let mut request = mpi::Request::NULL;
    let (_, early) = sends(node, all, Kind::EagerFirst, || {
        if world.rank() == 0 {
            request = world.isend(&data, 1, 7).unwrap();
            // Advances, whether it is complete or not.
            (0..50).for_each(|_| assert!(mpi.test_all(&mut [], &mut []).unwrap()));
        }
    });
    match world.rank() {
        0 => drop(mpi.wait(&mut request).unwrap()),
        _ => drop(world.recv(&data, 0, 7).unwrap()),
    }
    early >= 4 * WORDS
}

/// Both tasks accumulate through ARMCI; returns whether the split was asked for advice.
fn armci_asks(node: &'static TestNode, all: &Barrier, armci: Library<TestNode>, split: Split) -> bool {
    let mine = malloc(&armci, 512);
    let other = mine[1 - armci.task() as usize];
    armci.set_accumulate(split).unwrap();
    let ones = crate::machine::filled(&1i32.to_le_bytes().repeat(128)).share();
    all.wait();
    if armci.task() == 0 {
        node.world.lock().now += LONG_NS;
    }
    let (asked, _) = sends(node, all, Kind::AskAdvice, || {
        armci.accumulate(Scale::I32(3), Local::new(&ones, 0), other, 512).unwrap();
        armci.barrier(&armci.world()).unwrap();
    });
    armci.free(&armci.world(), mine[armci.task() as usize]).unwrap();
    asked > 0
}

/// As [`armci_asks`], through a window of MPI.
fn mpi_asks(node: &'static TestNode, all: &Barrier, mpi: Mpi<TestNode>) -> bool {
    let (world, memory) = (mpi.world(), buffer(512).share());
    let win = world.win_create(&memory, 0..512, 4).unwrap();
    let origin = Data::all::<i32>(&crate::machine::filled(&1i32.to_le_bytes().repeat(128)).share());
    win.fence(Assert::empty()).unwrap();
    all.wait();
    if world.rank() == 0 {
        node.world.lock().now += LONG_NS;
    }
    let there = Target::new(1 - world.rank() as i32, 0, 128, mpi::Datatype::of::<i32>());
    let (asked, _) = sends(node, all, Kind::AskAdvice, || {
        win.accumulate(&origin, &there, Op::Sum).unwrap();
        win.fence(Assert::NOSUCCEED).unwrap();
    });
    assert_eq!(bytes(&memory, 0, 512), 1i32.to_le_bytes().repeat(128));
    win.free().unwrap();
    asked > 0
}

#[test]
fn m4_each_librarys_settings_act_on_its_own_packets_and_on_nobody_elses() {
    for (mpi_split, armci_split) in [(Split::TargetOnly, Split::Advice), (Split::Advice, Split::TargetOnly)] {
        for eager_limit in [4 * WORDS - 1, 4 * WORDS] {
            let all = Barrier::new(2);
            on_nodes(machine_of(2, 1), |node| {
                let of_mpi = mpi::Settings { eager_limit, accumulate: mpi_split, ..mpi::Settings::default() };
                let mpi = Mpi::init_thread(node, of_mpi, Threads::Single).unwrap();
                let armci = Library::init(node, Settings { accumulate: armci_split, ..SMALL }).unwrap();
                assert_eq!(sends_eagerly(node, &all, mpi), eager_limit == 4 * WORDS);
                assert_eq!(mpi_asks(node, &all, mpi), mpi_split == Split::Advice);
                // ARMCI changes its own while both run.
                for split in [armci_split, mpi_split, armci_split] {
                    assert_eq!(armci_asks(node, &all, armci, split), split == Split::Advice);
                    assert_eq!(mpi_asks(node, &all, mpi), mpi_split == Split::Advice);
                }
                // And so does MPI.
                let other = if eager_limit == 4 * WORDS { 8 } else { 4 * WORDS };
                all.wait();
                mpi.set(mpi::Setting::EagerLimit(other));
                assert_eq!(sends_eagerly(node, &all, mpi), other == 4 * WORDS);
                armci.finalize().unwrap();
                mpi.finalize().unwrap();
            });
        }
    }
}
