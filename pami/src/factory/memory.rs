//! Where a factory object lies, and what it holds.

use crate::balance::Split;
use crate::collective::{Algorithm, Collective, Tuning};
use crate::endpoint::ClientId;

/// Numbers of clients are lower.
pub(crate) const NOBODY: ClientId = ClientId(u16::MAX);

/// What a factory knows: all that can be settled when it is registered is.
#[derive(Clone, Copy)]
pub struct Settings {
    pub(crate) client: ClientId,
    /// The client again, unless one-sided operations take another path than its own: then nobody.
    pub(crate) usual_for: ClientId,
    pub(crate) dispatch: u8,
    /// Takes another path than the client's other operations.
    pub(crate) own_path: bool,
    pub(crate) local_paths: bool,
    pub(crate) rendezvous_from: usize,
    pub(crate) collective: Collective,
    pub(crate) algorithm: Option<(Algorithm, Tuning)>,
    pub(crate) split: Split,
}

/// Memory for one factory object, of whatever function; what is in it is nobody else's matter (SPEC M-3). 88 bytes,
/// of alignment 8, on machines of 64 bits.
///
/// Its size and alignment are those of the type, so no smaller or misaligned memory can be passed as one:
///
/// ```compile_fail,E0308
/// let memory: &'static mut pami::factory::FactoryMemory = Box::leak(Box::new([0u8; 8]));
/// ```
pub struct FactoryMemory {
    pub(super) settings: Settings,
    pub(super) protocol: &'static str,
    /// Whether it is the client's, and to be given to others.
    pub(super) pooled: bool,
}

impl FactoryMemory {
    /// Its size in bytes.
    pub const SIZE: usize = size_of::<Self>();
    /// Its alignment in bytes.
    pub const ALIGN: usize = align_of::<Self>();

    /// Memory that holds no factory.
    pub const fn new() -> Self {
        let settings = Settings {
            client: NOBODY,
            usual_for: NOBODY,
            dispatch: 0,
            own_path: false,
            local_paths: true,
            rendezvous_from: usize::MAX,
            collective: Collective::Barrier,
            algorithm: None,
            split: Split::TargetOnly,
        };
        Self { settings, protocol: "", pooled: false }
    }
}

impl Default for FactoryMemory {
    fn default() -> Self {
        Self::new()
    }
}
