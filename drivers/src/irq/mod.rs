//! Interrupt controllers (SPEC D-10). Interrupts are never taken here: they end a hart's sleep, and the hart then
//! claims and completes them.

pub mod gic;
pub mod plic;
