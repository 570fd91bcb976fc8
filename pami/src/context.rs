//! context
use crate::device::Port;
/// What a post carries to the context's thread.
pub struct Work<P: Port> { _p: core::marker::PhantomData<fn(P)> }
