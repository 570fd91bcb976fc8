//! What stands in for devices where Linux is the board: descriptors of this process (SPEC H-1).
//!
//! | module | what |
//! |---|---|
//! | `events` | an interrupt controller: harts are threads, which sleep until a descriptor has something for them |
//! | `card` | a network card: a stream of frames to the fabric, as an emulator's |
//! | `udp` | another: datagrams to the other nodes, wherever they are |
//! | `segment` | memory that the nodes of one machine share, and bells to wake each other's harts |
//! | `fences` | fences whose one side costs nothing |
//! | `signal` | what a card interrupts by, which both know |
//!
//! No memory is allocated once they are made.

mod card;
mod events;
mod fences;
mod segment;
mod signal;
mod udp;

pub use card::{Card, CardError, StreamInterrupt};
pub use events::{DEVICES, Events, NS_PER_S, now_ns};
pub use fences::{heavy_fence, light_fence, register_fences};
pub use segment::{Descriptors, Peers, SegmentError, Shape, bells, standard_input};
pub use signal::Signal;
pub use udp::UdpCard;
