use super::*;
use crate::linux::bells;
use rustix::event::{EventfdFlags, eventfd};
use std::thread;

/// A deadline that no test meets unless a call was lost.
const LONG_NS: u64 = 20 * NS_PER_S;
const LEVEL: Delivery = Delivery { edge: false, urgent: true };

/// A device whose interrupt is there as long as the descriptor, an event of the host's, has something.
fn device() -> &'static Signal {
    let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).unwrap();
    Box::leak(Box::new(Signal::new(event).unwrap()))
}

fn raise(device: &Signal) {
    rustix::io::write(device.descriptor(), &1u64.to_ne_bytes()).unwrap();
}

fn lower(device: &Signal) {
    rustix::io::read(device.descriptor(), &mut [0; 8]).unwrap();
}

/// Sleeps until there is an interrupt for the hart, and claims it; none if so much time passed first.
fn sleep(events: &Events, hart: usize, at_most_ns: u64) -> Option<u32> {
    let deadline = now_ns() + at_most_ns;
    events.set_timer(hart, Some(deadline));
    loop {
        events.wait(hart);
        let claimed = events.claim(hart as u64);
        if claimed.is_some() || now_ns() >= deadline {
            events.set_timer(hart, None);
            return claimed;
        }
    }
}

#[test]
fn n8_a_call_that_comes_before_the_sleep_ends_it() {
    let events = Events::new(bells(2).unwrap());
    assert!(events.call(0) && events.call(0));
    events.wait(0);
    assert_eq!((events.claim(0), events.claim(0), events.claim(1)), (Some(CALLED), None, None));
}

#[test]
fn n8_no_call_is_lost_between_harts_that_fall_asleep() {
    const ROUNDS: u32 = 20_000;
    let events = Events::new(bells(2).unwrap());
    let play = |hart: u64| {
        for _ in 0..ROUNDS {
            assert_eq!(
                sleep(&events, hart as usize, LONG_NS),
                Some(CALLED),
                "a call of hart {hart} was lost"
            );
            assert!(events.call(1 - hart));
        }
    };
    thread::scope(|scope| {
        let other = scope.spawn(|| play(1));
        assert!(events.call(0));
        play(0);
        other.join().unwrap();
    });
    // The last answer.
    assert_eq!(events.claim(0), Some(CALLED));
}

#[test]
fn n8_a_deadline_ends_a_sleep_without_an_interrupt() {
    let events = Events::new(bells(1).unwrap());
    let deadline = now_ns() + 2_000_000;
    events.set_timer(0, Some(deadline));
    events.wait(0);
    assert!(now_ns() >= deadline);
    assert_eq!(events.claim(0), None);
    // One that has passed ends each sleep.
    events.wait(0);
}

#[test]
fn h1_a_device_interrupts_the_hart_that_its_interrupt_goes_to_as_long_as_it_has_something() {
    let events = Events::new(bells(2).unwrap());
    let device = device();
    let number = events.attach(device).unwrap();
    events.configure(number, LEVEL).unwrap();
    raise(device);
    assert_eq!(sleep(&events, 0, 1_000_000), None, "it goes to nobody yet");
    events.route(0, &[number], None, Some(0)).unwrap();
    assert_eq!(sleep(&events, 0, LONG_NS), Some(number));
    assert_eq!(sleep(&events, 0, LONG_NS), Some(number), "nobody has served it");
    assert_eq!(sleep(&events, 1, 1_000_000), None);
    events.wait(0);
    // What is pending and was not claimed goes as well.
    events.route(0, &[number], Some(0), Some(1)).unwrap();
    assert_eq!(events.claim(0), None);
    assert_eq!(sleep(&events, 1, LONG_NS), Some(number));
    lower(device);
    assert_eq!(sleep(&events, 1, 1_000_000), None);
}

#[test]
fn n8_a_hart_that_sleeps_already_hears_a_device_whose_interrupt_comes_to_it() {
    let events = Events::new(bells(2).unwrap());
    let device = device();
    let number = events.attach(device).unwrap();
    raise(device);
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| sleep(&events, 1, LONG_NS));
        while !events.harts[1].asleep.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        events.route(0, &[number], None, Some(1)).unwrap();
        assert_eq!(sleeper.join().unwrap(), Some(number));
    });
}

#[test]
fn h1_what_is_not_there_is_refused() {
    let events = Events::new(bells(1).unwrap());
    assert_eq!(events.start_hart(1, &[]), Err(IrqError::NoHart));
    assert!(!events.call(1));
    assert_eq!(events.configure(CALLED + 1, LEVEL), Err(IrqError::NoInterrupt));
    assert_eq!(events.route(0, &[CALLED + 1], None, Some(1)), Err(IrqError::NoHart));
    for place in 0..DEVICES as u32 {
        assert_eq!(events.attach(device()), Some(CALLED + 1 + place));
    }
    assert_eq!(events.attach(device()), None);
    events.wait(1);
}
