use super::*;
use proptest::prelude::*;
use std::{vec, vec::Vec};

fn items(limit: usize, allocations: usize) -> FirstFit {
    FirstFit::new(limit, vec![Span::default(); allocations].leak())
}

/// By trying every start.
fn first(len: usize, limit: usize, align: usize, used: &[Range<usize>]) -> Option<usize> {
    let meets = |start: usize| {
        let at = |range: &Range<usize>| !range.is_empty() && range.start < start + len && start < range.end;
        len > 0 && used.iter().any(at)
    };
    (0..=limit).step_by(align).find(|&start| start + len <= limit && !meets(start))
}

#[test]
fn q2_the_first_gap_that_is_long_enough_is_taken() {
    let used = [10..20, 0..4, 30..40];
    let gap = |len, limit| first_fit(len, limit, 1, used.iter().cloned());
    assert_eq!(gap(6, 50), Some(4));
    assert_eq!(gap(7, 50), Some(20));
    assert_eq!(gap(11, 51), Some(40));
    assert_eq!(gap(11, 50), None);
    assert_eq!(gap(usize::MAX, 50), None);
    assert_eq!(first_fit(1, usize::MAX, 64, core::iter::once(0..usize::MAX)), None);
}

#[test]
fn q2_what_is_freed_is_one_gap_with_its_neighbours() {
    let mut items = items(256, 8);
    let all: Vec<usize> = (0..4).map(|_| items.allocate(64).unwrap()).collect();
    assert_eq!(all, [0, 64, 128, 192]);
    assert_eq!(items.allocate(1), None, "full");
    assert!(items.free(64) && items.free(128) && !items.free(64));
    assert_eq!(items.allocate(129), None);
    assert_eq!(items.allocate(128), Some(64));
    assert!(items.contains(64) && !items.contains(128));
    assert_eq!(items.resize(128, 1), 0);
}

#[test]
fn q2_no_more_is_allocated_than_can_be_noted() {
    let mut items = items(1 << 20, 2);
    assert_eq!((items.allocate(1), items.allocate(64), items.allocate(1)), (Some(0), Some(1), None));
    assert!(items.free(0));
    assert_eq!((items.allocate(usize::MAX), items.allocate(0)), (None, None));
    let mut none = FirstFit::default();
    assert_eq!((none.allocate(1), none.free(0)), (None, false));
    let mut many = self::items(usize::MAX, 2);
    assert_eq!((many.allocate(1 << 32), many.allocate(u32::MAX as usize)), (None, Some(0)));
}

proptest! {
    #[test]
    fn q2_the_first_fit_is_the_first_that_fits(
        used in prop::collection::vec((0usize..60, 0usize..12), 0..8), len in 0usize..20, limit in 0usize..80, align in 1usize..9
    ) {
        let used: Vec<_> = used.into_iter().map(|(start, len)| start..start + len).collect();
        let found = first_fit(len, limit, align, used.iter().cloned());
        prop_assert_eq!(found, first(len, limit, align, &used));
    }

    #[test]
    fn q2_allocations_never_meet_and_the_first_gap_is_taken(
        steps in prop::collection::vec((0u32..4, 0usize..70), 1..if cfg!(miri) { 30 } else { 200 })
    ) {
        const LIMIT: usize = 500;
        let mut items = items(LIMIT, 16);
        let mut model: Vec<Range<usize>> = Vec::new();
        for (step, number) in steps {
            let index = number % model.len().max(1);
            if step == 0 && !model.is_empty() {
                let start = model.swap_remove(index).start;
                prop_assert!(items.free(start) && !items.contains(start) && !items.free(start));
            } else if step == 1 && !model.is_empty() {
                let start = model[index].start;
                let next = model.iter().map(|other| other.start).filter(|&other| other > start).min();
                let len = number.clamp(1, next.unwrap_or(LIMIT) - start);
                prop_assert_eq!(items.resize(start, number), len);
                model[index].end = start + len;
            } else {
                let room = model.len() < 16 && number > 0;
                let start = first(number, LIMIT, 1, &model).filter(|_| room);
                prop_assert_eq!(items.allocate(number), start);
                model.extend(start.map(|start| start..start + number));
            }
            prop_assert!(model.iter().all(|range| items.contains(range.start)));
        }
    }
}

#[test]
fn x5_an_aligned_allocation_leaves_the_gap_in_front_to_others() {
    let spans = Vec::leak(vec![Span::default(); 4]);
    let mut items = FirstFit::new(256, spans);
    assert_eq!((items.allocate(3), items.allocate_aligned(10, 64)), (Some(0), Some(64)));
    assert_eq!((items.allocate(61), items.allocate_aligned(1, 128)), (Some(3), Some(128)));
    assert_eq!(items.allocate_aligned(0, 64), None);
}
