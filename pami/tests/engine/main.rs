//! The engine over an in-process machine: every claim that needs no hardware.

mod acks;
mod clients;
mod deaths;
mod fence_forms;
mod fences;
mod hostile;
mod kept;
mod machine;
mod one_sided;
mod orders;
mod rendezvous;
mod scene;
mod sends;
mod shapes;
