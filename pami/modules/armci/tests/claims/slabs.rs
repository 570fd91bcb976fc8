//! Malloc, free, groups (SPEC G-1, P-8).

use crate::tasks::{SMALL, barrier, malloc, on_tasks, own_bytes};
use armci::{Error, GlobalAddress, Local};

#[test]
fn g1_malloc_tells_every_task_where_all_have_their_own() {
    for (tasks, per_node) in [(1, 1), (2, 1), (5, 2), (4, 4)] {
        let all = on_tasks(tasks, per_node, SMALL, |library| {
            // Each another length, so that the second ones lie at other offsets.
            let mut lengths = vec![GlobalAddress::default(); tasks as usize];
            library.malloc(&library.world(), 100 * (1 + library.task()), &mut lengths).unwrap();
            let second = malloc(&library, 64);
            library.free(&library.world(), lengths[library.task() as usize]).unwrap();
            (second, library.malloc_local(64).unwrap())
        });
        for (task, (second, third)) in (0..).zip(&all) {
            assert_eq!(second, &all[0].0, "all know the same");
            let offset = (100 * (1 + task) as u32).next_multiple_of(64);
            assert_eq!(second[task], GlobalAddress { task: task as u32, offset });
            assert_eq!(third.offset, 0, "what was freed is used again");
        }
    }
}

#[test]
fn p8_a_slab_that_is_full_is_told_to_all_and_costs_nothing() {
    on_tasks(3, 1, SMALL, |library| {
        let mut addresses = [GlobalAddress::default(); 3];
        for _ in 0..20 {
            let bytes = if library.task() == 1 { SMALL.slab + 1 } else { 64 };
            let refused = library.malloc(&library.world(), bytes, &mut addresses);
            assert_eq!(refused, Err(Error::Full { task: 1 }));
        }
        let whole = malloc(&library, SMALL.slab);
        assert_eq!(library.malloc_local(1), Err(Error::Full { task: library.task() }));
        library.free(&library.world(), whole[library.task() as usize]).unwrap();
        let few = library.malloc(&library.world(), 1, &mut addresses[..2]);
        assert_eq!(few, Err(Error::Addresses { given: 2, wanted: 3 }));
        let never = GlobalAddress { task: library.task(), offset: 8 };
        assert_eq!(library.free(&library.world(), never), Err(Error::NotAllocated(never)));
        assert_eq!(library.free_local(never), Err(Error::NotAllocated(never)));
    });
}

#[test]
fn g1_groups_allocate_and_synchronise_among_themselves() {
    static LISTED: [u32; 3] = [4, 1, 2];
    on_tasks(5, 1, SMALL, |library| {
        let task = library.task();
        if LISTED.contains(&task) {
            let group = library.group_of(1, &LISTED).unwrap();
            assert_eq!((group.tasks(), group.task(0), group.task(3)), (3, Some(4), None));
            let mut addresses = [GlobalAddress::default(); 3];
            library.malloc(&group, 64, &mut addresses).unwrap();
            assert_eq!(addresses.map(|address| address.task), LISTED);
            let next = LISTED.iter().position(|&other| other == task).unwrap() + 1;
            let slab = library.slab().unwrap();
            let source = library.malloc_local(64).unwrap();
            slab.write(source.offset as usize, &[task as u8; 64]).unwrap();
            library.put(Local::new(&slab, source.offset as usize), addresses[next % 3], 64).unwrap();
            library.barrier(&group).unwrap();
            let before = LISTED[(next + 1) % 3] as u8;
            assert_eq!(own_bytes(&library, addresses[next - 1], 64), [before; 64]);
            library.free(&group, addresses[next - 1]).unwrap();
            library.end_group(group).unwrap();
        }
        if task % 3 == 0 {
            let group = library.group(2, 0, 2, 3).unwrap();
            assert_eq!(group.task(1), Some(3));
            library.barrier(&group).unwrap();
        }
        assert!(library.group(3, 9, 1, 1).is_err());
        barrier(&library);
    });
}
