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
