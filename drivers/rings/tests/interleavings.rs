//! Every order in which threads can meet in the rings, under loom's memory model.
#![cfg(loom)]

use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::Notify;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use rings::bell::Bell;
use rings::buffer::{Buffer, Source};
use rings::lines::{Arrival, Line};
use rings::post::{PostQueue, Slot};
use rings::sleep::{SleepFlag, SleepSet};
use rings::table::{Key, Place, Table};
use rings::{lines, spsc};

fn forever<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// Takes what can be taken now, `tries` times.
fn take<W: Copy + Send>(consumer: &mut rings::post::Consumer<W>, tries: usize, into: &mut Vec<W>) {
    for _ in 0..tries {
        if let Some(work) = consumer.peek() {
            into.push(work);
            consumer.pop();
        }
    }
}

#[test]
fn p2_posts_of_two_threads_arrive_once_each_in_its_threads_order() {
    explore(4, || {
        let queue: &PostQueue<u32> = forever(PostQueue::new());
        let poster = |first: u32, count: u32| {
            thread::spawn(move || {
                for number in first..first + count {
                    queue.post(forever(Slot::new()), number).unwrap();
                }
            })
        };
        let posters = [poster(10, 2), poster(20, 1)];
        let mut consumer = queue.consumer().unwrap();
        let mut taken = Vec::new();
        take(&mut consumer, 2, &mut taken);
        posters.into_iter().for_each(|poster| poster.join().unwrap());
        take(&mut consumer, 3, &mut taken);
        assert!(queue.is_empty() && consumer.peek().is_none());
        assert_eq!(taken.iter().filter(|&&work| work < 20).collect::<Vec<_>>(), [&10, &11]);
        assert!(taken.len() == 3 && taken.contains(&20));
    });
}

#[test]
fn p2_a_slot_is_posted_again_only_when_its_work_was_taken() {
    explore(4, || {
        let queue: &PostQueue<u32> = forever(PostQueue::new());
        let slot = forever(Slot::new());
        let other = thread::spawn(move || queue.post(forever(Slot::new()), 100).unwrap());
        let poster =
            thread::spawn(move || (0..3).filter(|&number| queue.post(slot, number).is_ok()).collect());
        let mut consumer = queue.consumer().unwrap();
        let mut taken = Vec::new();
        take(&mut consumer, 2, &mut taken);
        let posted: Vec<u32> = poster.join().unwrap();
        other.join().unwrap();
        take(&mut consumer, 4, &mut taken);
        assert!(!slot.is_busy() && queue.is_empty());
        taken.retain(|&work| work != 100);
        assert_eq!(taken, posted);
    });
}

#[test]
fn p2_of_two_threads_one_gets_the_slot() {
    explore(4, || {
        let queue: &PostQueue<u32> = forever(PostQueue::new());
        let slot = forever(Slot::new());
        let poster = thread::spawn(move || queue.post(slot, 1).is_ok());
        let mine = queue.post(slot, 2).is_ok();
        assert!(poster.join().unwrap() != mine);
        assert_eq!(queue.consumer().unwrap().peek(), Some(if mine { 2 } else { 1 }));
    });
}

#[test]
fn p2_the_next_consumer_goes_on_where_the_last_stopped() {
    explore(4, || {
        let queue: &PostQueue<u32> = forever(PostQueue::new());
        for number in 0..2 {
            queue.post(forever(Slot::new()), number).unwrap();
        }
        let step = move || {
            let mut taken = Vec::new();
            if let Some(mut consumer) = queue.consumer() {
                take(&mut consumer, 1, &mut taken);
            }
            taken
        };
        let other = thread::spawn(step);
        let mut taken = step();
        taken.extend(other.join().unwrap());
        taken.extend(step());
        taken.sort();
        assert_eq!(taken, [0, 1]);
    });
}

#[test]
fn n8_no_post_is_slept_through() {
    explore(3, || {
        let queue: &PostQueue<u32> = forever(PostQueue::new());
        let flag = forever(SleepFlag::new());
        let interrupt = Arc::new(Notify::new());
        let posters = [1, 2].map(|number| {
            let interrupt = interrupt.clone();
            thread::spawn(move || {
                queue.post(forever(Slot::new()), number).unwrap();
                if let Some(hart) = flag.wake() {
                    assert_eq!(hart, 3);
                    interrupt.notify();
                }
            })
        });
        let mut consumer = queue.consumer().unwrap();
        let mut taken = Vec::new();
        while taken.len() < 2 {
            flag.arm(3);
            let before = taken.len();
            take(&mut consumer, 2, &mut taken);
            if taken.len() == before {
                // Loom reports a deadlock when nobody notifies.
                interrupt.wait();
            }
            flag.disarm();
        }
        posters.into_iter().for_each(|poster| poster.join().unwrap());
    });
}

