use super::*;
use std::vec;
use std::vec::Vec;

/// Grants to peers in turn until nobody gets more: as much is left free as who was granted some has then.
fn grant_all(pool: &mut CreditPool, credits: &mut [Credit]) {
    while credits.iter_mut().fold(false, |any, credit| {
        let more = pool.grant(credit);
        assert!(!more || u32::from(credit.granted) <= pool.free, "{credit:?} of {}", pool.free);
        any | more
    }) {}
}

/// All units, wherever they are.
fn sum(pool: &CreditPool, credits: &[Credit]) -> u32 {
    pool.free + credits.iter().map(|credit| u32::from(credit.granted)).sum::<u32>()
}

#[test]
fn r9_each_is_sure_of_a_share_of_half_the_pool_and_the_busy_ones_have_equal_parts_of_the_rest() {
    for (units, peers) in [(512, 2), (512, 8), (512, 64), (512, 256), (512, 1000), (64, 5), (1, 1), (0, 3)] {
        let mut pool = CreditPool::new(units, peers);
        let mut credits = vec![pool.first(); peers];
        let sure = (units / 2 / peers).min(32) as u16;
        assert!(
            credits.iter().all(|credit| credit.granted == sure && credit.has(sure)),
            "{units} for {peers}"
        );
        for busy in [1, 2, 3] {
            let busy = busy.min(peers);
            let before = pool.free;
            grant_all(&mut pool, &mut credits[..busy]);
            assert_eq!(sum(&pool, &credits), units as u32);
            if busy == 1 {
                let granted = u32::from(credits[0].granted);
                assert!(granted + 2 >= (before + u32::from(sure)) / 2, "{granted} of {before}");
            }
            for credit in &mut credits[..busy] {
                let more = credit.granted - sure;
                credit.told(more);
                pool.take_back(credit, more);
            }
        }
    }
}

#[test]
fn r9_who_has_more_than_is_free_has_less_with_every_message_that_leaves_until_all_have_the_same() {
    let mut pool = CreditPool::new(300, 100);
    let mut credits = vec![pool.first(); 3];
    grant_all(&mut pool, &mut credits[..1]);
    let alone = credits[0].granted;
    for _ in 0..1000 {
        for credit in &mut credits {
            credit.told(credit.owed());
            pool.grant(credit);
            credit.told(credit.owed());
            pool.passed(credit, 1);
        }
    }
    let granted: Vec<u16> = credits.iter().map(|credit| credit.granted).collect();
    assert!(granted[0] < alone && granted.iter().all(|&one| one.abs_diff(granted[0]) <= 2), "{granted:?}");
}

#[test]
fn r9_who_is_sure_of_none_asks_once_and_waits_until_there_is_an_answer() {
    let pool = CreditPool::new(64, 33);
    let mut credit = pool.first();
    assert!(!credit.is_known() && !credit.has(1));
    assert!(credit.asks() && !credit.asks() && !credit.is_known());
    credit.answered();
    assert!(credit.is_known() && !credit.has(1) && !credit.asks());
    credit.gain(3);
    credit.spend(2);
    assert_eq!(pool.unused(&credit), 1);
    pool.gave_back(&mut credit, 1);
    assert!(!credit.has(1) && credit.asks(), "it begins anew");
}

#[test]
fn r9_a_peer_gives_back_no_more_than_it_was_granted() {
    let mut pool = CreditPool::new(64, 33);
    let mut credit = pool.first();
    assert!(pool.grant(&mut credit));
    credit.told(credit.owed());
    pool.take_back(&mut credit, u16::MAX);
    assert_eq!((pool.free, credit.granted), (64, 0));
    pool.passed(&mut credit, 7);
    assert!(credit.owed() <= credit.granted, "{credit:?}");
}

