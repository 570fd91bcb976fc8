use super::*;
use proptest::prelude::*;
use std::boxed::Box;
use std::vec;
use std::vec::Vec;

fn walk(layout: Layout, len: u32, most: u32) -> Vec<u32> {
    let (mut cursor, mut left, mut places) = (Cursor::default(), len, Vec::new());
    while left > 0 {
        let Some((offset, run)) = layout.next_run(&mut cursor, left.min(most)) else { break };
        places.extend(offset..offset + run);
        left -= run;
    }
    places
}

#[test]
fn p10_every_layout_names_its_bytes_in_order_whatever_the_steps() {
    let strided = Layout::Strided { block: 3, stride: 5 };
    let indexed = Layout::Indexed(&[(4, 2), (9, 0), (0, 3)]);
    for most in 1..9 {
        assert_eq!(walk(Layout::Contiguous, 4, most), [0, 1, 2, 3]);
        assert_eq!(walk(strided, 8, most), [0, 1, 2, 5, 6, 7, 10, 11]);
        assert_eq!(walk(indexed, 5, most), [4, 5, 0, 1, 2]);
        assert_eq!(walk(indexed, 9, most), [4, 5, 0, 1, 2], "an index has an end");
    }
}

#[test]
fn p10_the_bytes_within_memory_are_those_whose_places_it_has() {
    let strided = Layout::Strided { block: 3, stride: 5 };
    for extent in 0..40 {
        let bytes = strided.bytes_within(extent).unwrap();
        assert!(strided.reach(bytes).unwrap() <= extent, "{extent}");
        assert!(strided.reach(bytes + 1).unwrap() > extent, "{extent}");
    }
    assert_eq!(Layout::Indexed(&[(4, 2), (0, 3)]).bytes_within(6), Some(5));
    assert_eq!(Layout::Indexed(&[(4, 2), (0, 3)]).bytes_within(5), None);
    assert_eq!(Layout::Indexed(&[(u32::MAX, 2)]).bytes_within(u32::MAX), None);
    assert_eq!(Layout::Strided { block: 5, stride: 4 }.bytes_within(9), None);
    assert_eq!(Layout::Strided { block: 0, stride: 0 }.bytes_within(9), None);
}

#[test]
fn p10_runs_of_two_layouts_pair_up() {
    let (a, b) = (Layout::Strided { block: 3, stride: 5 }, Layout::Indexed(&[(4, 2), (9, 0), (0, 6)]));
    let (mut at_a, mut at_b, mut left) = (Cursor::default(), Cursor::default(), 8);
    let mut pairs = Vec::new();
    while let Some((in_a, in_b, len)) = Layout::next_pair((&a, &mut at_a), (&b, &mut at_b), left) {
        pairs.extend((0..len).map(|n| (in_a + n, in_b + n)));
        left -= len;
        if left == 0 {
            break;
        }
    }
    assert_eq!(pairs, [(0, 4), (1, 5), (2, 0), (5, 1), (6, 2), (7, 3), (10, 4), (11, 5)]);
}

#[test]
fn p10_the_reach_is_one_past_the_furthest_byte() {
    let strided = Layout::Strided { block: 3, stride: 5 };
    assert_eq!(strided.reach(8), Some(12));
    assert_eq!(Layout::Indexed(&[(4, 2), (0, 3)]).reach(5), Some(6));
    assert_eq!(Layout::Indexed(&[(4, 2), (0, 3)]).reach(6), None);
    assert_eq!(Layout::Strided { block: 0, stride: 5 }.reach(8), None);
    assert_eq!(Layout::Strided { block: 1, stride: u32::MAX }.reach(8), None);
    assert_eq!(Layout::Contiguous.reach(7), Some(7));
    // Also where blocks overlap.
    for (block, stride, len) in [(10, 1, 15), (10, 0, 11), (4, 3, 4), (4, 3, 5), (4, 3, 12)] {
        let layout = Layout::Strided { block, stride };
        let furthest = walk(layout, len, len).into_iter().max().unwrap();
        assert_eq!(layout.reach(len), Some(furthest + 1), "{len} bytes of {layout:?}");
    }
    let far = Layout::Strided { block: u32::MAX, stride: 1 };
    assert_eq!(
        (far.reach(u32::MAX), Layout::Strided { block: u32::MAX - 1, stride: 2 }.reach(u32::MAX)),
        (Some(u32::MAX), Some(u32::MAX - 1))
    );
}

