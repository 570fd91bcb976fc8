//! Problem classes and their official verification values (NAS Parallel Benchmarks 3.4, MG).

/// One problem class.
pub struct Class {
    /// Its letter.
    pub name: &'static str,
    /// Points of the finest grid in each dimension, a power of two.
    pub extent: usize,
    /// V-cycles.
    pub iterations: u32,
    /// Official norm of the residual.
    norm: f64,
}

/// The classes, smallest first.
pub const CLASSES: [Class; 3] = [
    Class { name: "S", extent: 32, iterations: 4, norm: 0.5307707005734e-4 },
    Class { name: "W", extent: 128, iterations: 4, norm: 0.6467329375339e-5 },
    Class { name: "A", extent: 256, iterations: 4, norm: 0.2433365309069e-5 },
];

const TOLERANCE: f64 = 1e-8;

impl Class {
    /// Whether the norm is the official one.
    pub fn verifies(&self, norm: f64) -> bool {
        ((norm - self.norm) / self.norm).abs() <= TOLERANCE
    }
}
