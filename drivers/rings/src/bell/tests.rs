use super::*;

#[test]
fn n8_whoever_rings_first_learns_which_hart_sleeps() {
    static BELL: Bell = Bell::new();
    assert!(BELL.is_quiet() && !BELL.take());
    assert_eq!((BELL.ring(), BELL.is_quiet()), (None, false));
    assert!(BELL.take() && BELL.is_quiet() && !BELL.take());
    for hart in [0, 7] {
        BELL.arm(hart);
        assert!(!BELL.is_quiet() && !BELL.take(), "asleep, and nothing new");
        assert_eq!((BELL.ring(), BELL.ring()), (Some(hart), None));
        assert!(BELL.disarm() && BELL.is_quiet());
    }
    BELL.arm(7);
    assert!(!BELL.disarm() && BELL.is_quiet());
}
