//! Collectives of those that reach each other's memory: each shows what it has, and reads what others show (SPEC H-5, G-3).

use crate::collectives::{COLLECTIVES, all_algorithms};
use crate::machine::machine;
use crate::stage::{Case, LIMITS, Stage, ends};
use pami::collective::engine::{PROBE_NS, WINDOW};
use pami::collective::{Algorithm, Collective};
use pami::packet::Kind;
use pami::{Limits, OperationError, WORLD};
use rings::bulletin::PAGES;

/// Tasks that reach each other's memory.
fn showing(tasks: u32, seed: u64, limits: Limits) -> Stage {
    let nodes = machine(tasks, false);
    nodes[0].world.lock().shows = true;
    Stage::steps(nodes, 1, seed, limits)
}

fn case(what: Collective, size: u32, len: usize) -> Case {
    Case { what, size, len, algorithm: Some(Algorithm::SharedMemory), ..Case::default() }
}

#[test]
fn h5_g3_what_is_shown_and_read_gives_what_a_plain_loop_gives() {
    for size in [2, 3, 5, 16] {
        let mut stage = showing(size, u64::from(size), LIMITS);
        let members = stage.everyone();
        let runs = all_algorithms(&mut stage, WORLD, members, &[0, 1, 2]);
        // Those that need neither tree network, torus nor domains, and six more.
        assert!(runs >= (32 + 5) * 3 * 2, "{runs} runs");
    }
    // Elsewhere it is refused, and says why.
    for stage in [showing(1, 1, LIMITS), showing(17, 1, LIMITS), Stage::new(3, 1, 1, 1)] {
        let told = stage.told;
        let size = stage.contexts.len() as u32;
        let collect = case(Collective::Barrier, size, 0).call([None, None], told.done(0).unwrap());
        let query = stage.contexts[0].query(&collect).unwrap();
        let refused = query.choose(Some(Algorithm::SharedMemory)).unwrap_err().to_string();
        assert!(refused.contains("at most 16 ranks must reach each other's memory"), "{refused}");
    }
}

#[test]
fn h5_short_collectives_take_no_packets_where_all_reach_each_others_memory() {
    let mut stage = showing(4, 3, LIMITS);
    let members = stage.everyone();
    let cases: Vec<_> = (0..40)
        .map(|number| {
            let what =
                [Collective::Barrier, Collective::Allreduce, Collective::Allgather, Collective::Alltoall];
            let len = 1 + number % 9;
            (Case { algorithm: None, salt: number as u64, ..case(what[number % 4], 4, len) }, members)
        })
        .collect();
    stage.play(&cases);
    assert_eq!(stage.count(Kind::Collective), 0);
}

#[test]
fn h5_g3_many_at_once_short_and_long_are_carried_out_in_the_order_of_each_members_calls() {
    for seed in 0..12 {
        let limits = Limits { in_flight: 64, early: 512, ..LIMITS };
        let mut stage = showing(5, seed, limits);
        let everyone = stage.everyone();
        let some = stage.range(1, 3, 1);
        stage.create(4, some, None);
        let cases: Vec<_> = (0..100)
            .map(|number| {
                let (members, geometry) = if stage.random.below(4) == 0 { (some, 4) } else { (everyone, 0) };
                let size = members.size();
                let what = COLLECTIVES[stage.random.below(COLLECTIVES.len())];
                let root = if what.is_rooted() { stage.random.below(size as usize) as u32 } else { 0 };
                let len = [0, 1, 3, 46, 47, 300, 900][stage.random.below(6)];
                let in_place = stage.random.below(2) == 0;
                let geometry = pami::GeometryId(geometry);
                let case =
                    Case { geometry, what, size, root, len, in_place, salt: number, ..Case::default() };
                (case, members)
            })
            .collect();
        stage.play(&cases);
    }
}

/// The root of a broadcast need not wait for the others, up to the barrier that is in front of each so-manieth, and still nothing is
/// overwritten that they have not read.
#[test]
fn h5_a_root_runs_ahead_by_a_window_at_most() {
    const AHEAD: usize = WINDOW as usize - 1;
    const ALL: usize = AHEAD + 5;
    let mut stage = showing(3, 5, LIMITS);
    let told = stage.told;
    let broadcast = |salt| Case { salt, ..case(Collective::Broadcast, 3, 2) };
    let ended = |rank: u64| told.list().iter().filter(|end| end.0 as u64 == rank).count();
    for number in 0..ALL {
        stage.start(0, broadcast(number as u64), 0);
        (0..60).for_each(|_| stage.turn(&[0]));
        assert_eq!(ended(0), AHEAD.min(number + 1), "as far as the barrier");
    }
    for rank in [1, 2] {
        for number in 0..ALL {
            let output = stage.start(rank, broadcast(number as u64), rank as usize);
            if rank == 1 && number >= AHEAD {
                // It waits for the third, as the first does.
                continue;
            }
            stage.settle("the next", || ended(rank.into()) > number);
            broadcast(number as u64).check(rank, output.as_ref());
            assert!(rank == 2 || ended(0) == AHEAD);
        }
    }
    stage.until(3 * ALL);
    stage.all_good();
    assert_eq!(stage.count(Kind::Collective), 0, "nor does the barrier send anything");
}

