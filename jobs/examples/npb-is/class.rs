//! Problem classes and their official verification values (NAS Parallel Benchmarks 3.4, IS).

/// Test keys of a class.
pub const TEST_KEYS: usize = 5;
/// Timed iterations, of every class.
pub const ITERATIONS: u32 = 10;

/// One problem class.
pub struct Class {
    /// Its letter.
    pub name: &'static str,
    /// Base-2 logarithm of the number of keys.
    pub keys_log2: u32,
    /// Base-2 logarithm of the number of key values.
    pub values_log2: u32,
    /// Places of the test keys in the unsorted sequence.
    places: [usize; TEST_KEYS],
    /// Their ranks, but for a shift that depends on the iteration.
    ranks: [i64; TEST_KEYS],
    /// How many of the ranks, from the first, shift up with the iterations; the others shift down.
    rising: usize,
    /// Iteration at which a rising rank has its tabled value.
    rising_from: i64,
    /// Iteration at which a falling rank has its tabled value.
    falling_from: i64,
}

/// The classes, smallest first.
pub const CLASSES: [Class; 3] = [
    Class {
        name: "S",
        keys_log2: 16,
        values_log2: 11,
        places: [48427, 17148, 23627, 62548, 4431],
        ranks: [0, 18, 346, 64917, 65463],
        rising: 3,
        rising_from: 0,
        falling_from: 0,
    },
    Class {
        name: "W",
        keys_log2: 20,
        values_log2: 16,
        places: [357773, 934767, 875723, 898999, 404505],
        ranks: [1249, 11698, 1039987, 1043896, 1048018],
        rising: 2,
        rising_from: 2,
        falling_from: 0,
    },
    Class {
        name: "A",
        keys_log2: 23,
        values_log2: 19,
        places: [2112377, 662041, 5336171, 3642833, 4250760],
        ranks: [104, 17523, 123928, 8288932, 8388264],
        rising: 3,
        rising_from: 1,
        falling_from: 1,
    },
];

impl Class {
    /// Number of keys.
    pub fn keys(&self) -> usize {
        1 << self.keys_log2
    }

    /// Number of key values; keys run from 0.
    pub fn values(&self) -> u32 {
        1 << self.values_log2
    }

    /// Place of a test key in the unsorted sequence.
    pub fn place(&self, test: usize) -> usize {
        self.places[test]
    }

    /// The two keys that an iteration, counted from 1, changes: places in the sequence, and new values.
    pub fn changed(&self, iteration: u32) -> [(usize, u32); 2] {
        let place = iteration as usize;
        [(place, iteration), (place + ITERATIONS as usize, self.values() - iteration)]
    }

    /// Whether the test keys have their official ranks in an iteration, counted from 1.
    pub fn verifies(&self, iteration: u32, ranks: [u32; TEST_KEYS]) -> bool {
        ranks.iter().enumerate().all(|(test, &rank)| i64::from(rank) == self.official_rank(test, iteration))
    }

    /// The official rank of a test key in an iteration, counted from 1.
    fn official_rank(&self, test: usize, iteration: u32) -> i64 {
        let iteration = i64::from(iteration);
        if test < self.rising {
            self.ranks[test] + iteration - self.rising_from
        } else {
            self.ranks[test] - (iteration - self.falling_from)
        }
    }
}
