//! Problem classes and their official verification values (NAS Parallel Benchmarks 3.4, EP).

/// One problem class.
pub struct Class {
    /// Its letter.
    pub name: &'static str,
    /// Base-2 logarithm of the number of pairs.
    pub pairs_log2: u32,
    /// Official sums of the deviates, first and second of each pair.
    sums: [f64; 2],
}

/// The classes, smallest first.
pub const CLASSES: [Class; 3] = [
    Class { name: "S", pairs_log2: 24, sums: [-3.24783465203474e3, -6.958407078382297e3] },
    Class { name: "W", pairs_log2: 25, sums: [-2.863319731645753e3, -6.320053679109499e3] },
    Class { name: "A", pairs_log2: 28, sums: [-4.295875165629892e3, -1.580732573678431e4] },
];

const TOLERANCE: f64 = 1e-8;

impl Class {
    /// Number of pairs of random numbers.
    pub fn pairs(&self) -> u64 {
        1 << self.pairs_log2
    }

    /// Whether the sums are the official ones.
    pub fn verifies(&self, sums: [f64; 2]) -> bool {
        sums.iter().zip(&self.sums).all(|(sum, official)| ((sum - official) / official).abs() <= TOLERANCE)
    }
}