/// A table in memory of its own.
fn table(runs: &[Run], levels: &[StrideLevel], extent: i64) -> Result<&'static Table, TableError> {
    let cells: Vec<_> = (0..runs.len() + levels.len()).map(|_| Cell::new()).collect();
    let table = Box::leak(Box::new(Table::new(cells.leak())));
    table.set(runs, levels, extent).map(|()| &*table)
}

/// The places of a table's bytes in order, from the origin of its first element, by the plainest loops there are.
fn plain(runs: &[Run], levels: &[StrideLevel], extent: i64, count: u32) -> Vec<i64> {
    let mut origins: Vec<i64> = (0..i64::from(count)).map(|element| element * extent).collect();
    for level in levels.iter().rev() {
        let inside = |at: i64| (0..i64::from(level.count)).map(move |number| at + number * level.stride);
        origins = origins.into_iter().flat_map(inside).collect();
    }
    let mut places = Vec::new();
    for origin in origins {
        for run in runs {
            for block in 0..i64::from(run.count) {
                let first = origin + run.offset + block * run.stride;
                places.extend(first..first + i64::from(run.block));
            }
        }
    }
    places
}

fn runs() -> impl Strategy<Value = Vec<Run>> {
    let run = (-40i64..40, 0u32..6, 0u32..4, -9i64..9).prop_map(|(offset, block, count, stride)| Run {
        offset,
        block,
        count,
        stride,
        tag: 0,
    });
    proptest::collection::vec(run, 0..5)
}

fn levels() -> impl Strategy<Value = Vec<StrideLevel>> {
    let level = (1u32..4, -50i64..50).prop_map(|(count, stride)| StrideLevel { count, stride });
    proptest::collection::vec(level, 0..4)
}

/// A table's layout, and the places that it names, from its lowest byte on.
fn tables() -> impl Strategy<Value = (Layout, Vec<u32>)> {
    (runs(), levels(), -60i64..60, 0u32..4).prop_map(|(runs, levels, extent, count)| {
        let table = table(&runs, &levels, extent).unwrap();
        let places = plain(&runs, &levels, extent, count);
        let low = places.iter().copied().min().unwrap_or(0);
        if !places.is_empty() {
            assert_eq!(table.low(count), Some(low));
        }
        (Layout::Table(table, count), places.iter().map(|place| (place - low) as u32).collect())
    })
}

