//! The list of a geometry: which algorithms of each collective it may use (SPEC G-2).

use super::call::{Algorithm, Collective};
use super::catalogue::{self, AlgorithmEntry, CATALOGUE};
use super::names::UnknownName;
use core::fmt;
use core::str::FromStr;

/// Some of the [catalogue]'s algorithms, of each collective. What an algorithm needs stays with its entry there, so the
/// list has two parts as that has: [always valid](AlgorithmEntry::is_always_valid), and valid if metadata hold.
///
/// It is written as `broadcast=binomial+flat,allreduce=ring`: a collective that is not named has all of its algorithms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AlgorithmList([u32; Collective::ALL.len()]);

const fn bit(algorithm: Algorithm) -> u32 {
    1 << algorithm as u32
}

impl AlgorithmList {
    /// All that there are.
    pub const ALL: Self = {
        let (mut list, mut at) = ([0; Collective::ALL.len()], 0);
        while at < CATALOGUE.len() {
            list[CATALOGUE[at].collective as usize] |= bit(CATALOGUE[at].algorithm);
            at += 1;
        }
        Self(list)
    };

    /// Adds an algorithm of a collective.
    ///
    /// # Errors
    /// [`UnknownName::Mismatched`]: the collective has no such algorithm.
    pub fn add(&mut self, collective: Collective, algorithm: Algorithm) -> Result<(), UnknownName> {
        catalogue::entry(collective, algorithm).ok_or(UnknownName::Mismatched(collective, algorithm))?;
        self.0[collective as usize] |= bit(algorithm);
        Ok(())
    }

    /// Removes one. What is not in the list stays out of it.
    pub fn remove(&mut self, collective: Collective, algorithm: Algorithm) {
        self.0[collective as usize] &= !bit(algorithm);
    }

    /// Removes all of a collective.
    pub fn clear(&mut self, collective: Collective) {
        self.0[collective as usize] = 0;
    }

    /// Whether it has an algorithm of a collective.
    pub fn has(&self, collective: Collective, algorithm: Algorithm) -> bool {
        self.0[collective as usize] & bit(algorithm) != 0
    }

    /// The algorithms of a collective, in the order of the catalogue.
    pub fn entries(
        &self,
        collective: Collective,
    ) -> impl Iterator<Item = &'static AlgorithmEntry> + Clone + use<> {
        let listed = self.0[collective as usize];
        let is_listed = move |entry: &&AlgorithmEntry| {
            entry.collective == collective && listed & bit(entry.algorithm) != 0
        };
        CATALOGUE.iter().filter(is_listed)
    }

    /// What members compare: the same for equal lists.
    pub(in crate::collective) fn words(&self) -> impl Iterator<Item = u32> {
        self.0.into_iter()
    }
}

impl Default for AlgorithmList {
    fn default() -> Self {
        Self::ALL
    }
}

impl fmt::Display for AlgorithmList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let differs =
            |&collective: &Collective| self.0[collective as usize] != Self::ALL.0[collective as usize];
        for (place, collective) in Collective::ALL.into_iter().filter(differs).enumerate() {
            write!(f, "{}{collective}=", if place > 0 { "," } else { "" })?;
            for (place, entry) in self.entries(collective).enumerate() {
                write!(f, "{}{}", if place > 0 { "+" } else { "" }, entry.algorithm)?;
            }
        }
        Ok(())
    }
}

impl FromStr for AlgorithmList {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let mut list = Self::ALL;
        for pair in text.split(',') {
            let (collective, algorithms) = pair.split_once('=').ok_or(UnknownName::Pair)?;
            let collective = collective.trim().parse()?;
            list.clear(collective);
            for algorithm in algorithms.split('+') {
                list.add(collective, algorithm.trim().parse()?)?;
            }
        }
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;
    use std::vec::Vec;

    fn names(list: &AlgorithmList, collective: Collective) -> Vec<&'static str> {
        list.entries(collective).map(|entry| entry.algorithm.name()).collect()
    }

    #[test]
    fn g2_a_list_has_every_algorithm_that_is_not_removed() {
        let mut list = AlgorithmList::ALL;
        for collective in Collective::ALL {
            assert!(list.entries(collective).eq(catalogue::entries(collective)));
        }
        list.remove(Collective::Allreduce, Algorithm::Ring);
        list.remove(Collective::Allreduce, Algorithm::Flat);
        let ring = catalogue::entry(Collective::Allreduce, Algorithm::Ring).unwrap();
        let others = catalogue::entries(Collective::Allreduce).filter(|&entry| entry != ring);
        assert!(list.entries(Collective::Allreduce).eq(others));
        assert!(list.has(Collective::ReduceScatter, Algorithm::Ring));
        assert!(!list.has(Collective::Allreduce, Algorithm::Ring));
        list.clear(Collective::Barrier);
        assert_eq!(names(&list, Collective::Barrier), [""; 0]);
        let scan = Collective::Scan;
        assert_eq!(
            list.add(scan, Algorithm::Ring),
            Err(UnknownName::Mismatched(scan, Algorithm::Ring)),
            "a list has only what there is"
        );
        for (collective, algorithm) in
            [(Collective::Barrier, Algorithm::Nary), (Collective::Allreduce, Algorithm::Ring)]
        {
            assert_eq!(list.add(collective, algorithm), Ok(()));
        }
        assert_eq!(names(&list, Collective::Barrier), ["n-ary"]);
        assert!(list.words().ne(AlgorithmList::ALL.words()));
        catalogue::entries(Collective::Barrier)
            .for_each(|entry| list.add(Collective::Barrier, entry.algorithm).unwrap());
        assert_eq!(list, AlgorithmList::ALL);
    }

    #[test]
    fn g2_a_list_is_written_by_the_collectives_that_have_not_all() {
        let text = "broadcast=binomial+flat,allreduce=ring";
        let list: AlgorithmList = text.parse().unwrap();
        assert_eq!(list.to_string(), text);
        assert_eq!(names(&list, Collective::Broadcast), ["binomial", "flat"]);
        assert_eq!(names(&list, Collective::Allreduce), ["ring"]);
        assert!(list.entries(Collective::Barrier).eq(catalogue::entries(Collective::Barrier)));
        assert_eq!(AlgorithmList::ALL.to_string(), "");
        let mismatched = UnknownName::Mismatched(Collective::Scan, Algorithm::Ring);
        assert_eq!("barrier=n-ary,scan=ring".parse::<AlgorithmList>(), Err(mismatched));
        assert_eq!(mismatched.to_string(), "scan has no algorithm ring; it has recursive-doubling affinity");
        for (wrong, why) in [
            ("", UnknownName::Pair),
            ("barrier", UnknownName::Pair),
            ("barrier=", UnknownName::Algorithm),
            ("barrier=fast", UnknownName::Algorithm),
            ("barrier=n-ary+", UnknownName::Algorithm),
            ("fence=ring", UnknownName::Collective),
        ] {
            assert_eq!(wrong.parse::<AlgorithmList>(), Err(why), "{wrong}");
        }
    }
}