#[test]
fn n8_nobody_of_two_who_wait_for_the_same_end_sleeps_through_it() {
    explore(3, || {
        let set = forever(SleepSet::new());
        let done = forever(AtomicUsize::new(0));
        let interrupts = [0, 1].map(|_| Arc::new(Notify::new()));
        let waiters = [0, 1].map(|hart| {
            let interrupt = interrupts[hart].clone();
            thread::spawn(move || {
                loop {
                    set.arm(hart);
                    if done.load(Ordering::Acquire) == 1 {
                        break;
                    }
                    interrupt.wait();
                }
                set.disarm(hart);
            })
        });
        done.store(1, Ordering::Release);
        set.wake().for_each(|hart| interrupts[hart].notify());
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    });
}

#[test]
fn n8_one_poster_hears_of_a_consumer_that_sleeps() {
    explore(3, || {
        let queue: &PostQueue<u32> = forever(PostQueue::new());
        let hart = forever(AtomicUsize::new(0));
        let interrupt = Arc::new(Notify::new());
        let posters = [1, 2].map(|number| {
            let interrupt = interrupt.clone();
            thread::spawn(move || {
                if queue.post(forever(Slot::new()), number).unwrap() {
                    // What the consumer wrote before it said that it sleeps.
                    assert_eq!(hart.load(Ordering::Relaxed), 3);
                    interrupt.notify();
                }
            })
        });
        let mut consumer = queue.consumer().unwrap();
        let mut taken = Vec::new();
        while taken.len() < 2 {
            hart.store(3, Ordering::Relaxed);
            if consumer.sleep() {
                // Loom reports a deadlock when nobody notifies.
                interrupt.wait();
                consumer.awake();
            }
            take(&mut consumer, 2, &mut taken);
            thread::yield_now();
        }
        posters.into_iter().for_each(|poster| poster.join().unwrap());
        taken.sort();
        assert_eq!(taken, [1, 2]);
    });
}

#[test]
fn n8_a_consumer_that_woke_by_itself_takes_back_that_it_sleeps() {
    explore(4, || {
        let queue: &PostQueue<u32> = forever(PostQueue::new());
        let mut consumer = queue.consumer().unwrap();
        assert!(consumer.sleep());
        let poster = thread::spawn(move || queue.post(forever(Slot::new()), 1).unwrap());
        consumer.awake();
        let late = queue.post(forever(Slot::new()), 2).unwrap();
        let told = poster.join().unwrap();
        assert!(!late && !queue.is_empty(), "awake, and told to wake");
        let mut taken = Vec::new();
        take(&mut consumer, 4, &mut taken);
        taken.sort();
        assert_eq!(taken, [1, 2]);
        // Whether the other came before or behind is a matter of chance; it is empty and asleep again either way.
        let _ = told;
        assert!(queue.is_empty() && consumer.sleep());
    });
}

