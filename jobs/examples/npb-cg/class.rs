//! Problem classes and their official verification values (NAS Parallel Benchmarks 3.4, CG).

/// One problem class.
pub struct Class {
    /// Its letter.
    pub name: &'static str,
    /// Order of the matrix.
    pub order: usize,
    /// Nonzeros drawn for each of the sparse vectors whose outer products make up the matrix.
    pub nonzeros: usize,
    /// Steps of the inverse power method.
    pub iterations: u32,
    /// How far the matrix is shifted.
    pub shift: f64,
    /// Official estimate of the eigenvalue.
    zeta: f64,
}

/// The classes, smallest first.
pub const CLASSES: [Class; 3] = [
    Class { name: "S", order: 1400, nonzeros: 7, iterations: 15, shift: 10.0, zeta: 8.5971775078648 },
    Class { name: "W", order: 7000, nonzeros: 8, iterations: 15, shift: 12.0, zeta: 10.362595087124 },
    Class { name: "A", order: 14000, nonzeros: 11, iterations: 15, shift: 20.0, zeta: 17.130235054029 },
];

const TOLERANCE: f64 = 1e-10;

impl Class {
    /// Whether the estimate is the official one.
    pub fn verifies(&self, zeta: f64) -> bool {
        ((zeta - self.zeta) / self.zeta).abs() <= TOLERANCE
    }
}
