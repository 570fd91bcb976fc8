//! Fences: every operation over every path, and what a fence is on the wire.

use pami::device::REQUESTS;
use pami::endpoint::Endpoint;
use pami::packet::{Envelope, Kind};
use pami::region::RegionId;
use std::time::Duration;
use tests::capture::{Captured, in_order, packets};
use tests::{BAD_WIRE, count_lines, expect_clean, expect_success_on_a_bad_wire, on_both_architectures};
use xtask::{Arch, Mode, Outcome, Run};

const DEADLINE: Duration = Duration::from_secs(240);

/// Two nodes of two tasks each: every path is there.
fn fence(arch: Arch) -> Run {
    Run::new("fence").arch(arch).torus("2").mode(Mode::Vn).timeout(DEADLINE)
}

/// Each kind of operation was done over each path before its fence was, and took that path; and in both directions at once.
fn every_fence_holds(outcome: &Outcome, tasks: usize) {
    for path in ["self", "shared memory", "loop-back", "torus"] {
        for kind in ["eager sends", "rendezvous sends", "puts", "gets", "updates"] {
            let begins = format!("{path}: 20 {kind} of ");
            let line = outcome.lines().map(|line| &line.text).find(|line| line.starts_with(&begins));
            let line = line.unwrap_or_else(|| panic!("no {begins:?}: {}", outcome.explain()));
            assert!(line.contains("then a fence: all done"), "{line}");
            let inside = ["self", "shared memory"].contains(&path);
            assert_eq!(line.ends_with("; 0 bytes on the network"), inside, "{line}");
        }
    }
    let line = format!(
        "{tasks} tasks: a fence over all and one of their geometry in flight, behind operations of each kind: all done"
    );
    assert_eq!(count_lines(outcome, &line), 1, "{}", outcome.explain());
    assert_eq!(count_lines(outcome, " at once, then fences: all done"), tasks, "{}", outcome.explain());
}

/// Place of the packet that `is` it.
fn place(packets: &[&Captured], what: &str, is: impl Fn(&Captured) -> bool) -> usize {
    packets.iter().position(|packet| is(packet)).unwrap_or_else(|| panic!("no {what} on the wire"))
}

/// The packets of one fence, among those from its origin's node to its target's and back. Returns how many rendezvous it was
/// behind.
fn follow(there: &[&Captured], back: &[&Captured], fence: usize, target: Endpoint) -> usize {
    let Envelope { origin, message, .. } = there[fence].envelope;
    let of_target = |packet: &Captured| packet.envelope.origin == target && packet.envelope.target == origin;
    let is_empty_get = |packet: &Captured| {
        let none = packet.header == zerocopy::IntoBytes::as_bytes(&RegionId::NONE);
        of_target(packet) && packet.envelope.kind == Kind::Get && packet.envelope.total == 0 && none
    };
    // A FENCE-ack names fences by their places at the origin, each of which is used again once it was answered.
    let at = |message: u32| message as usize % REQUESTS;
    let mut earlier: Vec<_> = there[..fence]
        .iter()
        .map(|packet| packet.envelope)
        .filter(|other| {
            other.kind == Kind::Fence
                && (other.origin, other.target, at(other.message)) == (origin, target, at(message))
        })
        .map(|other| other.message)
        .filter(|&other| other != message)
        .collect();
    earlier.dedup();
    let is_ack = |packet: &Captured| {
        let set = packet.data.as_slice().try_into().map_or(0, u64::from_le_bytes);
        of_target(packet) && packet.envelope.kind == Kind::FenceAck && set >> at(message) & 1 == 1
    };
    let acks = back.iter().enumerate().filter(|(_, packet)| is_ack(packet));
    let (ack, _) = acks.clone().nth(earlier.len()).expect("a FENCE-ack for each fence");
    // One GET may do for several fences; it is in front of the answer to all of them.
    let mut empty_gets = back[..ack].iter().enumerate().filter(|(_, packet)| is_empty_get(packet));
    let (get_at, get) = empty_gets.next_back().expect("a GET of nothing before the FENCE-ack");

    // The target: the GET of nothing is behind those of all rendezvous before the fence. Later ones may have overtaken it.
    let to_target =
        |packet: &&&Captured| (packet.envelope.origin, packet.envelope.target) == (origin, target);
    let mut before: Vec<_> = there[..fence]
        .iter()
        .filter(to_target)
        .filter(|packet| packet.envelope.kind == Kind::Rts)
        .map(|packet| &packet.data)
        .collect();
    // One that was refused went again.
    before.sort();
    before.dedup();
    let gets: Vec<_> = back[..get_at]
        .iter()
        .filter(|packet| of_target(packet) && packet.envelope.kind == Kind::Get)
        .filter(|packet| before.contains(&&packet.header))
        .collect();
    assert_eq!(gets.len(), before.len(), "gets of data before the GET of nothing");

    // The origin: the transfer of nothing is behind all that was asked for before.
    let is_answer = |packet: &Captured, message: u32| {
        let envelope = packet.envelope;
        (envelope.kind, envelope.message) == (Kind::GetLast, message)
            && (envelope.origin, envelope.target) == (origin, target)
    };
    let empty = place(there, "answer", |packet| is_answer(packet, get.envelope.message));
    assert!(there[empty].data.is_empty() && there[empty].envelope.total == 0);
    for data in gets {
        let last = place(there, "data", |packet| is_answer(packet, data.envelope.message));
        assert!(last < empty, "data of a rendezvous is behind the transfer of nothing");
        assert!(!there[last].data.is_empty());
    }
    before.len()
}

