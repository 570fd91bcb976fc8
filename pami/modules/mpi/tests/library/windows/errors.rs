//! What is refused, and what is told.

use super::{NONE, data, one, read, window};
use crate::machine::{Packet, buffer};
use crate::scene::{room, run, run_in, run_with};
use mpi::{Assert, Basic, Class, Datatype, Error, LockType, Op, PROC_NULL, Settings, Target};
use pami::Endpoint;
use pami::endpoint::{ClientId, ContextOffset};
use pami::packet::{Envelope, Kind};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

#[test]
fn m6_accesses_outside_epochs_and_epochs_that_do_not_fit_are_refused() {
    run(2, 1, |mpi| {
        let world = mpi.world();
        let (win, _) = window::<u32>(&world, 4);
        let (value, there) = (data(&[1u32]), one::<u32>(1, 0));
        let group = world.group().unwrap();
        let sync = Err(Error::RmaSync);
        assert_eq!(win.put(&value, &there), sync);
        assert_eq!(win.flush(1), sync);
        assert_eq!((win.unlock(1), win.unlock_all(), win.complete()), (sync, sync, sync));
        win.lock(LockType::Shared, 1, NONE).unwrap();
        assert_eq!(win.put(&value, &one::<u32>(0, 0)), sync);
        assert_eq!(win.lock(LockType::Shared, 1, NONE), sync);
        assert_eq!((win.fence(NONE), win.lock_all(NONE), win.start(&group, NONE)), (sync, sync, sync));
        assert_eq!((win.free(), win.flush(0)), (sync, sync));
        win.unlock(1).unwrap();
        win.fence(NONE).unwrap();
        // A fence that nothing follows was the last.
        win.lock_all(NONE).unwrap();
        win.unlock_all().unwrap();
        win.fence(NONE).unwrap();
        win.put(&value, &there).unwrap();
        assert_eq!(win.lock_all(NONE), sync);
        win.fence(Assert::NOSUCCEED).unwrap();
        assert_eq!(win.put(&value, &there), sync);
        assert_eq!(Error::RmaSync.class(), Class::RmaSync);
        win.free().unwrap();
        assert_eq!((win.fence(NONE), win.free()), (Err(Error::Win), Err(Error::Win)));
    });
}

#[test]
fn p8_accesses_that_do_not_fit_are_refused() {
    run(2, 2, |mpi| {
        let world = mpi.world();
        let (win, _) = window::<u32>(&world, 4);
        win.fence(NONE).unwrap();
        let value = data(&[1u32]);
        let put = |target: &Target| win.put(&value, target);
        assert_eq!(put(&one::<u32>(1, 4)), Err(Error::RmaRange));
        assert_eq!(put(&one::<u32>(1, usize::MAX)), Err(Error::RmaRange));
        assert_eq!(put(&one::<u32>(2, 0)), Err(Error::Rank(2)));
        assert_eq!(put(&one::<u32>(-7, 0)), Err(Error::Rank(-7)));
        assert_eq!(put(&one::<u32>(PROC_NULL, 0)), Ok(()));
        assert_eq!(put(&one::<f32>(1, 0)), Err(Error::Type));
        assert_eq!(put(&Target::new(1, 0, 2, Datatype::of::<u32>())), Err(Error::Type));
        let raw = mpi.types().contiguous(1, &Datatype::of::<u32>()).unwrap();
        assert_eq!(put(&Target::new(1, 0, 1, raw)), Err(Error::Type));
        let add = |op| win.accumulate(&value, &one::<u32>(1, 0), op);
        assert_eq!((add(Op::NoOp), add(Op::MaxLoc)), (Err(Error::Op), Err(Error::Op)));
        assert_eq!(add(Op::create(|_, _, _, _| (), true)), Err(Error::Op));
        let half = data(&[1.5f32]);
        let swap = win.compare_and_swap(&half, &half, &half, 1, 0);
        assert_eq!(swap, Err(Error::Type));
        assert_eq!(win.fetch_and_op(Some(&half), &half, 1, 0, Op::Band), Err(Error::Op));
        assert_eq!(
            win.fetch_and_op(None, &half, 1, 0, Op::Sum).map_err(|error| error.class()),
            Err(Class::Arg)
        );
        let two = room(2);
        assert_eq!(win.fetch_and_op(Some(&two), &two, 1, 0, Op::Sum), Err(Error::Count(2)));
        win.fence(Assert::NOSUCCEED).unwrap();
        win.free().unwrap();
    });
}