#[test]
fn n8_nothing_that_was_rung_for_is_overlooked_or_slept_through() {
    explore(4, || {
        let bell = forever(Bell::new());
        let published = forever([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let interrupt = Arc::new(Notify::new());
        let ringers = [0, 1].map(|number| {
            let interrupt = interrupt.clone();
            thread::spawn(move || {
                published[number].store(1, Ordering::Relaxed);
                if let Some(hart) = bell.ring() {
                    assert_eq!(hart, 3);
                    interrupt.notify();
                }
            })
        });
        let seen = || published.iter().map(|word| word.load(Ordering::Relaxed)).sum::<usize>();
        // One that looks only when it heard the bell.
        let mut found = if bell.take() { seen() } else { 0 };
        while found < 2 {
            bell.arm(3);
            if seen() == found {
                // Loom reports a deadlock when nobody notifies.
                interrupt.wait();
            }
            bell.disarm();
            found = seen();
        }
        ringers.into_iter().for_each(|ringer| ringer.join().unwrap());
    });
}

#[test]
fn n8_a_bell_that_is_quiet_hides_nothing() {
    explore(4, || {
        let bell = forever(Bell::new());
        let published = forever([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let ringers = [0, 1].map(|number| {
            thread::spawn(move || {
                published[number].store(1, Ordering::Relaxed);
                bell.ring();
            })
        });
        let seen = || published.iter().map(|word| word.load(Ordering::Relaxed)).sum::<usize>();
        let early = if bell.take() { seen() } else { 0 };
        ringers.into_iter().for_each(|ringer| ringer.join().unwrap());
        // What an earlier look did not see rings again.
        assert!(early == 2 || !bell.is_quiet() || seen() == early);
        let late = if bell.take() { seen() } else { early };
        assert_eq!(late, 2);
    });
}

#[test]
fn n8_no_line_is_slept_through() {
    explore(4, || {
        let (mut sender, mut receiver) = lines::ring(vec![Line::new()].leak(), &mut [], 0).unwrap();
        let flag = forever(SleepFlag::new());
        let interrupt = Arc::new(Notify::new());
        let notifier = interrupt.clone();
        let sending = thread::spawn(move || {
            sender.push_copy(&[5; 4], &[], &[]).unwrap();
            if flag.wake().is_some() {
                notifier.notify();
            }
        });
        let arrival = loop {
            flag.arm(0);
            if let Some(arrival) = receiver.pull() {
                break arrival;
            }
            interrupt.wait();
        };
        assert_eq!(arrival.tag(), [5; 4]);
        sending.join().unwrap();
    });
}

/// Loom looks for other orders only where the last access to an atomic was another thread's; the sender of a ring
/// always reads a mark itself before it sets it. So both count their steps, without any ordering of their own.
#[derive(Clone)]
struct Steps(Arc<AtomicUsize>);

impl Steps {
    fn new() -> Self {
        Self(Arc::new(AtomicUsize::new(0)))
    }

    fn step(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn lines_and_back(lines: usize, tries: u32, hold: bool) {
    explore(4, move || {
        let lines = (0..lines).map(|_| Line::new()).collect::<Vec<_>>();
        let (mut sender, mut receiver) = lines::ring(lines.leak(), vec![0; 50].leak(), 50).unwrap();
        let lease = Buffer::new(vec![9; 300].leak()).unwrap().lend();
        let source = lease.source();
        let steps = Steps::new();
        let senders = steps.clone();
        let sending = thread::spawn(move || {
            let mut sent = 0;
            for _ in 0..tries {
                senders.step();
                let pushed = match sent % 2 {
                    0 => sender.push_copy(&[sent; 4], &[1], &[sent as u8; 48]),
                    _ => sender.push_lend(&[sent; 4], &[2], &source),
                };
                sent += u32::from(pushed.is_ok());
            }
            assert!(sent > 0);
            (sender, sent)
        });
        let mut received = 0;
        let mut check = |arrival: Option<Arrival>| {
            if let Some(arrival) = &arrival {
                assert_eq!(arrival.tag(), [received; 4]);
                assert_eq!(arrival.header(), [1 + received as u8 % 2]);
                let data = arrival.data();
                assert!(if received % 2 == 0 { data == [received as u8; 48] } else { data[0] == 9 });
                received += 1;
            }
            arrival
        };
        steps.step();
        let mut first = check(receiver.pull());
        if !hold {
            steps.step();
            first = None;
        }
        steps.step();
        let second = check(receiver.pull());
        // The other way round than they came.
        steps.step();
        drop(second);
        steps.step();
        drop(first);
        let (sender, sent) = sending.join().unwrap();
        for _ in 0..tries {
            check(receiver.pull());
        }
        assert_eq!((received, sender.sent()), (sent, sent as usize));
        assert!(lease.is_idle());
    });
}

#[test]
fn p9_lines_arrive_whole_in_order_and_are_used_again() {
    lines_and_back(2, 4, false);
}

#[test]
fn p9_lines_that_are_held_are_neither_taken_twice_nor_written() {
    lines_and_back(1, 3, true);
    lines_and_back(2, 4, true);
}

#[test]
fn p9_a_copy_slot_is_written_again_only_when_its_line_is_free() {
    explore(4, || {
        let lines = (0..4).map(|_| Line::new()).collect::<Vec<_>>();
        let (mut sender, mut receiver) = lines::ring(lines.leak(), vec![0; 50].leak(), 50).unwrap();
        let steps = Steps::new();
        let senders = steps.clone();
        let sending = thread::spawn(move || {
            let mut sent = 0;
            for _ in 0..3 {
                senders.step();
                sent += u32::from(sender.push_copy(&[sent; 4], &[], &[sent as u8; 50]).is_ok());
            }
            sent
        });
        let mut received = 0;
        let mut pull = || {
            let arrival = receiver.pull();
            if let Some(arrival) = &arrival {
                steps.step();
                assert_eq!((arrival.tag(), arrival.data()), ([received; 4], &[received as u8; 50][..]));
                received += 1;
            }
            steps.step();
        };
        pull();
        pull();
        let sent = sending.join().unwrap();
        (0..3).for_each(|_| pull());
        assert_eq!(received, sent);
    });
}

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
        let places: Box<[Place<usize>]> = [Place::new()].into();
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
        let places: Box<[Place<usize>]> = [Place::new(), Place::new()].into();
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
