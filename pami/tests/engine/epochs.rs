//! Endpoints that join and leave a living geometry (SPEC G-1).

use crate::stage::{Case, LIMITS, Stage, ends};
use pami::collective::Collective;
use pami::geometry::Members;
use pami::{CollectError, GeometryError, GeometryId, Limits, NewGeometry, OperationError, WORLD};

/// What the application calls it by all the time.
const TEAM: GeometryId = GeometryId(7);
const TASKS: u32 = 6;

fn case(size: u32, salt: usize) -> Case {
    let salt = salt as u64;
    Case { geometry: TEAM, what: Collective::Allreduce, size, len: 20, salt, ..Case::default() }
}

/// What one member does, in this order.
#[derive(Clone, Copy, Debug)]
enum Act {
    Change(usize),
    Collect(usize, usize),
}

/// The number of an epoch.
fn number(epoch: usize) -> GeometryId {
    GeometryId(100 + epoch as u32)
}

fn change(
    stage: &mut Stage,
    task: usize,
    epoch: usize,
    members: Members<'static>,
) -> Result<(), GeometryError> {
    let new = NewGeometry::new(number(epoch), members, stage.done(task).unwrap());
    stage.contexts[task].change_geometry(TEAM, new)
}

/// How many geometries a context has room for.
fn room(stage: &mut Stage, task: usize) -> usize {
    let alone = stage.range(task as u32, 1, 1);
    let (_, done) = ends();
    let new = |id| NewGeometry::new(GeometryId(id), alone, done(0).unwrap());
    (1000..).take_while(|&id| stage.contexts[task].create_geometry(new(id)).is_ok()).count()
}

#[test]
fn g1_members_join_and_leave_and_what_is_in_flight_ends_in_its_epoch() {
    const EPOCHS: usize = 9;
    const CALLS: usize = 4;
    for seed in 0..24 {
        let limits = if seed % 2 == 0 { LIMITS } else { Limits { in_flight: 3, always: 4, ..LIMITS } };
        let mut stage = Stage::with(TASKS, 1 + seed as u32 % 2, 1, seed, limits);
        // Some of the tasks, in any order.
        let mut epochs = Vec::new();
        for _ in 0..EPOCHS {
            let mut tasks: Vec<u32> = (0..TASKS).collect();
            let count = 1 + stage.random.below(TASKS as usize);
            let list: Vec<u32> =
                (0..count).map(|_| tasks.swap_remove(stage.random.below(tasks.len()))).collect();
            epochs.push((stage.listed(&list), list));
        }
        let is_in = |epoch: usize, task: u32| epochs[epoch].1.contains(&task);
        let mut acts: Vec<Vec<Act>> = Vec::new();
        for task in 0..TASKS {
            let mut own = Vec::new();
            for epoch in 0..EPOCHS {
                let was_in = epoch > 0 && is_in(epoch - 1, task);
                if is_in(epoch, task) || was_in {
                    own.push(Act::Change(epoch));
                }
                if is_in(epoch, task) {
                    own.extend((0..CALLS).map(|call| Act::Collect(epoch, call)));
                }
            }
            own.reverse();
            acts.push(own);
        }
        let (changes, total) = acts.iter().flatten().fold((0, 0), |(changes, total), act| {
            (changes + usize::from(matches!(act, Act::Change(_))), total + 1)
        });
        let (ended, done) = ends();
        let (mut outputs, mut patience) = (Vec::new(), 600_000);
        while acts.iter().any(|acts| !acts.is_empty()) {
            patience -= 1;
            assert!(patience > 0, "there is never room, {seed}: {acts:?}");
            stage.some_ticks(5);
            let task = stage.random.below(TASKS as usize);
            let Some(&act) = acts[task].last() else { continue };
            let begun = match act {
                Act::Change(epoch) => match change(&mut stage, task, epoch, epochs[epoch].0) {
                    Ok(()) => true,
                    Err(GeometryError::Busy(_) | GeometryError::Again | GeometryError::Full { .. }) => false,
                    Err(error) => panic!("{seed}: {error}"),
                },
                Act::Collect(epoch, call) => {
                    let (members, list) = &epochs[epoch];
                    let rank = members.rank(stage.contexts[task].endpoint()).unwrap();
                    let geometry = stage.contexts[task].geometry(TEAM).unwrap();
                    assert_eq!((geometry.epoch, geometry.rank), (number(epoch), rank));
                    let case = case(list.len() as u32, epoch * CALLS + call);
                    let active = &mut stage.contexts[task];
                    let (collect, output) = case.collect(active, rank, done(0).unwrap()).unwrap();
                    match active.collect(collect) {
                        Ok(()) => {
                            outputs.push((case, rank, output));
                            true
                        }
                        Err(CollectError::Full { .. }) => false,
                        Err(error) => panic!("{seed}: {error}"),
                    }
                }
            };
            if begun {
                acts[task].pop();
            }
        }
        let told = stage.told;
        stage.settle("all of them", || ended.len() == total - changes && told.len() == changes);
        assert!(ended.are_good() && told.are_good(), "{:?} {:?}", ended.results(), told.results());
        for (case, rank, output) in outputs {
            case.check(rank, output.as_ref());
        }
        // Nothing is left of the old ones.
        stage.rest();
        for task in 0..TASKS {
            let last = is_in(EPOCHS - 1, task);
            assert_eq!(stage.contexts[task as usize].geometry(TEAM).is_some(), last);
            let others = LIMITS.geometries - 1 - usize::from(last);
            assert_eq!(room(&mut stage, task as usize), others, "task {task} of {seed}");
        }
    }
}

