//! Descriptor rings, lent buffers and the table of regions.

use crate::{explore, forever};
use loom::sync::Arc;
use loom::sync::atomic::{Ordering, fence};
use loom::thread;
use rings::buffer::{Buffer, Source};
use rings::spsc;
use rings::table::{EntryCell, Hazard, Key, Table};

#[test]
fn d4_elements_arrive_in_order_and_entries_are_used_again() {
    explore(5, || {
        let entries = (0..2).map(|_| spsc::Entry::new()).collect::<Vec<_>>().leak();
        let ring = forever(spsc::Ring::new(entries).unwrap());
        let (mut producer, mut consumer) = ring.split().unwrap();
        let pushing = thread::spawn(move || {
            let mut pushed = 0;
            for _ in 0..4 {
                pushed += u32::from(producer.push(pushed).is_ok());
            }
            pushed
        });
        let mut popped = 0;
        for _ in 0..2 {
            assert!(ring.len() <= 2);
            if let Some(&mut element) = consumer.peek() {
                assert_eq!((element, consumer.pop()), (popped, Some(popped)));
                popped += 1;
            }
        }
        let pushed = pushing.join().unwrap();
        while let Some(element) = consumer.pop() {
            assert_eq!(element, popped);
            popped += 1;
        }
        assert_eq!(popped, pushed);
        drop(consumer);
        assert!(ring.split().is_some());
    });
}

#[test]
fn p6_a_buffer_is_written_only_when_nobody_reads_it() {
    explore(5, || {
        let lease = Buffer::new(vec![1; 300].leak()).unwrap().lend();
        let read = |source: Source| move || assert_eq!(source.as_slice()[0], 1);
        let source = lease.source();
        let readers = [thread::spawn(read(source.clone())), thread::spawn(read(source))];
        let mut lease = Err(lease);
        for _ in 0..2 {
            lease = lease.or_else(|lease: rings::buffer::Lease| lease.reclaim());
        }
        if let Ok(buffer) = &mut lease {
            buffer.as_mut_slice()[0] = 2;
        }
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        assert!(lease.or_else(|lease| lease.reclaim()).is_ok());
    });
}

#[test]
fn p8_an_entry_is_never_looked_at_after_it_was_removed() {
    explore(3, || {
        let places: Box<[EntryCell<usize>]> = [EntryCell::new()].into();
        let table = Arc::new(Table::new(Box::leak(places)));
        let first = table.insert(1).unwrap();
        let look = |table: Arc<Table<usize>>, count: u32| {
            thread::spawn(move || {
                for generation in (first.generation..).step_by(2).take(count as usize) {
                    if let Some(entry) = table.get(Key { generation, ..first }) {
                        assert_eq!(*entry as u32, generation);
                    }
                }
            })
        };
        let lookers = [look(table.clone(), 2), look(table.clone(), 1)];
        assert_eq!(table.remove(first), Some(1));
        let second = table.insert(3).unwrap();
        assert_eq!(table.remove(second), Some(3));
        lookers.into_iter().for_each(|looker| looker.join().unwrap());
    });
}

#[test]
fn p8_two_threads_never_get_one_place() {
    explore(3, || {
        let places: Box<[EntryCell<usize>]> = [EntryCell::new(), EntryCell::new()].into();
        let table = Arc::new(Table::new(Box::leak(places)));
        let use_one = |table: Arc<Table<usize>>, value| {
            move || {
                let key = table.insert(value).unwrap();
                assert_eq!(table.remove(key), Some(value));
                let key = table.insert(value).unwrap();
                assert_eq!(*table.get(key).unwrap(), value);
            }
        };
        let other = thread::spawn(use_one(table.clone(), 1));
        use_one(table.clone(), 2)();
        other.join().unwrap();
        assert!(table.insert(3).is_err());
    });
}

#[test]
fn h5_an_entry_that_is_shown_is_removed_once_it_is_not() {
    explore(3, || {
        let places: Box<[EntryCell<usize>]> = (0..1).map(|_| EntryCell::new()).collect();
        let table = Arc::new(Table::new(Box::leak(places)));
        let hazard: &'static Hazard = forever(Hazard::new());
        let first = table.insert(1).unwrap();
        let looker = {
            let table = table.clone();
            thread::spawn(move || {
                for _ in 0..2 {
                    // SAFETY: this thread alone has it, one guard at a time.
                    let owner = unsafe { hazard.owned(|| fence(Ordering::SeqCst)) };
                    let shown = table.place(first).and_then(|place| place.get_shown(owner).map(|it| *it));
                    assert!(shown.is_none_or(|entry| entry == 1));
                }
            })
        };
        assert_eq!(table.remove_unless(first, |_| false, |shows| shows(hazard)), Some(1));
        let second = table.insert(3).unwrap();
        assert_eq!(table.remove_unless(second, |_| false, |shows| shows(hazard)), Some(3));
        looker.join().unwrap();
    });
}
