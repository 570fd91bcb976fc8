//! Tables whose entries are found by key (SPEC Q-2), for whoever has them alone: open addressing with linear probing.
//!
//! A table is a slice of places, a power of two of them. An entry lies at its key's *home*, modulo their number, or at the next
//! free place behind it; the last place is in front of the first. Entries stay where they are, and can be named by their places,
//! until one is taken out: those behind it move up, so that a search ends at the first free place.
//!
//! It is not `heapless`'s `IndexMap`, whose length is a constant, and which keeps hash and key beside each entry: lengths here are
//! settings of the node's, in memory of its own.

/// The places, of so many, at which an entry with this home may lie, in the order of a search.
#[inline]
pub fn ways(places: usize, home: usize) -> impl Iterator<Item = usize> {
    (0..places).map(move |step| home.wrapping_add(step) & (places - 1))
}

/// Where among these ways the entry lies for which `is_it` holds, or the free place where it would.
pub fn find<T>(
    places: &[Option<T>],
    mut ways: impl Iterator<Item = usize>,
    is_it: impl Fn(&T) -> bool,
) -> Option<usize> {
    ways.find(|&at| places[at].as_ref().is_none_or(&is_it))
}

/// Takes the entry at a place out. `home` is that of an entry.
pub fn remove<T>(places: &mut [Option<T>], at: usize, home: impl Fn(&T) -> usize) -> Option<T> {
    let removed = places[at].take()?;
    let (mut hole, mask) = (at, places.len() - 1);
    for at in ways(places.len(), at + 1) {
        let Some(entry) = &places[at] else { break };
        if at.wrapping_sub(home(entry)) & mask >= at.wrapping_sub(hole) & mask {
            places.swap(hole, at);
            hole = at;
        }
    }
    Some(removed)
}

#[cfg(all(test, not(loom)))]
mod tests;