proptest! {
    #[test]
    fn p10_a_table_names_its_bytes_in_order_whatever_the_steps(
        (layout, places) in tables(),
        most in 1u32..20,
    ) {
        let len = places.len() as u32;
        prop_assert_eq!(&walk(layout, len, most), &places);
        prop_assert_eq!(&walk(layout, u32::MAX, most), &places, "it has an end");
        let furthest = |places: &[u32]| places.iter().max().map_or(0, |last| last + 1);
        for part in [0, len / 3, len / 2, len] {
            prop_assert_eq!(layout.reach(part), Some(furthest(&places[..part as usize])));
        }
        prop_assert_eq!(layout.reach(len + 1), None);
        let span = furthest(&places);
        prop_assert_eq!(layout.bytes_within(span), Some(len));
        if let Some(less) = span.checked_sub(1) {
            prop_assert_eq!(layout.bytes_within(less), None);
        }
    }

    #[test]
    fn p10_a_walk_goes_on_at_any_byte((layout, places) in tables(), most in 1u32..20) {
        for at in 0..=places.len() {
            let mut cursor = layout.seek(at as u32).unwrap();
            let mut named = Vec::new();
            while let Some((offset, len)) = layout.next_run(&mut cursor, most) {
                named.extend(offset..offset + len);
            }
            prop_assert_eq!(&named, &places[at..]);
        }
        prop_assert_eq!(layout.seek(places.len() as u32 + 1), None);
    }

    #[test]
    fn p10_two_tables_pair_up((a, in_a) in tables(), (b, in_b) in tables(), most in 1u32..20) {
        let (mut at_a, mut at_b, mut pairs) = (Cursor::default(), Cursor::default(), Vec::new());
        while let Some((x, y, len)) = Layout::next_pair((&a, &mut at_a), (&b, &mut at_b), most) {
            pairs.extend((0..len).map(|n| (x + n, y + n)));
        }
        let expected: Vec<_> = in_a.into_iter().zip(in_b).collect();
        prop_assert_eq!(pairs, expected);
    }

    #[test]
    fn p10_levels_that_go_on_become_one_and_name_the_same(block in 1u32..6, wanted in levels()) {
        let (mut run, mut around) = (Run::of(block), Levels::default());
        for level in &wanted {
            prop_assert!(around.put_around(Some(&mut run), level.count, level.stride));
        }
        let made = plain(&[run], around.as_slice(), 0, 1);
        prop_assert_eq!(made, plain(&[Run::of(block)], &wanted, 0, 1));
    }

    #[test]
    fn p10_no_value_is_too_wild_for_a_layout(
        of_runs in proptest::collection::vec((any::<i64>(), any::<u32>(), 0u32..3, any::<i64>(), any::<bool>()), 0..4),
        of_levels in proptest::collection::vec((any::<u32>(), any::<i64>()), 0..4),
        (extent, count, len, at) in (any::<i64>(), any::<u32>(), any::<u32>(), any::<u32>()),
        tame in 0u32..50,
    ) {
        // Some are so tame that a table takes them.
        let shift = |value: i64| value >> tame;
        let runs: Vec<_> = of_runs
            .iter()
            .map(|&(offset, block, count, stride, wild)| {
                let count = if wild { block.rotate_left(7) } else { count };
                Run { offset: shift(offset), block: block >> (tame / 2), count, stride: shift(stride), tag: 0 }
            })
            .collect();
        let levels: Vec<_> =
            of_levels.iter().map(|&(count, stride)| StrideLevel { count: count >> (tame / 2), stride: shift(stride) }).collect();
        let mut layouts = vec![Layout::Strided { block: len, stride: at }, Layout::Indexed(&[(u32::MAX, 1), (3, u32::MAX)])];
        let made = table(&runs, &levels, shift(extent));
        layouts.extend(made.map(|table| Layout::Table(table, count >> (tame / 2))));
        for layout in layouts {
            let few = len.min(1000);
            for len in [few, len] {
                if matches!(layout, Layout::Table(..)) && len > few && layout.bytes_within(u32::MAX) != Some(len) {
                    // It would be walked run by run.
                    continue;
                }
                let reach = layout.reach(len);
                let mut cursor = Cursor::default();
                for _ in 0..50 {
                    let Some((offset, run)) = layout.next_run(&mut cursor, few.max(1)) else { break };
                    if let (Some(reach), true) = (reach, layout.bytes_within(u32::MAX) == Some(len)) {
                        prop_assert!(offset.checked_add(run).unwrap() <= reach);
                    }
                }
            }
            for at in [at, few] {
                let mut cursor = layout.seek(at).unwrap_or_default();
                layout.next_run(&mut cursor, len);
            }
        }
    }
}

#[test]
fn p10_a_table_that_cannot_be_told_is_refused_and_empty() {
    let run = Run::of(4);
    let few = Box::leak(Box::new(Table::new(std::vec![Cell::new()].leak())));
    assert_eq!(few.set(&[run], &[], 4), Ok(()));
    assert_eq!(few.set(&[run], &[StrideLevel { count: 2, stride: 9 }], 4), Err(TableError::Cells));
    assert_eq!((few.bytes(1), Layout::Table(few, 1).next_run(&mut Cursor::default(), 1)), (Some(0), None));
    let range = Err(TableError::Range);
    assert_eq!(table(&[run], &[StrideLevel { count: 0, stride: 1 }], 4), range);
    assert_eq!(table(&[run], &[StrideLevel { count: 3, stride: i64::MAX / 2 + 1 }], 4), range);
    assert_eq!(table(&[Run { offset: i64::MAX, ..run }], &[], 4), range);
    // Elements are counted by the layout, so it is the layout that has none.
    let far = table(&[run], &[], i64::MAX).unwrap();
    assert_eq!((far.low(3), Layout::Table(far, 3).reach(12)), (None, None));
    assert_eq!(Layout::Table(far, 2).bytes_within(u32::MAX), None);
}

#[test]
fn p10_a_layout_is_as_small_as_it_was() {
    assert!(size_of::<Layout>() <= 24 && size_of::<Cursor>() <= 8);
}
