//! Problem classes and their official verification values (NAS Parallel Benchmarks 3.4, FT).

use super::fourier::Complex;

/// Steps in time, of every class here.
pub const STEPS: usize = 6;

/// One problem class.
pub struct Class {
    /// Its letter.
    pub name: &'static str,
    /// Points in x, y, z: powers of two.
    pub extents: [usize; 3],
    /// Official checksums after each step.
    checksums: [Complex; STEPS],
}

/// The classes, smallest first.
pub const CLASSES: [Class; 3] = [
    Class {
        name: "S",
        extents: [64, 64, 64],
        checksums: [
            [5.546087004964e2, 4.845363331978e2],
            [5.546385409189e2, 4.865304269511e2],
            [5.546148406171e2, 4.883910722336e2],
            [5.545423607415e2, 4.901273169046e2],
            [5.544255039624e2, 4.917475857993e2],
            [5.542683411902e2, 4.932597244941e2],
        ],
    },
    Class {
        name: "W",
        extents: [128, 128, 32],
        checksums: [
            [5.673612178944e2, 5.293246849175e2],
            [5.631436885271e2, 5.282149986629e2],
            [5.594024089970e2, 5.270996558037e2],
            [5.560698047020e2, 5.260027904925e2],
            [5.530898991250e2, 5.249400845633e2],
            [5.504159734538e2, 5.239212247086e2],
        ],
    },
    Class {
        name: "A",
        extents: [256, 256, 128],
        checksums: [
            [5.046735008193e2, 5.114047905510e2],
            [5.059412319734e2, 5.098809666433e2],
            [5.069376896287e2, 5.098144042213e2],
            [5.077892868474e2, 5.101336130759e2],
            [5.085233095391e2, 5.104914655194e2],
            [5.091487099959e2, 5.107917842803e2],
        ],
    },
];

const TOLERANCE: f64 = 1e-12;

impl Class {
    /// Whether a checksum is the official one of its step, counted from 0.
    pub fn verifies(&self, step: usize, checksum: Complex) -> bool {
        let official = self.checksums[step];
        let off = libm::hypot(checksum[0] - official[0], checksum[1] - official[1]);
        off / libm::hypot(official[0], official[1]) <= TOLERANCE
    }
}
