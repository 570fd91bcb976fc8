//! The library over an in-process machine, each PE a thread: what the job `shmem` does on nodes.

#[path = "../../../../../jobs/examples/shmem/exercise.rs"]
mod exercise;
#[allow(dead_code, unused_imports, reason = "the messaging layer's own tests use more of it")]
#[path = "../../../../tests/engine/machine/mod.rs"]
mod machine;
#[path = "../../../armci/tests/claims/threads.rs"]
mod threads;

use machine::machine_of;
use pami::{ClientError, OperationError};
use shmem::{Compare, Error, Settings, Shmem, Signal};
use std::thread;
use threads::on_nodes;

const SETTINGS: Settings = Settings {
    client: "shmem",
    contexts: 2,
    sharing: pami::Sharing::Exclusive,
    polls: 64,
    heap: 1 << 18,
    allocations: 16,
    scratch: 4096,
};

/// Runs `body` at each of `pes` PEs, so many on each node.
fn on_pes<T: Send>(
    pes: u32,
    per_node: u32,
    settings: Settings,
    body: impl Fn(Shmem<machine::TestNode>) -> T + Sync,
) -> Vec<T> {
    let run = |node| {
        let library = Shmem::init(node, settings).unwrap();
        let result = body(library);
        library.finalize().unwrap();
        assert_eq!(library.quiet(), Err(Error::Finalized));
        result
    };
    on_nodes(machine_of(pes, per_node), run)
}

#[test]
fn m4_what_an_init_that_finds_no_memory_has_taken_is_given_back() {
    let [node] = machine_of(1, 1).try_into().unwrap_or_else(|_| unreachable!("one PE"));
    let whole = {
        let [node] = machine_of(1, 1).try_into().unwrap_or_else(|_| unreachable!("one PE"));
        Shmem::init(node, SETTINGS).unwrap().finalize().unwrap();
        node.world.lock().taken
    };
    let mut refused = 0;
    for short in (1..whole).step_by(whole / 400) {
        let taken = node.world.lock().taken;
        node.world.lock().memory = taken + whole - short;
        let outcome = Shmem::init(node, SETTINGS).map(|library| library.finalize());
        let short_of_memory =
            |error: &Error| matches!(error, Error::Memory(_) | Error::Client(ClientError::Exhausted { .. }));
        assert!(outcome.as_ref().is_err_and(short_of_memory), "{short} bytes short: {:?}", outcome.err());
        refused += 1;
    }
    assert!(refused >= 400);
    node.world.lock().memory = usize::MAX;
    Shmem::init(node, SETTINGS).unwrap().finalize().unwrap();
}

#[test]
fn m3_p7_everything_comes_out_as_reckoned_with_pamis_objects_in_the_librarys_memory() {
    for (pes, per_node) in [(1, 1), (2, 1), (4, 2), (5, 1)] {
        for scratch in [1024, SETTINGS.scratch] {
            let tallies =
                on_pes(pes, per_node, Settings { scratch, ..SETTINGS }, |shmem| exercise::exercise(&shmem));
            for (pe, tally) in tallies.into_iter().enumerate() {
                let tally = tally.unwrap();
                assert!(
                    tally.checks > 100 && tally.wrong == 0,
                    "PE {pe} of {pes}, {per_node} a node: {tally:?}"
                );
            }
        }
    }
}

#[test]
fn p4_threads_of_a_pe_have_contexts_of_their_own() {
    let tallies = on_pes(4, 2, SETTINGS, |shmem| {
        let words = shmem.calloc::<u64>(4).unwrap();
        let counter = shmem.calloc::<u64>(1).unwrap();
        let tallies = thread::scope(|scope| {
            let work = move |context: u8| {
                let on = shmem.on_context(context).unwrap();
                let at = usize::from(context);
                exercise::on_context(&on, words.at(at).unwrap(), words.at(2 + at).unwrap(), counter).unwrap()
            };
            let other = scope.spawn(move || work(1));
            work(0).and(other.join().unwrap())
        });
        shmem.on_context(1).unwrap().quiet().unwrap();
        shmem.barrier_all().unwrap();
        let mut count = [0];
        shmem.read(counter, &mut count).unwrap();
        assert_eq!(count, [8], "each thread of each PE counted here");
        assert_eq!(shmem.on_context(2).err(), Some(Error::Context { context: 2, contexts: 2 }));
        tallies
    });
    assert!(tallies.iter().all(|tally| tally.checks == 16 && tally.wrong == 0), "{tallies:?}");
}

