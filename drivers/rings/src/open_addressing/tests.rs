use super::*;
use proptest::prelude::*;
use std::collections::HashMap;
use std::vec::Vec;

/// A key, which is its home as well, and something besides.
type Entry = (usize, usize);

/// The way to this key in a table whose searches are so long.
fn place(table: &[Option<Entry>], key: usize, most: usize) -> Option<usize> {
    find(table, ways(table.len(), key).take(most), |entry| entry.0 == key)
}

fn take_out(table: &mut [Option<Entry>], key: usize, most: usize) -> Option<Entry> {
    remove(table, place(table, key, most)?, |entry| entry.0)
}

#[test]
fn q2_a_table_without_places_has_no_ways() {
    assert_eq!((ways(0, 3).count(), place(&[], 3, 1)), (0, None));
}

#[test]
fn q2_what_lies_behind_a_hole_moves_up_unless_it_is_at_home() {
    let mut table = [None; 8];
    // The third and the fourth are meant for the first one's place, round the end.
    for (key, at) in [(6, 6), (7, 7), (14, 0), (22, 1), (2, 2), (10, 3)] {
        assert_eq!(place(&table, key, 8), Some(at));
        table[at] = Some((key, 0));
    }
    assert_eq!(take_out(&mut table, 6, 8), Some((6, 0)));
    let places = |table: &[_]| [14, 7, 22, 2, 10].map(|key| place(table, key, 8));
    assert_eq!(places(&table), [6, 7, 0, 2, 3].map(Some));
    assert_eq!(take_out(&mut table, 6, 8), None);
    assert_eq!(take_out(&mut table, 2, 8), Some((2, 0)));
    assert_eq!(places(&table), [6, 7, 0, 3, 2].map(Some), "one that is not there has a place");
    assert_eq!(table[3], None);
}

proptest! {
    #[test]
    fn q2_a_table_by_key_is_as_its_model(
        steps in prop::collection::vec((any::<bool>(), 0usize..40), 1..if cfg!(miri) { 40 } else { 300 }),
        (places, most) in (0u32..5).prop_flat_map(|log| (Just(1 << log), 1usize..=1 << log)),
    ) {
        let mut table: Vec<Option<Entry>> = std::vec![None; places];
        let mut model: HashMap<usize, Entry> = HashMap::new();
        for (step, (inserts, key)) in steps.into_iter().enumerate() {
            if inserts {
                let taken = ways(places, key).take(most).all(|way| table[way].is_some());
                let found = place(&table, key, most);
                prop_assert_eq!(found.is_none(), taken && !model.contains_key(&key));
                if let Some(at) = found {
                    table[at] = Some((key, step));
                    model.insert(key, (key, step));
                }
            } else {
                prop_assert_eq!(take_out(&mut table, key, most), model.remove(&key));
            }
            for key in 0..40 {
                prop_assert_eq!(place(&table, key, most).and_then(|at| table[at]), model.get(&key).copied());
            }
            prop_assert_eq!(table.iter().flatten().count(), model.len());
        }
    }
}
