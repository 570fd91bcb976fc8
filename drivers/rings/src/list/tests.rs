use super::*;
use proptest::prelude::*;
use std::vec::Vec;

#[test]
fn q2_what_is_not_there_is_not_listed() {
    let mut links = [Link::NONE; 2];
    let mut list = List::EMPTY;
    for number in [2, END] {
        list.push(&mut links[..], number);
        list.push_front(&mut links[..], number);
        assert!(list.is_empty() && !list.remove(&mut links[..], number));
    }
    list.prepend(&mut links[..], List::EMPTY);
    assert_eq!((list.first(), list.pop(&mut links[..])), (None, None));
}

proptest! {
    #[test]
    fn q2_a_list_is_as_its_model(
        steps in prop::collection::vec((0u8..7, 0u32..12), 1..if cfg!(miri) { 40 } else { 200 })
    ) {
        let mut links = [Link::NONE; 12];
        let links = &mut links[..];
        let (mut list, mut other) = (List::EMPTY, List::EMPTY);
        let (mut model, mut beside): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
        for (step, number) in steps {
            let is_free = !model.contains(&number) && !beside.contains(&number);
            match step {
                0 if is_free => {
                    list.push(links, number);
                    model.push(number);
                }
                1 if is_free => {
                    list.push_front(links, number);
                    model.insert(0, number);
                }
                2 if is_free => {
                    other.push(links, number);
                    beside.push(number);
                }
                3 => {
                    list.prepend(links, core::mem::take(&mut other));
                    model.splice(0..0, beside.drain(..));
                }
                4 => {
                    let at = model.iter().position(|&at| at % 4 == number % 4);
                    let taken = list.take(links, |at, _| at % 4 == number % 4);
                    prop_assert_eq!(taken, at.map(|at| model.remove(at)));
                }
                5 => {
                    prop_assert_eq!(list.remove(links, number), model.contains(&number));
                    model.retain(|&at| at != number);
                }
                _ => {
                    let first = (!model.is_empty()).then(|| model.remove(0));
                    prop_assert_eq!(list.pop(links), first);
                }
            }
            prop_assert!(list.iter(links).eq(model.iter().copied()));
            prop_assert!(other.iter(links).eq(beside.iter().copied()));
            prop_assert_eq!((list.first(), list.last()), (model.first().copied(), model.last().copied()));
            prop_assert_eq!(list.is_empty(), model.is_empty());
        }
    }
}
