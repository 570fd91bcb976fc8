//! What is refused, and what is told.

use super::{NONE, data, one, window};
use crate::machine::buffer;
use crate::scene::{room, run, run_with};
use mpi::{Assert, Class, Datatype, Error, LockType, Op, PROC_NULL, Settings, Target};

#[test]
fn accesses_outside_epochs_and_epochs_that_do_not_fit_are_refused() {
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
fn accesses_that_do_not_fit_are_refused() {
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
fn limits_of_the_settings_are_named_and_all_processes_are_told() {
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
