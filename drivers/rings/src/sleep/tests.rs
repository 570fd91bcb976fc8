use super::*;

#[test]
fn n8_every_hart_that_waits_for_the_same_thing_is_told_once() {
    static SET: SleepSet = SleepSet::new();
    assert_eq!(SET.wake().next(), None);
    for hart in [3, 0, 63, 31, 7] {
        SET.arm(hart);
    }
    SET.disarm(7);
    assert_eq!(SET.wake().collect::<std::vec::Vec<_>>(), [0, 3, 31, 63]);
    assert_eq!(SET.wake().next(), None);
}
