//! Memory that tasks of one node share by name (SPEC N-7).
//!
//! Tasks have no other way to each other's memory than this and the regions that they register. Whoever asks for a
//! segment first has it taken out of his own memory; it lives as long as the node.

/// Most segments of a node.
pub const SEGMENTS: usize = 32;

/// The segments of a node; `T` is a handle of one.
pub struct Segments<T> {
    entries: [Option<(&'static str, T)>; SEGMENTS],
}

/// Why there is no such segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused<E> {
    /// The node has [`SEGMENTS`] others.
    NoneLeft,
    /// It could not be made.
    Unmade(E),
}

impl<T: Clone> Segments<T> {
    /// No segments.
    pub const fn new() -> Self {
        Self { entries: [const { None }; SEGMENTS] }
    }

    /// The segment called `name`, which `make` makes if nobody has asked for it before.
    ///
    /// # Errors
    /// [`Refused`]; the next who asks is the first again.
    pub fn open<E>(
        &mut self,
        name: &'static str,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, Refused<E>> {
        if let Some((_, segment)) = self.entries.iter().flatten().find(|entry| entry.0 == name) {
            return Ok(segment.clone());
        }
        let place = self.entries.iter_mut().find(|entry| entry.is_none()).ok_or(Refused::NoneLeft)?;
        let segment = make().map_err(Refused::Unmade)?;
        *place = Some((name, segment.clone()));
        Ok(segment)
    }
}

impl<T: Clone> Default for Segments<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn n7_all_who_ask_for_a_name_get_what_the_first_has_made() {
        let mut segments = Segments::new();
        let first = segments.open("a", || Ok::<_, ()>(Arc::new(1))).unwrap();
        let second = segments.open("a", || Err(())).unwrap();
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!(segments.open("b", || Ok::<_, ()>(Arc::new(2))).as_deref(), Ok(&2));
    }

    #[test]
    fn n7_who_cannot_make_a_segment_leaves_that_to_the_next() {
        let mut segments = Segments::new();
        assert_eq!(segments.open("a", || Err("no memory")), Err(Refused::Unmade("no memory")));
        assert_eq!(segments.open("a", || Ok::<_, &str>(3)), Ok(3));
    }

    #[test]
    fn n7_a_node_has_so_many_segments_and_no_more() {
        let mut segments = Segments::new();
        for number in 0..SEGMENTS {
            let name = format!("{number}").leak();
            assert_eq!(segments.open(name, || Ok::<_, ()>(number)), Ok(number));
        }
        assert_eq!(segments.open("more", || Ok::<_, ()>(0)), Err(Refused::NoneLeft));
        assert_eq!(segments.open("7", || Err(())), Ok(7));
    }
}