#[test]
fn r9_a_message_that_leaves_takes_no_peer_below_what_it_is_sure_of() {
    let mut pool = CreditPool::new(80, 1);
    let mut credit = pool.first();
    let sure = credit.granted;
    pool.grant(&mut credit);
    credit.told(credit.owed());
    assert!(credit.granted > sure);
    // Nothing is free, as if others had all of it.
    pool.free = 0;
    let granted = credit.granted;
    pool.passed(&mut credit, granted);
    assert_eq!(
        (credit.granted, u32::from(credit.owed()), pool.free),
        (sure, sure.into(), (granted - sure).into())
    );
}

#[test]
fn r9_what_a_peer_may_use_again_after_a_recall_can_be_recalled_again() {
    let mut pool = CreditPool::new(300, 1);
    let mut credit = pool.first();
    pool.grant(&mut credit);
    credit.told(credit.owed());
    let excess = pool.excess(&credit);
    assert!(excess > 0);
    // All of it lies in messages here: nothing comes back for now.
    credit.recall();
    pool.take_back(&mut credit, 0);
    assert_eq!(pool.excess(&credit), 0);
    pool.free += 300;
    pool.passed(&mut credit, excess);
    assert_eq!(pool.excess(&credit), excess, "it idles with that");
}

#[test]
fn d9_r9_what_lies_here_of_a_peer_is_never_more_than_it_was_granted() {
    let mut pool = CreditPool::new(64, 2);
    let mut credits = [pool.first(); 2];
    let sure = credits[0].granted;
    assert!((0..sure).all(|_| credits[0].keep(1)));
    assert!(!credits[0].keep(1), "it ignores what it was granted");
    pool.take_back(&mut credits[0], u16::MAX);
    assert_eq!(credits[0].total(), sure, "nothing of that is given back");
    (0..sure).for_each(|_| pool.taken(&mut credits[0], 1));
    assert!(!credits[0].keep(1), "it has not heard that there is room");
    credits[0].told(sure);
    assert!(credits[0].keep(sure));
    assert_eq!(pool.free + u32::from(sure) * 2, 64);
}

#[test]
fn r2_r9_what_a_dead_peer_had_is_free_once_none_of_it_lies_here() {
    let mut pool = CreditPool::new(300, 2);
    let mut credit = pool.first();
    pool.grant(&mut credit);
    let all = pool.free + u32::from(credit.total());
    assert!(credit.keep(3));
    pool.peer_died(&mut credit);
    assert_eq!((pool.free, credit.total(), pool.excess(&credit)), (all - 3, 3, 0));
    pool.taken(&mut credit, 3);
    assert_eq!((pool.free, credit.total(), credit.is_due()), (all, 0, false));
    assert!(!pool.grant(&mut credit));
}

#[test]
fn r9_a_unit_that_passes_without_a_look_at_the_rest_changes_what_it_would_with_one() {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut any = |most: u16| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 32) as u16 % most
    };
    let (mut passed, mut not) = (0, 0);
    for (units, peers) in [(512, 2), (512, 8), (64, 5), (40, 1), (64, 33)].repeat(200) {
        let mut pool = CreditPool::new(units, peers);
        let mut credits = vec![pool.first(); peers];
        for _ in 0..50 {
            let credit = &mut credits[usize::from(any(peers as u16))];
            let (before, free) = (*credit, pool.free);
            match any(12) {
                0 => _ = pool.grant(credit),
                1 => pool.take_back(credit, any(64)),
                2 => _ = credit.keep(any(4)),
                3 if credit.here > 0 => pool.taken(credit, 1),
                4 => credit.recall(),
                5 => credit.told(any(credit.owed() + 1)),
                // As the slow way does it, of which nothing is due.
                _ if credit.pass_unit() => {
                    let mut slow = before;
                    assert!(!pool.passed(&mut slow, 1), "{before:?}");
                    assert_eq!((*credit, pool.free), (slow, free), "{before:?}");
                    passed += 1;
                }
                _ => {
                    assert_eq!(*credit, before);
                    pool.passed(credit, 1);
                    not += 1;
                }
            }
        }
    }
    assert!(passed > 1000 && not > 1000, "{passed} and {not}");
}