/// Those between that go by messages take no page, and still who shows something has room once the others have read.
#[test]
fn h5_what_goes_by_messages_in_between_keeps_no_page_from_being_free() {
    for between in 1..2 * PAGES {
        let mut stage = showing(2, between as u64, LIMITS);
        let members = stage.everyone();
        let sum = |number: usize| {
            let algorithm =
                if number.is_multiple_of(between) { Algorithm::SharedMemory } else { Algorithm::Binomial };
            let case = case(Collective::Allreduce, 2, 2);
            (Case { salt: number as u64, algorithm: Some(algorithm), ..case }, members)
        };
        // Each by itself, so that all are done with one before the next.
        (0..3 * PAGES).for_each(|number| stage.play(&[sum(number)]));
    }
}

const LONG: usize = 500;

fn long(what: Collective, size: u32) -> Case {
    Case { algorithm: Some(Algorithm::DirectRead), ..case(what, size, LONG) }
}

const READ_DIRECTLY: [Collective; 6] = [
    Collective::Broadcast,
    Collective::Reduce,
    Collective::Allreduce,
    Collective::ReduceScatter,
    Collective::Allgather,
    Collective::Alltoall,
];

#[test]
fn h5_a4_long_collectives_are_read_where_they_lie_and_take_no_packets() {
    for (size, seed) in [(2, 1), (3, 2), (4, 3), (16, 4)] {
        let mut stage = showing(size, seed, LIMITS);
        let members = stage.everyone();
        for what in READ_DIRECTLY {
            for in_place in [false, true] {
                let root = if what.is_rooted() { stage.random.below(size as usize) as u32 } else { 0 };
                let cases: Vec<_> =
                    (0..5).map(|salt| (Case { salt, root, in_place, ..long(what, size) }, members)).collect();
                stage.play(&cases);
                assert_eq!(stage.count(Kind::Collective), 0, "{what} among {size}");
            }
        }
    }
}

/// If others do not reach a member's memory, all see it and go by messages, that time.
#[test]
fn h5_r1_where_memory_is_not_reached_all_go_by_messages_instead() {
    for hidden in 0..3 {
        let mut stage = showing(3, hidden.into(), LIMITS);
        let members = stage.everyone();
        for (number, what) in READ_DIRECTLY.into_iter().enumerate() {
            for in_place in [false, true] {
                let case = Case { in_place, salt: number as u64, ..long(what, 3) };
                let around = Case { algorithm: None, ..self::case(Collective::Allreduce, 3, 1) };
                let mut sent = Vec::new();
                for hides in [None, Some(hidden), None] {
                    stage.world.lock().hides = hides;
                    let before = stage.count(Kind::Collective);
                    stage.play(&[(around, members), (case, members), (around, members)]);
                    sent.push(stage.count(Kind::Collective) - before);
                }
                // Of a broadcast only the root's memory is read, which is the first's.
                let by_messages = what != Collective::Broadcast || hidden == 0;
                assert_eq!([sent[0], sent[2]], [0, 0], "{what}");
                assert_eq!(sent[1] > 0, by_messages, "{what}, {hidden} hides");
            }
        }
    }
}

/// Others may read on in the memory of one that has failed: it is nobody's alone any more.
#[test]
fn h5_r4_memory_that_was_exposed_is_not_given_back_by_a_collective_that_fails() {
    use Collective::{Allgather, Allreduce, Alltoall};
    let pairs = [
        (long(Allreduce, 3), Case { len: LONG + 1, ..long(Allreduce, 3) }),
        (long(Alltoall, 3), long(Allgather, 3)),
        (long(Allreduce, 3), case(Allreduce, 3, 1)),
    ];
    for (number, (most, one)) in pairs.into_iter().enumerate() {
        let mut stage = showing(3, number as u64, LIMITS);
        stage.tick_ns = PROBE_NS / 100;
        let members = stage.everyone();
        let odd = stage.random.below(3) as u32;
        for rank in 0..3 {
            stage.start(rank, if rank == odd { one } else { most }, rank as usize);
        }
        stage.until(3);
        let ends = stage.results();
        assert!(ends.iter().all(|end| matches!(end.1, Err(OperationError::Mismatch(_)))), "{ends:?}");
        // The world's own list holds one handle of each, and the failed collective another.
        let exposed = core::mem::take(&mut stage.world.lock().exposed);
        assert!(exposed.len() >= 2 && exposed.into_iter().all(|memory| memory.reclaim().is_err()));
        let cases: Vec<_> = (0..12).map(|salt| (Case { salt, ..long(Allreduce, 3) }, members)).collect();
        stage.play(&cases);
        assert!(stage.world.lock().exposed.iter().all(|memory| memory.clone().reclaim().is_err()));
    }
}

