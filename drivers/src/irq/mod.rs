//! Interrupt controllers (SPEC D-10). All interrupts but one are never taken: they end a hart's sleep, and the hart then
//! claims and completes them.

pub mod gic;
pub mod plic;
