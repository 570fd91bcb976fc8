use super::*;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::{boxed::Box, thread, vec::Vec};

fn table<T: Send + Sync>(places: usize) -> Table<T> {
    let places: Box<[EntryCell<T>]> = (0..places).map(|_| EntryCell::new()).collect();
    Table::new(Box::leak(places))
}

#[test]
fn p8_a_key_finds_its_entry_and_no_later_one() {
    let table = table(3);
    let keys: Vec<Key> = (0..3).map(|entry| table.insert(entry).unwrap()).collect();
    assert_eq!(table.insert(3), Err(3), "full");
    for (entry, &key) in keys.iter().enumerate() {
        assert_eq!(*table.get(key).unwrap(), entry);
    }
    assert_eq!(table.remove(keys[1]), Some(1));
    assert!(table.get(keys[1]).is_none() && table.remove(keys[1]).is_none());
    let new = table.insert(7).unwrap();
    assert_eq!(new.index, keys[1].index);
    assert!(table.get(keys[1]).is_none(), "another generation");
    assert_eq!(*table.get(new).unwrap(), 7);
    assert_eq!(*table.get(keys[0]).unwrap(), 0);
}

#[test]
fn d9_made_up_keys_find_nothing() {
    let table = table(2);
    let key = table.insert(1).unwrap();
    for index in [0, 1, 2, 1000, u32::MAX] {
        for generation in [0, 1, 2, 3, u32::MAX, u32::MAX - 1] {
            let made_up = Key { index, generation };
            assert_eq!(table.get(made_up).is_some(), made_up == key, "{made_up:?}");
            assert!(made_up == key || table.remove(made_up).is_none());
        }
    }
    table.remove(key).unwrap();
    let empty = Key { index: key.index, generation: key.generation + 1 };
    assert!(table.get(empty).is_none() && table.remove(empty).is_none());
}

#[test]
fn p8_an_entry_is_removed_when_nobody_looks_at_it_any_more() {
    let table = table(2);
    let key = table.insert(5).unwrap();
    let (removed, guard) = (AtomicBool::new(false), table.get(key).unwrap());
    thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(table.remove(key), Some(5));
            removed.store(true, Ordering::SeqCst);
        });
        while table.get(key).is_some() {
            thread::yield_now();
        }
        // Nobody finds it, but it is still there.
        assert!(!removed.load(Ordering::SeqCst));
        assert_eq!(*guard, 5);
        drop(guard);
    });
    assert!(removed.load(Ordering::SeqCst));
}

#[test]
fn p8_entries_that_come_and_go_on_many_threads_are_each_seen_whole() {
    let rounds = if cfg!(miri) { 40 } else { 4_000 };
    let (table, found) = (table::<[usize; 4]>(4), AtomicUsize::new(0));
    thread::scope(|scope| {
        for thread in 0..3 {
            let (table, found) = (&table, &found);
            scope.spawn(move || {
                for round in 0..rounds {
                    let value = thread * rounds + round;
                    let key = table.insert([value; 4]).unwrap();
                    for generation in key.generation.saturating_sub(4)..key.generation + 4 {
                        for index in 0..4 {
                            if let Some(entry) = table.get(Key { index, generation }) {
                                assert!(entry.iter().all(|&part| part == entry[0]));
                                found.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                    }
                    assert_eq!(table.remove(key), Some([value; 4]));
                }
            });
        }
    });
    assert!(found.load(Ordering::Relaxed) >= 3 * rounds);
}

#[test]
fn p8_a_place_whose_generations_are_used_up_has_no_other_entry() {
    let table = table(1);
    table.places[0].state.store(u64::from(u32::MAX - 1) << 32, Ordering::Relaxed);
    let last = table.insert(1).unwrap();
    assert_eq!((last.generation, *table.get(last).unwrap()), (u32::MAX, 1));
    let place = table.place(last).unwrap();
    assert_eq!(table.remove(last), Some(1));
    assert_eq!(table.insert(2), Err(2), "its generation would be the first's again");
    assert!(table.get(last).is_none() && place.get().is_none());
}

#[test]
fn h5_who_removes_an_entry_waits_for_those_that_show_it_and_live() {
    let table = table(2);
    let [dead, living]: [&'static Hazard; 2] = [(); 2].map(|()| &*Box::leak(Box::new(Hazard::new())));
    // SAFETY: this thread has one guard of each at a time.
    let own = |hazard: &'static Hazard| unsafe { hazard.owned(|| fence(Ordering::SeqCst)) };
    let [first, second] = [1, 2].map(|entry| table.insert(entry).unwrap());
    {
        let seen = table.place(first).unwrap().get_shown(own(dead)).unwrap();
        let mut shown = Some(table.place(first).unwrap().get_shown(own(living)).unwrap());
        assert_eq!((*seen, shown.as_deref()), (1, Some(&1)));
        let mut asked = 0;
        let removed = table.remove_unless(
            first,
            |_| false,
            |shows| {
                asked += 1;
                assert!(shows(dead) && shows(living) == shown.is_some());
                if asked == 3 {
                    shown = None;
                }
                shows(living)
            },
        );
        assert_eq!((removed, asked), (Some(1), 3), "it waited for the living alone");
    }
    {
        // One who shows what the first look has not seen.
        let entry = table.insert(4).unwrap();
        let (place, late) = (table.place(entry).unwrap(), std::cell::RefCell::new(None));
        let mut asked = 0;
        let order = |entry: &i32| {
            *late.borrow_mut() = Some(*entry);
            true
        };
        let removed = table.remove_unless(entry, order, |_| {
            asked += 1;
            // It leaves behind the fence.
            asked < 3 && late.borrow().is_some()
        });
        assert_eq!((removed, asked, *late.borrow()), (Some(4), 3, Some(4)), "it was asked again");
        assert!(place.get_shown(own(living)).is_none());
    }
    assert!(table.place(first).unwrap().get_shown(own(living)).is_none(), "another generation");
    {
        let _other = table.place(second).unwrap().get_shown(own(dead)).unwrap();
        let third = table.insert(3).unwrap();
        let removed = table.remove_unless(third, |_| false, |shows| shows(dead) || shows(living));
        assert_eq!(removed, Some(3), "another entry is shown");
    }
}