on_both_architectures! {
    fn f2_f3_d6_each_path_keeps_its_fences_which_end_with_transfers_of_nothing_on_the_wire(arch) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("fence.pcap");
        let outcome = fence(arch).pcap(&file).run().unwrap();
        expect_clean(&outcome);
        every_fence_holds(&outcome, 4);
        let packets = packets(&file);
        let (there, back) = (in_order(&packets, 0, 1), in_order(&packets, 1, 0));
        // One that was not looked at behind a refused message went again: the last of its packets counts.
        let is_fence = |packet: &&Captured| packet.envelope.kind == Kind::Fence && packet.envelope.origin.task() == 0;
        let goes_again = |at: usize| there[at + 1..].iter().any(|later| later.envelope == there[at].envelope);
        let fences = there.iter().enumerate().filter(|(at, packet)| is_fence(packet) && !goes_again(*at));
        let behind: Vec<_> =
            fences.map(|(at, fence)| follow(&there, &back, at, fence.envelope.target)).collect();
        // One behind each kind of operation, then two for each over two contexts of two tasks, then one for each in both directions.
        assert_eq!(behind.len(), 5 + 4 * 2 * 2 * 2 + 5);
        assert!(behind[1] == 20 && behind[0] == 0, "{behind:?}");
    }

    fn f6_fences_hold_on_a_bad_wire(arch) {
        let outcome = fence(arch).faults(BAD_WIRE).run().unwrap();
        expect_success_on_a_bad_wire(&outcome, BAD_WIRE);
        every_fence_holds(&outcome, 4);
    }

    fn f5_p3_d7_fences_hold_with_contexts_that_share_fifos_and_an_agent_core(arch) {
        let run = Run::new("fence").arch(arch).torus("2").harts(2).agent_core(true).timeout(DEADLINE);
        let outcome = run.args(["--shared", "--deaf"]).run().unwrap();
        expect_clean(&outcome);
        every_fence_holds(&outcome, 2);
        let line = "task 1 advances nothing: puts, gets and updates there, then fences of these: all done";
        assert_eq!(count_lines(&outcome, line), 1, "{}", outcome.explain());
    }

    fn f6_d2_fences_hold_on_a_three_dimensional_torus_with_a_bad_wire(arch) {
        let run = Run::new("fence").arch(arch).torus("2x2x2").harts(2).agent_core(true).timeout(DEADLINE);
        let outcome = run.args(["--shared"]).faults(BAD_WIRE).run().unwrap();
        expect_success_on_a_bad_wire(&outcome, BAD_WIRE);
        every_fence_holds(&outcome, 8);
    }
}
