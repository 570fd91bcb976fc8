//! Geometries that configuration establishes (SPEC G-1).

use crate::machine::machine_of;
use crate::stage::{Case, LIMITS, Stage};
use pami::client::{CONFIGURED, ConfiguredError};
use pami::collective::{Algorithm, Collective};
use pami::geometry::MembersError;
use pami::{ClientBuilder, ClientError, GeometryError, GeometryId, Limits, NewGeometry, OperationError};

/// Tasks with two contexts each, of nodes that have read these words.
fn stage(tasks: u32, seed: u64, words: fn(u32) -> &'static str) -> Stage {
    let nodes = machine_of(tasks, 1);
    nodes[0].world.geometries.set(words).unwrap();
    Stage::steps(nodes, 2, seed, LIMITS)
}

#[test]
fn g1_geometries_of_the_configuration_are_there_from_the_start() {
    for seed in 0..8 {
        let mut stage = stage(
            5,
            seed,
            |_| "stage.all:all:0:allreduce=ring;other.all:all;stage.row:3,0-1:0-1;stage.odd:1-3/2:1",
        );
        let ids = ["all", "row", "odd"].map(|name| stage.clients[2].geometry(name).unwrap());
        let named = |name| stage.clients.iter().map(move |client| client.geometry(name));
        assert!(named("all").all(|id| id == Some(ids[0])) && named("other").all(|id| id.is_none()));
        // Of context 0 and 1 of each task.
        let members = [
            [[true, false]; 5],
            [[true; 2], [true; 2], [false; 2], [true; 2], [false; 2]],
            [[false; 2], [false, true], [false; 2], [false, true], [false; 2]],
        ];
        for (id, members) in ids.into_iter().zip(members) {
            let there = stage.contexts.iter().map(|context| context.geometry(id).is_some());
            assert!(there.eq(members.into_iter().flatten()));
        }
        let [all, row, odd] = [(ids[0], 0), (ids[1], 6), (ids[2], 3)].map(|(id, context)| {
            let geometry = stage.contexts[context].geometry(id).unwrap();
            assert_eq!((geometry.rank, geometry.started, geometry.class_route), (0, 1, false));
            *geometry.members
        });
        let call = Case { what: Collective::Allreduce, len: 40, ..Case::default() };
        let case = |id, size| Case { geometry: id, size, ..call };
        let cases = [(case(ids[0], 5), all), (case(ids[1], 6), row), (case(ids[2], 2), odd)];
        let [by_ring, chosen, _] = cases.map(|(case, members)| {
            let context = stage.member(&members, 0);
            let collect = case.call(case.memory(0), stage.done(0).unwrap());
            stage.contexts[context].query(&collect).unwrap().choose(None).unwrap().algorithm
        });
        assert_eq!((by_ring, chosen == Algorithm::Ring), (Algorithm::Ring, false));
        // At once, before anybody has heard of another.
        stage.play(&cases);
        stage.play(&cases);
        // They are as others: destroyed, and in nobody's place.
        for id in 1..LIMITS.geometries as u32 {
            let new = NewGeometry::new(GeometryId(id), all, stage.done(0).unwrap());
            assert_eq!(stage.contexts[0].create_geometry(new), Ok(()));
        }
        assert_eq!(stage.contexts[2].destroy_geometry(ids[1]), Ok(()));
        let new = NewGeometry::new(ids[1], row, stage.done(0).unwrap());
        assert_eq!(stage.contexts[2].create_geometry(new), Err(GeometryError::Used(ids[1])));
    }
}

#[test]
fn g1_a_configuration_that_a_client_cannot_have_is_refused_with_the_name() {
    let nodes = machine_of(3, 1);
    let words = |_| "wide.x:all:0-1;far.a:0-1;far.b:2-3;bare.x:0;many.a:0;many.b:0;many.c:0;many.d:0;many.e:0;poor.x:0,2";
    nodes[0].world.geometries.set(words).unwrap();
    let refused = |client, limits| {
        let client = ClientBuilder::new(nodes[0], client).collectives(limits).create();
        let Err(ClientError::Configured(name, error)) = client else { panic!("it is not refused") };
        assert!(ClientError::Configured(name, error).to_string().contains(&format!("geometry {name} ")));
        (name, error)
    };
    let none = Limits { geometries: 0, in_flight: 0, always: 0, queued: 0, early: 0, domains: None };
    let members = ConfiguredError::Members;
    // There are places for two: who is refused has none.
    for _ in 0..3 {
        assert_eq!(refused("wide", LIMITS), ("x", members(MembersError::UnknownContext(1))));
        assert_eq!(refused("far", LIMITS), ("b", members(MembersError::UnknownTask(3))));
        assert_eq!(refused("bare", none), ("x", ConfiguredError::NoLimits));
        assert_eq!(refused("many", LIMITS), ("e", ConfiguredError::TooMany));
    }
    assert!(ConfiguredError::TooMany.to_string().contains(&CONFIGURED.to_string()));
    assert!(ClientBuilder::new(nodes[0], "other").create().is_ok());
    let mut state = nodes[0].world.lock();
    let (memory, taken) = (state.memory, state.taken);
    state.memory = taken;
    drop(state);
    assert_eq!(refused("poor", LIMITS), ("x", ConfiguredError::Memory(2)));
    nodes[0].world.lock().memory = memory;
    assert!(ClientBuilder::new(nodes[0], "poor").collectives(LIMITS).create().is_ok());
}

#[test]
fn g1_r4_nodes_that_have_read_other_words_all_hear_of_it() {
    let words =
        |task| if task == 1 { "stage.x:0-2:0:allreduce=ring" } else { "stage.x:0-2:0:allreduce=binomial" };
    let mut stage = stage(3, 2, words);
    let id = stage.clients[0].geometry("x").unwrap();
    let case = Case { what: Collective::Allreduce, geometry: id, size: 3, len: 9, ..Case::default() };
    for rank in 0..3 {
        let active = &stage.contexts[2 * rank];
        let (collect, _) = case.collect(active, rank as u32, stage.done(rank).unwrap()).unwrap();
        stage.collect(2 * rank, collect);
    }
    stage.until(3);
    let ends = stage.results();
    assert!(ends.iter().all(|end| matches!(end.1, Err(OperationError::Mismatch(_)))), "{ends:?}");
}
