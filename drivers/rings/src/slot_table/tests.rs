use super::*;
use proptest::prelude::*;
use std::vec::Vec;

fn table<T>(slots: usize) -> SlotTable<T> {
    let slots: Vec<Slot<T>> = (0..slots).map(|_| Slot::new()).collect();
    SlotTable::new(slots.leak())
}

#[test]
fn q2_a_key_finds_its_entry_and_no_later_one() {
    let mut table = table(2);
    let vacant = table.vacant();
    let key = table.insert('a').unwrap();
    assert_eq!(key, Key { index: 0, generation: FIRST });
    assert_eq!((vacant, table.key(0), table.find(key)), (Some(key), Some(key), Some(&mut 'a')));
    assert_eq!(table.remove(0), Some('a'));
    assert_eq!(table.find(key), None);
    assert_eq!((table.key(0), table.remove(0)), (None, None));
    assert_eq!(table.insert('b').map(|key| key.index), Ok(0), "what was used is used first");
    assert_eq!(table.find(key), None);
    assert_eq!(table.get(0), Some(&'b'));
    assert!(table.insert('c').is_ok());
    assert_eq!((table.insert('d'), table.vacant()), (Err('d'), None));
    for generation in [0, 2, u32::MAX] {
        for index in [0, 1, 2, u32::MAX] {
            assert_eq!(table.find(Key { index, generation }), None, "made up");
        }
    }
}

#[test]
fn q2_a_generation_wraps_and_is_never_0_with_an_entry() {
    let mut table = table(1);
    table.slots[0].generation = u32::MAX - 1;
    for generation in [u32::MAX, FIRST] {
        assert_eq!(table.insert(()), Ok(Key { index: 0, generation }));
        table.remove(0);
    }
}

#[test]
fn q2_entries_can_be_listed_and_free_slots_are_not() {
    let mut table = table(4);
    (0..4).for_each(|entry| assert!(table.insert(entry).is_ok()));
    let mut list = List::EMPTY;
    [3, 1, 2].into_iter().for_each(|number| list.push(&mut table, number));
    assert!(list.remove(&mut table, 1));
    assert_eq!(table.remove(1), Some(1));
    assert!(list.iter(&table).eq([3, 2]));
    assert_eq!(table.insert(7).map(|key| key.index), Ok(1));
    assert!(list.iter(&table).eq([3, 2]));
}

#[test]
fn q2_what_is_first_in_a_list_leaves_that_or_the_table_as_its_user_decides() {
    let mut table = table(3);
    let keys: Vec<_> = (0..3).map(|entry| table.insert(entry).unwrap()).collect();
    let mut list = List::EMPTY;
    (0..3).for_each(|number| list.push(&mut table, number));
    assert_eq!(table.decide_first(&mut list, |_, _| None::<(Leaves, ())>), None);
    assert!(list.iter(&table).eq([0, 1, 2]));
    let both = |key, entry: &mut i32| Some((Leaves::ListAndTable, (key, *entry)));
    assert_eq!(table.decide_first(&mut list, both), Some((keys[0], 0)));
    assert_eq!((table.key(0), table.get(0), table.len()), (None, None, 2));
    let stays = |key, entry: &mut i32| Some((Leaves::List, (key, *entry)));
    assert_eq!(table.decide_first(&mut list, stays), Some((keys[1], 1)));
    assert_eq!((table.key(1), table.get(1), table.len()), (Some(keys[1]), Some(&1), 2));
    assert!(list.iter(&table).eq([2]));
    assert_eq!(table.insert(7).map(|key| key.index), Ok(0), "its slot is the next");
    assert!(table.vacate(1) && !table.vacate(1) && !table.vacate(9));
    assert_eq!((table.len(), table.insert(8).map(|key| key.index)), (2, Ok(1)));
    assert_eq!(table.decide_first(&mut list, both).map(|(_, entry)| entry), Some(2));
    assert_eq!(table.decide_first(&mut list, both), None);
}

proptest! {
    #[test]
    fn q2_a_table_is_as_its_model(
        steps in prop::collection::vec((any::<bool>(), 0usize..9), 1..if cfg!(miri) { 40 } else { 300 })
    ) {
        let mut table = table(8);
        let mut model: [Option<usize>; 8] = [None; 8];
        let mut keys = Vec::new();
        for (entry, (inserts, at)) in steps.into_iter().enumerate() {
            if inserts {
                let (vacant, inserted) = (table.vacant(), table.insert(entry));
                prop_assert_eq!(inserted.is_ok(), model.contains(&None));
                if let Ok(key) = inserted {
                    prop_assert!(model[key.index as usize].replace(entry).is_none());
                    prop_assert_eq!((vacant, table.key(key.index)), (Some(key), Some(key)));
                    keys.push((key, entry));
                }
            } else if at % 3 == 0 {
                prop_assert_eq!(table.discard(at as u32), model.get_mut(at).and_then(Option::take).is_some());
            } else {
                prop_assert_eq!(table.remove(at as u32), model.get_mut(at).and_then(Option::take));
            }
            let used = (0..).zip(&model).filter_map(|(number, entry)| Some((number, entry.as_ref()?)));
            prop_assert!(table.iter().eq(used.clone()));
            prop_assert_eq!((table.len(), table.is_empty()), (used.clone().count(), used.count() == 0));
            for &(key, entry) in &keys {
                let there = model[key.index as usize].filter(|&there| there == entry);
                prop_assert_eq!(table.find(key).copied(), there);
            }
        }
    }
}

#[test]
fn q2_all_entries_are_gone_over_and_a_table_made_of_its_slots_is_empty() {
    let mut table = table(4);
    (0..3).for_each(|entry| assert!(table.insert(entry * 10).is_ok()));
    table.remove(1);
    table.values_mut().for_each(|entry| *entry += 1);
    assert!(table.values().copied().eq([1, 21]) && table.iter().map(|(number, _)| number).eq([0, 2]));
    let mut again = SlotTable::new(table.into_slots());
    assert_eq!((again.len(), again.values().count(), again.capacity()), (0, 0, 4));
    assert!((0..4).all(|entry| again.insert(entry).is_ok()), "no entry of before is in the way");
    assert!(again.values().copied().eq([0, 1, 2, 3]));
}

#[test]
fn q2_what_finds_no_slot_is_not_made() {
    let mut table = table(1);
    let key = table.insert_with(|| 7).unwrap();
    assert_eq!((table.find(key).copied(), table.len()), (Some(7), 1));
    assert_eq!(table.insert_with(|| unreachable!()), None);
    table.remove(key.index);
    assert_ne!(table.insert_with(|| 8).map(|other| other.generation), Some(key.generation));
}

#[test]
fn q2_the_first_of_a_list_leaves_it_if_it_is_wanted() {
    let mut table = table(3);
    let mut list = List::EMPTY;
    for entry in [10, 11, 12] {
        let key = table.insert(entry).unwrap();
        list.push(&mut table, key.index);
    }
    assert_eq!(table.shift(&mut list, |entry| *entry == 11), None, "it is not the first");
    assert_eq!(table.shift(&mut list, |entry| *entry == 10), Some((0, &mut 10)));
    assert!(list.iter(&table).eq([1, 2]));
    assert_eq!(table.shift(&mut list, |_| true), Some((1, &mut 11)));
    assert_eq!(table.shift(&mut list, |_| true), Some((2, &mut 12)));
    assert!(list.is_empty() && list.last().is_none() && table.shift(&mut list, |_| true).is_none());
    list.push(&mut table, 1);
    assert!(list.iter(&table).eq([1]), "as any other list that was emptied");
}
