//! One collective: what each rank brings, and what it must get.

use core::ops::Range;
use kernel::Shared;
use pami::collective::{Algorithm, Collective};

/// Bytes of a word.
pub const WORD: usize = 8;
/// What memory holds that nothing was put into.
const UNTOUCHED: u64 = 0xdead_beef_dead_beef;

/// A collective of words, in blocks of equal length.
#[derive(Clone, Copy)]
pub struct Case {
    pub what: Collective,
    /// None: the one that is chosen.
    pub algorithm: Option<Algorithm>,
    /// Of the vector, or of each block.
    pub bytes: usize,
    pub root: u32,
    pub size: u32,
    pub rank: u32,
    /// Makes the data of each round another's.
    pub round: u32,
}

impl Case {
    pub fn words(&self) -> usize {
        self.bytes / WORD
    }

    fn total(&self) -> usize {
        self.words() * self.size as usize
    }

    /// Words that this rank brings.
    pub fn input_len(&self) -> usize {
        use Collective as C;
        match self.what {
            C::Barrier => 0,
            C::Broadcast if self.rank != self.root => 0,
            C::Scatter if self.rank != self.root => 0,
            C::Scatter | C::ReduceScatter | C::Alltoall => self.total(),
            _ => self.words(),
        }
    }

    /// Words that this rank gets.
    pub fn output_len(&self) -> usize {
        use Collective as C;
        match self.what {
            C::Barrier => 0,
            C::Reduce | C::Gather if self.rank != self.root => 0,
            C::Gather | C::Allgather | C::Alltoall => self.total(),
            _ => self.words(),
        }
    }

    /// A word of a rank's, one that no other has.
    pub fn word(&self, rank: u32, at: usize) -> u64 {
        let place = (u64::from(rank) << 40) + (u64::from(self.round) << 32) + at as u64;
        (place + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn sum(&self, ranks: Range<u32>, at: usize) -> u64 {
        ranks.map(|rank| self.word(rank, at)).fold(0, u64::wrapping_add)
    }

    /// Word `at` of this rank's output, by plain loops.
    fn expected(&self, at: usize) -> u64 {
        use Collective as C;
        let (words, own) = (self.words(), self.rank as usize * self.words());
        match self.what {
            C::Barrier => UNTOUCHED,
            C::Broadcast => self.word(self.root, at),
            C::Reduce | C::Allreduce => self.sum(0..self.size, at),
            C::ReduceScatter => self.sum(0..self.size, own + at),
            C::Gather | C::Allgather => self.word((at / words) as u32, at % words),
            C::Scatter => self.word(self.root, own + at),
            C::Alltoall => self.word((at / words) as u32, own + at % words),
            C::Scan => self.sum(0..self.rank + 1, at),
            // The first rank's output is left alone.
            C::Exscan if self.rank == 0 => UNTOUCHED,
            C::Exscan => self.sum(0..self.rank, at),
        }
    }

    /// Fills the input, and the output with what must not stay.
    pub fn fill(&self, input: &Shared, output: &Shared) {
        for at in 0..self.input_len() {
            put(input, at, self.word(self.rank, at));
        }
        for at in 0..self.output_len() {
            put(output, at, UNTOUCHED);
        }
    }

    /// Whether the output is what it must be.
    pub fn holds(&self, output: &Shared) -> bool {
        (0..self.output_len()).all(|at| get(output, at) == Some(self.expected(at)))
    }
}

/// Writes word `at`.
pub fn put(memory: &Shared, at: usize, word: u64) {
    // The areas were made long enough for every case.
    let _ = memory.write(at * WORD, &word.to_ne_bytes());
}

/// Word `at`, if the memory has one.
pub fn get(memory: &Shared, at: usize) -> Option<u64> {
    let mut word = [0; WORD];
    memory.read(at * WORD, &mut word).is_ok().then_some(u64::from_ne_bytes(word))
}
