//! Puts and gets (SPEC P-7, P-10, F-1).

use crate::machine::{buffer, filled, pattern};
use crate::tasks::{SMALL, TestLibrary, barrier, bytes, got, malloc, on_tasks, own_bytes};
use armci::{Error, GlobalAddress, Local, Settings, Shape};
use proptest::prelude::*;
use std::sync::Mutex;

const MACHINES: [(u32, u32); 3] = [(2, 1), (2, 2), (4, 2)];

#[test]
fn p7_what_is_put_is_there_behind_a_fence_and_can_be_got() {
    for (tasks, per_node) in MACHINES {
        on_tasks(tasks, per_node, SMALL, |library| {
            let (me, mine) = (library.task() as usize, malloc(&library, 3000));
            let next = (me + 1) % tasks as usize;
            let source = filled(&pattern(3000, me)).share();
            library.put(Local::new(&source, 0), mine[next], 3000).unwrap();
            // A get comes behind a put without any fence.
            assert_eq!(got(&library, mine[next], 3000).unwrap(), pattern(3000, me));
            library.fence(next as u32).unwrap();
            barrier(&library);
            let before = (me + tasks as usize - 1) % tasks as usize;
            assert_eq!(own_bytes(&library, mine[me], 3000), pattern(3000, before));
        });
    }
}

#[test]
fn p7_a_put_may_be_forgotten_when_it_returns() {
    on_tasks(2, 1, SMALL, |library| {
        let mine = malloc(&library, 4096);
        if library.task() == 0 {
            let source = buffer(64).share();
            for round in 0..64 {
                source.write(0, &[round; 64]).unwrap();
                let to = mine[1].checked_add(64 * u32::from(round)).unwrap();
                library.put(Local::new(&source, 0), to, 64).unwrap();
            }
            library.all_fence().unwrap();
        }
        barrier(&library);
        if library.task() == 1 {
            let rows: Vec<u8> = (0..64).flat_map(|round| [round; 64]).collect();
            assert_eq!(own_bytes(&library, mine[1], 4096), rows);
        }
    });
}

#[test]
fn p7_handles_end_and_more_than_there_are_is_refused() {
    on_tasks(2, 1, SMALL, |library| {
        let mine = malloc(&library, 4096);
        let other = mine[1 - library.task() as usize];
        let source = filled(&pattern(1000, 3)).share();
        let into = buffer(1000).share();
        let mut handles: Vec<_> =
            (0..4).map(|_| library.put_nb(Local::new(&source, 0), other, 1000).unwrap()).collect();
        let refused = library.get_nb(other, Local::new(&into, 0), 1000);
        assert_eq!(refused, Err(Error::NoHandle { limit: 4 }));
        let last = handles.pop().unwrap();
        while !library.test(&last).unwrap() {}
        library.wait(last).unwrap();
        let get = library.get_nb(other, Local::new(&into, 0), 1000).unwrap();
        library.wait(get).unwrap();
        assert_eq!(bytes(&into, 0, 1000), pattern(1000, 3));
        for handle in handles {
            library.wait(handle).unwrap();
        }
        barrier(&library);
    });
}

#[test]
fn p7_implicit_calls_are_waited_for_by_task_and_together() {
    on_tasks(3, 1, SMALL, |library| {
        let mine = malloc(&library, 2048);
        let me = library.task() as usize;
        let source = filled(&pattern(256, me)).share();
        let into = buffer(3 * 256).share();
        // More than there are slots.
        for round in 0..40 {
            let to = mine[round % 3].checked_add(256 * me as u32).unwrap();
            library.put_implicit(Local::new(&source, 0), to, 256).unwrap();
        }
        library.wait_all().unwrap();
        for (index, from) in mine.iter().enumerate() {
            let from = from.checked_add(256 * me as u32).unwrap();
            library.get_implicit(from, Local::new(&into, 256 * index), 256).unwrap();
            library.wait_task(index as u32).unwrap();
            assert_eq!(bytes(&into, 256 * index, 256), pattern(256, me));
        }
        barrier(&library);
    });
}

