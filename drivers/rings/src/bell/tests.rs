use super::*;

#[test]
fn n8_whoever_rings_first_learns_which_hart_sleeps() {
    static BELL: Bell = Bell::new();
    for rest in [Rest::Quiet, Rest::Watched] {
        BELL.disarm(rest);
        let watched = rest == Rest::Watched;
        assert!(BELL.rests(rest) && !BELL.take(rest) && BELL.is_watched() == watched);
        assert_eq!((BELL.ring(), BELL.rests(rest), BELL.is_watched()), (None, false, false));
        assert!(BELL.take(rest) && BELL.rests(rest) && !BELL.take(rest) && BELL.is_watched() == watched);
        for hart in [0, 7] {
            BELL.arm(hart);
            assert!(!BELL.rests(rest) && !BELL.take(rest) && !BELL.is_watched(), "asleep, and nothing new");
            assert_eq!((BELL.ring(), BELL.ring()), (Some(hart), None));
            assert!(BELL.disarm(rest) && BELL.rests(rest));
        }
        BELL.arm(7);
        assert!(!BELL.disarm(rest) && BELL.rests(rest) && BELL.is_watched() == watched);
    }
}