#[test]
fn h5_r4_members_that_mean_different_things_end_with_a_mismatch_and_go_on() {
    use Collective::{Allreduce, Alltoall, Barrier, Broadcast};
    let other = |what, len| Case { algorithm: None, ..case(what, 3, len) };
    // On bulletins both, or one by messages.
    let pairs = [
        (case(Barrier, 3, 0), case(Allreduce, 3, 1)),
        (case(Allreduce, 3, 1), case(Allreduce, 3, 2)),
        (case(Allreduce, 3, 1), other(Allreduce, 300)),
        (case(Broadcast, 3, 1), other(Broadcast, 100)),
        (other(Broadcast, 2000), case(Broadcast, 3, 1)),
        (case(Alltoall, 3, 2), other(Alltoall, 90)),
    ];
    for (number, (most, one)) in pairs.into_iter().enumerate() {
        let mut stage = showing(3, number as u64, LIMITS);
        stage.tick_ns = PROBE_NS / 100;
        let members = stage.everyone();
        let odd = stage.random.below(3) as u32;
        for rank in 0..3 {
            stage.start(rank, if rank == odd { one } else { most }, rank as usize);
        }
        stage.until(3);
        let ends = stage.results();
        // Who has what the root shows is done, and so is the root.
        for (_, end) in &ends {
            let fine =
                matches!(end, Err(OperationError::Mismatch(_))) || end.is_ok() && most.what == Broadcast;
            assert!(fine, "pair {number}, rank {odd} odd: {ends:?}");
        }
        assert!(ends.iter().any(|end| end.1.is_err()), "pair {number}: {ends:?}");
        let cases: Vec<_> = (0..5).map(|salt| (Case { salt, ..case(Allreduce, 3, 3) }, members)).collect();
        stage.play(&cases);
    }
}

#[test]
fn h5_r1_one_that_is_given_up_ends_at_all_and_those_behind_it_go_on() {
    for giver in 0..3 {
        let mut stage = showing(3, giver as u64, LIMITS);
        let members = stage.everyone();
        for round in 0..5 {
            let before = stage.results().len();
            let sum = case(Collective::Allreduce, 3, 1);
            for rank in 0..3 {
                if rank == giver {
                    stage.abandon(rank as usize, 7, rank as usize);
                } else {
                    stage.start(rank, sum, rank as usize);
                }
                if round == 2 {
                    // Others begin the next one before they hear of it.
                    stage.start(rank, Case { salt: 9, ..sum }, 10 + rank as usize);
                }
            }
            stage.until(before + if round == 2 { 6 } else { 3 });
            let ends = stage.results().split_off(before);
            for (cookie, end) in ends {
                let given_up = OperationError::Abandoned { rank: giver, reason: 7 };
                assert_eq!(end, if cookie < 10 { Err(given_up) } else { Ok(()) }, "{giver}, {round}");
            }
        }
        stage.play(&[(case(Collective::Alltoall, 3, 2), members)]);
    }
}

#[test]
fn h5_r2_who_waits_for_what_a_dead_node_would_show_hears_of_its_death() {
    let mut stage = showing(3, 1, LIMITS);
    stage.start(0, case(Collective::Barrier, 3, 0), 0);
    stage.start(1, case(Collective::Barrier, 3, 0), 1);
    stage.rest();
    assert_eq!(stage.results(), []);
    stage.contexts.truncate(2);
    stage.world.kill(2);
    stage.until(2);
    assert!(stage.results().iter().all(|end| end.1 == Err(OperationError::NodeDead(2))));
}

/// What an earlier client has left on a bulletin is not taken for what the next one shows.
#[test]
fn h5_m3_a_client_finds_nothing_on_a_board_that_was_for_the_one_before() {
    let nodes = machine(2, false);
    nodes[0].world.lock().shows = true;
    for generation in 0..4 {
        let mut stage = Stage::steps(nodes.clone(), 1, generation, LIMITS);
        let (told, _) = ends();
        assert!(told.list().is_empty());
        let sum = |salt| Case { salt, ..case(Collective::Allreduce, 2, 1) };
        let first = stage.start(0, sum(generation), 0);
        stage.rest();
        assert_eq!(stage.results(), [], "generation {generation}: the other has shown nothing yet");
        let second = stage.start(1, sum(generation), 1);
        stage.until(2);
        stage.all_good();
        sum(generation).check(0, first.as_ref());
        sum(generation).check(1, second.as_ref());
        // A context that is made anew in the same client has no bulletins, as none of the others has.
        (0..2).for_each(|at| stage.destroy(at).unwrap());
        for at in 0..2 {
            let collect = sum(0).call(sum(0).memory(at), stage.told.done(0).unwrap());
            let query = stage.contexts[at as usize].query(&collect).unwrap();
            assert!(query.choose(Some(Algorithm::SharedMemory)).is_err());
        }
        let members = stage.everyone();
        stage.play(&[(Case { algorithm: None, ..sum(1) }, members)]);
        for (mut client, context) in stage.clients.into_iter().zip(stage.contexts) {
            assert!(client.destroy_context(context).is_ok() && client.destroy().is_ok());
        }
    }
}
