use super::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

fn pair() -> (Signal, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (Signal::new(ours.into()).unwrap(), theirs)
}

/// Whether it interrupts.
fn is_ready(signal: &Signal) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(signal.ready(), PollFlags::IN)], Some(&now)).unwrap() == 1
}

fn read(signal: &Signal) {
    assert!(rustix::io::read(signal.descriptor(), &mut [0u8; 64]).unwrap() > 0);
}

#[test]
fn n8_it_interrupts_as_long_as_there_is_something_to_read() {
    let (signal, mut other) = pair();
    assert!(!is_ready(&signal));
    other.write_all(b"word").unwrap();
    assert!(is_ready(&signal) && is_ready(&signal));
    read(&signal);
    assert!(!is_ready(&signal));
}

#[test]
fn n8_room_interrupts_while_it_is_wanted() {
    let (signal, mut other) = pair();
    rustix::io::ioctl_fionbio(signal.descriptor(), true).unwrap();
    while rustix::io::write(signal.descriptor(), &[7; 4096]).is_ok() {}
    signal.want_room(true);
    assert!(!is_ready(&signal));
    other.set_nonblocking(true).unwrap();
    while other.read(&mut [0; 4096]).is_ok_and(|read| read > 0) {}
    assert!(is_ready(&signal));
    signal.want_room(false);
    assert!(!is_ready(&signal));
}

#[test]
fn n8_what_the_card_tells_itself_interrupts_until_it_is_taken_back() {
    let (signal, _other) = pair();
    signal.tell();
    signal.tell();
    assert!(is_ready(&signal));
    signal.take_back();
    assert!(!is_ready(&signal));
    signal.take_back();
    signal.tell();
    assert!(is_ready(&signal));
}

#[test]
fn h4_a_card_whose_other_end_is_gone_interrupts_no_more_but_by_what_it_tells() {
    let (signal, other) = pair();
    drop(other);
    assert!(is_ready(&signal), "the end is something to read");
    signal.lose();
    signal.want_room(true);
    assert!(signal.is_gone() && !is_ready(&signal));
    signal.tell();
    assert!(is_ready(&signal));
}