#[test]
fn g2_a_mistake_of_one_pe_ends_a_teams_collective_at_the_others_as_an_error() {
    let outcomes = on_pes(4, 2, SETTINGS, |shmem| {
        let (team, me) = (shmem.team_world(), shmem.my_pe());
        let (few, all) = (shmem.calloc::<u64>(4).unwrap(), shmem.calloc::<u64>(16).unwrap());
        // PE 2 has too little room, PE 1 names nobody, PE 3 cannot deal out what it has, and PE 0 cannot reduce.
        let outcomes = [
            shmem.fcollect(&team, if me == 2 { few } else { all }, few),
            shmem.collect_all(&team, if me == 2 { few } else { all }, few),
            shmem.broadcast(&team, all, few, if me == 1 { 4 } else { 0 }),
            shmem.alltoall(&team, all, if me == 3 { all.part(0..3).unwrap() } else { few }),
            shmem.sum_reduce(&team, if me == 0 { few } else { all }, all),
        ];
        // The next one is as if nothing had been.
        shmem.write(few, &[1]).unwrap();
        shmem.sum_reduce(&team, few, few).unwrap();
        let mut sum = [0];
        shmem.read(few, &mut sum).unwrap();
        assert_eq!(sum, [4]);
        outcomes
    });
    const BROADCAST: usize = 2;
    let short = Error::Short { has: 4, wanted: 16 };
    let mistakes = [
        (2, short),
        (2, short),
        (1, Error::Pe { pe: 4, pes: 4 }),
        (3, Error::Uneven { elements: 3, pes: 4 }),
        (0, short),
    ];
    for (call, (culprit, mistake)) in mistakes.into_iter().enumerate() {
        for (pe, outcomes) in (0..).zip(&outcomes) {
            let told = Error::Operation(OperationError::Abandoned { rank: culprit, reason: 0 });
            let expected = if pe == culprit { mistake } else { told };
            // A broadcast needs nothing of its members: the part of one may be done before.
            let done = call == BROADCAST && pe != culprit && outcomes[call].is_ok();
            assert!(done || outcomes[call] == Err(expected), "call {call} at PE {pe}: {:?}", outcomes[call]);
        }
    }
}

#[test]
fn p4_threads_of_a_pe_split_teams_at_a_time() {
    on_pes(4, 2, SETTINGS, |shmem| {
        let world = shmem.team_world();
        // Two parents whose first member is the same, each of all PEs.
        let parents = [0, 0].map(|start| shmem.team_split_strided(&world, start, 1, 4).unwrap().unwrap());
        let words = shmem.calloc::<u64>(4).unwrap();
        thread::scope(|scope| {
            let work = |context: u8| {
                let (at, parent) = (usize::from(context), &parents[usize::from(context)]);
                let on = shmem.on_context(context).unwrap();
                for round in 0..20 {
                    let team = on.team_split_strided(parent, 0, 1, 4).unwrap().unwrap();
                    let (source, sum) = (words.at(at).unwrap(), words.at(2 + at).unwrap());
                    on.write(source, &[round + 1000 * u64::from(context)]).unwrap();
                    on.sum_reduce(&team, sum, source).unwrap();
                    let mut seen = [0];
                    on.read(sum, &mut seen).unwrap();
                    assert_eq!(seen, [4 * (round + 1000 * u64::from(context))], "context {context}");
                    on.team_destroy(team).unwrap();
                }
            };
            let other = scope.spawn(move || work(1));
            work(0);
            other.join().unwrap();
        });
        // One member has no step to the next.
        let alone = shmem.team_split_strided(&parents[0], 0, 1 << 31, 1).unwrap();
        assert_eq!(alone.map(|team| team.n_pes()), (shmem.my_pe() == 0).then_some(1));
        shmem.barrier_all().unwrap();
    });
}

#[test]
fn p7_a_wait_on_one_context_lets_another_go_on() {
    on_pes(2, 1, SETTINGS, |shmem| {
        let [dest, source] = [(); 2].map(|()| shmem.calloc::<u64>(1 << 12).unwrap());
        let signals = shmem.calloc::<u64>(2).unwrap();
        let (came, answered) = (signals.at(0).unwrap(), signals.at(1).unwrap());
        let on = shmem.on_context(1).unwrap();
        if shmem.my_pe() == 0 {
            for _ in 0..32 {
                shmem.put_nbi(dest, source, 1).unwrap();
            }
            shmem.put_signal_nbi(dest, source, came, Signal::Set(1), 1).unwrap();
            assert_eq!(on.signal_wait_until(answered, Compare::Eq, 1).unwrap(), 1);
        } else {
            assert_eq!(on.signal_wait_until(came, Compare::Eq, 1).unwrap(), 1);
            on.p(answered, 1, 0).unwrap();
        }
        shmem.barrier_all().unwrap();
    });
}
