//! Updates of integers (SPEC P-7).

use crate::tasks::{SMALL, barrier, malloc, on_tasks};
use armci::{Error, Integer, Library};
use std::sync::Mutex;

fn counts<T: Integer + Into<i64> + From<i16> + Send + Ord>(per_node: u32) {
    const ROUNDS: usize = 60;
    let seen: Mutex<Vec<i64>> = Mutex::new(Vec::new());
    on_tasks(4, per_node, SMALL, |library| {
        let counter = malloc(&library, 64)[2];
        if library.task() == 2 {
            let _: T = library.swap(counter, T::from(-10)).unwrap();
        }
        barrier(&library);
        let mine: Vec<i64> =
            (0..ROUNDS).map(|_| library.fetch_and_add(counter, T::from(1)).unwrap().into()).collect();
        assert!(mine.is_sorted());
        seen.lock().unwrap().extend(mine);
        barrier(&library);
        let was: T = library.compare_and_swap(counter, T::from(4 * ROUNDS as i16 - 10), T::from(5)).unwrap();
        let was: i64 = was.into();
        // One of the tasks finds what is expected.
        assert!(was == 4 * ROUNDS as i64 - 10 || was == 5, "{was} of tasks that are {per_node} on a node");
        barrier(&library);
    });
    let mut all = seen.into_inner().unwrap();
    all.sort_unstable();
    assert!(all.into_iter().eq(-10..4 * ROUNDS as i64 - 10), "every number once");
}

#[test]
fn p7_tasks_that_count_together_get_every_number_once() {
    for per_node in [1, 4] {
        counts::<i32>(per_node);
        counts::<i64>(per_node);
    }
}

#[test]
fn p8_integers_lie_whole_and_aligned_in_a_slab() {
    on_tasks(1, 1, SMALL, |library: Library<_>| {
        let address = malloc(&library, 64)[0];
        let odd = address.checked_add(4).unwrap();
        assert_eq!(library.swap(odd, 1i64), Err(Error::Unaligned { size: 8 }));
        library.swap(odd, 1i32).unwrap();
        let end = armci::GlobalAddress { task: 0, offset: u32::MAX - 3 };
        assert_eq!(library.swap(end, 1i32), Err(Error::Outside { address: end, reach: 4 }));
    });
}
