use super::*;

#[test]
fn n8_a_waker_learns_once_which_hart_sleeps() {
    static FLAG: SleepFlag = SleepFlag::new();
    assert_eq!(FLAG.wake(), None);
    FLAG.arm(0);
    assert_eq!((FLAG.wake(), FLAG.wake()), (Some(0), None));
    FLAG.arm(7);
    FLAG.disarm();
    assert_eq!(FLAG.wake(), None);
    FLAG.arm(7);
    assert_eq!(FLAG.wake(), Some(7));
}

#[test]
fn n8_every_hart_that_waits_for_the_same_thing_is_told_once() {
    static SET: SleepSet = SleepSet::new();
    assert_eq!(SET.wake().next(), None);
    for hart in [3, 0, 31, 7] {
        SET.arm(hart);
    }
    SET.disarm(7);
    assert_eq!(SET.wake().collect::<std::vec::Vec<_>>(), [0, 3, 31]);
    assert_eq!(SET.wake().next(), None);
}