#[test]
fn r8_limits_of_the_settings_are_named_and_all_processes_are_told() {
    let settings = Settings { windows: 2, window_ranks: 5, window_memory: 256, ..Settings::default() };
    run_with(2, 1, settings, |mpi| {
        let world = mpi.world();
        let full = |what, limit| Some(Error::NoMem { what, limit });
        let big = world.win_allocate(if world.rank() == 0 { 300 } else { 8 }, 1);
        match world.rank() {
            0 => assert_eq!(big.err(), full("bytes for windows of the library's memory", 256)),
            _ => assert_eq!(big.err().map(|error| error.class()), Some(Class::NoMem)),
        }
        let wins = [world.win_allocate(128, 1).unwrap(), world.win_allocate(128, 1).unwrap()];
        assert_eq!(world.win_allocate(1, 1).err(), full("windows", 2));
        assert_eq!(mpi.finalize(), Err(Error::Unfinished { what: "windows", count: 2 }));
        wins[0].free().unwrap();
        let again = world.win_allocate(100, 4).unwrap();
        assert_eq!((again.size(), again.disp_unit()), (100, 4));
        assert_eq!(wins[0].base().err(), Some(Error::Win));
        let memory = buffer(64).share();
        again.free().unwrap();
        let wrong = |error: Option<Error>| error.map(|error| error.class());
        assert_eq!(wrong(world.win_create(&memory, 0..65, 1).err()), Some(Class::Arg));
        assert_eq!(wrong(world.win_create(&memory, 0..64, 0).err()), Some(Class::Arg));
        wins[1].free().unwrap();
        // What was refused has left nothing behind.
        for _ in 0..40 {
            let win = world.win_create(&memory, 8..64, 8).unwrap();
            assert_eq!((win.size(), win.base().unwrap().1), (56, 8));
            win.free().unwrap();
        }
        assert!(memory.reclaim().is_ok());
    });
    run_with(3, 1, Settings { window_ranks: 2, ..Settings::default() }, |mpi| {
        let error = Error::NoMem { what: "processes of windows", limit: 2 };
        assert_eq!(mpi.world().win_allocate(8, 1).err(), Some(error));
    });
}

#[test]
fn d9_r9_whoever_a_hostile_node_says_it_is_the_answers_of_a_windows_processes_have_their_places() {
    const FORGED: u64 = 20;
    let [forged, asked] = [const { AtomicBool::new(false) }; 2];
    let settings = Settings { window_ranks: 2, ..Settings::default() };
    run_in(3, 1, settings, move |mpi, machine| {
        let world = mpi.world();
        let group = mpi.group_incl(&world.group().unwrap(), &[0, 1]).unwrap();
        let Some(pair) = world.create(&group).unwrap() else { return };
        let (win, memory) = window::<u32>(&pair, 2);
        if pair.rank() == 0 {
            memory.write(0, &[7; 8]).unwrap();
            let from = |task, context| Endpoint::from_parts(ClientId(0), task, ContextOffset(context));
            let no_op = Op::PREDEFINED.iter().position(|op| matches!(op, Op::NoOp)).unwrap() as u8;
            machine.lock().muted = Some(0);
            for n in 0..FORGED {
                // Of no process of the window, of another context than the window's, of a window that is not there.
                let (origin, generation) =
                    [(from(2, n as u8 % 8), 1), (from(1, 1 + n as u8 % 7), 1), (from(1, 0), 8)]
                        [n as usize % 3];
                // Rank, generation; where, how much, whose; what.
                let words = [1, generation, 0, 0, 4, 4, 0, 4, 0].map(u32::to_le_bytes).concat();
                let header = [&words[..], &[1, no_op, Basic::U32 as u8, 0]].concat();
                let (kind, dispatch, target) = (Kind::EagerFirst, 16, from(0, 0));
                let envelope = Envelope { kind, dispatch, origin, target, message: 0, offset: 0, total: 0 };
                machine.forge(Packet::new(envelope, &header, &[]));
            }
            let look = || assert_eq!(world.iprobe(2, 0), Ok(None));
            (0..100).for_each(|_| look());
            forged.store(true, SeqCst);
            while !asked.load(SeqCst) {
                look();
            }
            (0..100).for_each(|_| look());
            machine.lock().muted = None;
            (0..100).for_each(|_| look());
            world.send(&room(0), 1, 1).unwrap();
        } else {
            while !forged.load(SeqCst) {
                std::thread::yield_now();
            }
            win.lock(LockType::Shared, 0, NONE).unwrap();
            let (values, there) = (room(2), Target::new(0, 0, 2, Datatype::of::<u32>()));
            let mut request = win.rget_accumulate(None, &values, &there, Op::NoOp).unwrap();
            asked.store(true, SeqCst);
            // What is behind the answer.
            world.recv(&room(0), 0, 1).unwrap();
            assert!(mpi.test(&mut request).unwrap().is_some(), "it was not answered");
            assert_eq!(read::<u32>(&values), [0x0707_0707; 2]);
            win.unlock(0).unwrap();
        }
        win.free().unwrap();
        assert_eq!(mpi.protocol_errors(), if pair.rank() == 0 { FORGED } else { 0 });
    });
}
