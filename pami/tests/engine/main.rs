//! The engine over an in-process machine: every claim that needs no hardware.

mod acks;
mod affinity;
mod balance;
mod balance_crowd;
mod clients;
mod collectives;
mod deaths;
mod divided;
mod factories;
mod fence_forms;
mod fences;
mod geometries;
mod hostile;
mod kept;
mod machine;
mod messages;
mod one_sided;
mod orders;
mod refusals;
mod rendezvous;
mod scene;
mod sends;
mod shapes;
mod smallest;
mod stage;
mod tree;