#[test]
fn p7_a_flag_is_set_behind_its_data() {
    on_tasks(2, 1, SMALL, |library| {
        let mine = malloc(&library, 2048);
        let flag = |task: usize| mine[task].checked_add(2040).unwrap();
        let slab = library.slab().unwrap();
        slab.write(mine[library.task() as usize].offset as usize + 2040, &[0; 8]).unwrap();
        barrier(&library);
        if library.task() == 0 {
            let source = filled(&pattern(2000, 9)).share();
            library.put_flag(Local::new(&source, 0), mine[1], 2000, flag(1), 77i64).unwrap();
            let foreign = library.put_flag(Local::new(&source, 0), mine[1], 2000, flag(0), 1i32);
            assert_eq!(foreign, Err(Error::Task(0)));
        } else {
            while own_bytes(&library, flag(1), 8) != 77i64.to_le_bytes() {
                library.progress();
                std::thread::yield_now();
            }
            assert_eq!(own_bytes(&library, mine[1], 2000), pattern(2000, 9));
        }
        barrier(&library);
    });
}

#[test]
fn p8_what_is_outside_is_refused_with_its_name() {
    on_tasks(2, 1, SMALL, |library| {
        let memory = buffer(100).share();
        let at = |task, offset| GlobalAddress { task, offset };
        let put = |to, offset, bytes: u32| library.put(Local::new(&memory, offset), to, bytes);
        assert_eq!(put(at(1, 0), 1, 100), Err(Error::Local { offset: 1, reach: 100, len: 100 }));
        assert_eq!(put(at(2, 0), 0, 100), Err(Error::Task(2)));
        let far = at(1, u32::MAX - 8);
        assert_eq!(put(far, 0, 100), Err(Error::Outside { address: far, reach: 100 }));
        assert_eq!(put(at(1, 0), 100, 0), Ok(()));
        let strided = |count, local, remote| {
            library.get(at(1, 0), Local::new(&memory, 0), Shape::Strided { count, local, remote })
        };
        let refused = |counts, strides| Err(Error::Levels { counts, strides, limit: 7 });
        assert_eq!(strided(&[], &[], &[]), refused(0, [0, 0]));
        assert_eq!(strided(&[1, 2], &[1], &[]), refused(2, [1, 0]));
        let outside = strided(&[10, 10], &[11], &[10]);
        assert_eq!(outside, Err(Error::Local { offset: 0, reach: 109, len: 100 }));
        assert_eq!(strided(&[10, 10], &[10], &[10]), Ok(()));
        assert_eq!(strided(&[u32::MAX, u32::MAX], &[u32::MAX], &[u32::MAX]), Err(Error::TooLong));
        barrier(&library);
    });
}

/// What a transfer does, by the plainest loop there is.
pub fn model(shape: &Owned, mut each: impl FnMut(usize, usize)) {
    match shape {
        Owned::Strided { count, local, remote } => {
            let mut places = vec![(0, 0)];
            for level in (1..count.len()).rev() {
                places = places
                    .into_iter()
                    .flat_map(|(a, b)| {
                        let strides = (local[level - 1] as usize, remote[level - 1] as usize);
                        (0..count[level] as usize).map(move |n| (a + n * strides.0, b + n * strides.1))
                    })
                    .collect();
            }
            for (a, b) in places {
                (0..count[0] as usize).for_each(|at| each(a + at, b + at));
            }
        }
        Owned::Vector { bytes, places } => {
            for &(a, b) in places {
                (0..*bytes as usize).for_each(|at| each(a as usize + at, b as usize + at));
            }
        }
    }
}

#[derive(Clone, Debug)]
pub enum Owned {
    Strided { count: Vec<u32>, local: Vec<u32>, remote: Vec<u32> },
    Vector { bytes: u32, places: Vec<(u32, u32)> },
}