/// Members 0 to 3 have the geometry; a change to the members 1 to 4 is under way at each but one.
fn with_an_odd_one(seed: u64, odd: usize) -> (Stage, Members<'static>) {
    let mut stage = Stage::new(TASKS, 1, 1, seed);
    let [old, new] = [stage.range(0, 4, 1), stage.range(1, 4, 1)];
    (0..4).for_each(|task| assert_eq!(change(&mut stage, task, 0, old), Ok(())));
    stage.until(4);
    stage.all_good();
    let mut waiting: Vec<usize> = (0..5).filter(|&task| task != odd).collect();
    while !waiting.is_empty() {
        let task = waiting.swap_remove(stage.random.below(waiting.len()));
        assert_eq!(change(&mut stage, task, 1, new), Ok(()));
        stage.some_ticks(20);
    }
    (stage, new)
}

#[test]
fn g1_r4_members_that_do_not_agree_on_the_next_epoch_all_hear_of_it() {
    let failed = |stage: &mut Stage, what: &str, leaves_well: bool| {
        stage.until(5);
        let ends = stage.results();
        assert_eq!(ends[0].1.is_ok(), leaves_well, "{what}: {ends:?}");
        let mismatch = |end: &(usize, Result<(), _>)| matches!(end.1, Err(OperationError::Mismatch(_)));
        assert!(ends[usize::from(leaves_well)..].iter().all(mismatch), "{what}: {ends:?}");
        stage.rest();
    };
    for seed in 0..12 {
        // Who stays, or leaves, calls a collective instead.
        let odd = seed as usize % 4;
        let (mut stage, _) = with_an_odd_one(seed, odd);
        let (collect, _) =
            case(4, 1).collect(&stage.contexts[odd], odd as u32, stage.done(odd).unwrap()).unwrap();
        stage.collect(odd, collect);
        failed(&mut stage, "another collective", false);
        // Who stays, joins or leaves names others.
        let odd = seed as usize % 5;
        let (mut stage, _) = with_an_odd_one(seed, odd);
        let others = stage.listed(&[1, 2, 3, 4, 0]);
        assert_eq!(change(&mut stage, odd, 1, others), Ok(()));
        // Old members agree that they have ended theirs, if who joins is the odd one.
        failed(&mut stage, "other members", odd == 4);
        for task in 0..5 {
            let left = stage.contexts[task].geometry(TEAM).is_some();
            assert_eq!(stage.contexts[task].destroy_geometry(TEAM).is_ok(), left);
            assert_eq!(room(&mut stage, task), LIMITS.geometries - 1);
        }
    }
}

/// Calls a barrier, if it may wait for room.
fn begin(stage: &mut Stage, task: usize) -> bool {
    let barrier = stage.barrier(TEAM, 9);
    match stage.contexts[task].collect(barrier) {
        Ok(()) => true,
        Err(error) => {
            assert_eq!(error, CollectError::Full { limit: LIMITS.queued });
            false
        }
    }
}

#[test]
fn g1_a_change_that_cannot_be_is_refused_and_changes_nothing() {
    let mut stage = Stage::new(TASKS, 1, 1, 1);
    let [old, new] = [stage.range(0, 4, 1), stage.range(1, 4, 1)];
    let world = NewGeometry::new(number(0), old, stage.done(0).unwrap());
    assert_eq!(stage.contexts[0].change_geometry(WORLD, world), Err(GeometryError::World));
    assert_eq!(change(&mut stage, 5, 0, old), Err(GeometryError::NotMember));
    (0..4).for_each(|task| assert_eq!(change(&mut stage, task, 0, old), Ok(())));
    stage.until(4);
    stage.all_good();
    assert_eq!(change(&mut stage, 1, 0, new), Err(GeometryError::Taken(number(0))));
    let same = NewGeometry::new(TEAM, new, stage.done(0).unwrap());
    assert_eq!(stage.contexts[1].change_geometry(TEAM, same), Err(GeometryError::Taken(TEAM)));
    let taken = NewGeometry::new(number(0), old, stage.done(0).unwrap());
    assert_eq!(stage.contexts[0].create_geometry(taken), Err(GeometryError::Taken(number(0))));
    // Calls that wait for room are of the old members.
    let calls = (0..60).take_while(|_| begin(&mut stage, 2)).count();
    assert_eq!(change(&mut stage, 2, 1, new), Err(GeometryError::Busy(TEAM)));
    for task in [0, 1, 3] {
        for _ in 0..calls {
            while !begin(&mut stage, task) {
                stage.tick();
            }
        }
    }
    stage.until(4 * calls);
    stage.all_good();
    stage.world.kill(4);
    stage.rest();
    assert_eq!(change(&mut stage, 1, 1, new), Err(GeometryError::Dead(4)));
    // The geometry is as it was.
    stage.play(&[(case(4, 3), old)]);
    assert_eq!(room(&mut stage, 1), LIMITS.geometries - 2);
}