impl Owned {
    pub fn shape(&self) -> Shape<'_> {
        match self {
            Self::Strided { count, local, remote } => Shape::Strided { count, local, remote },
            Self::Vector { bytes, places } => Shape::Vector { bytes: *bytes, places },
        }
    }

    /// Bytes that it reaches over on each side.
    fn reach(&self) -> (usize, usize) {
        let mut reach = (0, 0);
        model(self, |a, b| reach = (reach.0.max(a + 1), reach.1.max(b + 1)));
        reach
    }

    /// Whether no two bytes of a side are the same one.
    fn is_apart(&self) -> bool {
        let (mut local, mut remote) = (Vec::new(), Vec::new());
        model(self, |a, b| {
            local.push(a);
            remote.push(b);
        });
        [local, remote].into_iter().all(|mut side| {
            let len = side.len();
            side.sort_unstable();
            side.dedup();
            side.len() == len
        })
    }
}

/// Shapes whose runs are multiples of `unit` bytes, on both sides.
pub fn shapes(unit: u32) -> impl Strategy<Value = Owned> {
    // Gaps of nothing are frequent, so that levels that go together come up.
    let gap = prop_oneof![Just(0u32), Just(0u32), 1u32..4];
    let level = (1u32..4, gap.clone(), gap);
    let strided = (0u32..6, prop::collection::vec(level, 0..5)).prop_map(move |(row, levels)| {
        let (mut count, mut local, mut remote) = (vec![row * unit], Vec::new(), Vec::new());
        let mut extent = (row * unit, row * unit);
        for (number, near, far) in levels {
            let strides = (extent.0 + near * unit, extent.1 + far * unit);
            count.push(number);
            local.push(strides.0);
            remote.push(strides.1);
            extent = ((number - 1) * strides.0 + extent.0, (number - 1) * strides.1 + extent.1);
        }
        Owned::Strided { count, local, remote }
    });
    let vector =
        (0u32..5, prop::collection::vec((0u32..200, 0u32..200), 0..20)).prop_map(move |(row, places)| {
            let places = places.into_iter().map(|(a, b)| (a * unit, b * unit)).collect();
            Owned::Vector { bytes: row * unit, places }
        });
    prop_oneof![3 => strided, 1 => vector]
}

/// Puts and gets by one shape, at task 0; returns what the target had then, and what was got.
fn there_and_back(per_node: u32, shape: &Owned, reach: (usize, usize)) -> (Vec<u8>, Vec<u8>) {
    let seen: Mutex<Option<(Vec<u8>, Vec<u8>)>> = Mutex::new(None);
    let settings = Settings { slab: (reach.1 as u32).max(64), ..SMALL };
    on_tasks(2, per_node, settings, |library: TestLibrary| {
        let address = GlobalAddress { task: 1, offset: 0 };
        if library.task() == 1 {
            library.slab().unwrap().write(0, &vec![0xee; reach.1]).unwrap();
        }
        barrier(&library);
        if library.task() == 0 {
            let source = filled(&pattern(reach.0, 5)).share();
            let handle = library.put_nb(Local::new(&source, 0), address, shape.shape()).unwrap();
            library.wait(handle).unwrap();
            let into = filled(&vec![0xdd; reach.0]).share();
            library.get(address, Local::new(&into, 0), shape.shape()).unwrap();
            let remote = got(&library, address, reach.1).unwrap();
            *seen.lock().unwrap() = Some((remote, bytes(&into, 0, reach.0)));
        }
        barrier(&library);
    });
    seen.into_inner().unwrap().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn p10_strided_and_vector_transfers_are_plain_loops(shape in shapes(1), local in any::<bool>()) {
        prop_assume!(shape.is_apart());
        let reach = shape.reach();
        let source = pattern(reach.0, 5);
        let (mut remote, mut back) = (vec![0xee; reach.1], vec![0xdd; reach.0]);
        model(&shape, |a, b| {
            remote[b] = source[a];
            back[a] = source[a];
        });
        prop_assert_eq!(there_and_back(if local { 2 } else { 1 }, &shape, reach), (remote, back));
    }
}

#[test]
fn p10_rows_that_overlap_are_read_as_often_as_they_are_named() {
    let shape = Owned::Strided { count: vec![4, 3], local: vec![2], remote: vec![4] };
    let source = pattern(8, 5);
    let rows: Vec<u8> = [0, 2, 4].into_iter().flat_map(|at| source[at..at + 4].to_vec()).collect();
    assert_eq!(there_and_back(1, &shape, (8, 12)).0, rows);
}
