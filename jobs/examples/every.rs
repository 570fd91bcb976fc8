//! All jobs in one image, but the one that counts instructions: built once where many are to run. The personality names
//! the one that does.
#![no_std]
#![no_main]
#![allow(unused_attributes, reason = "each of them is a crate of its own as well")]

#[path = "accumulate/main.rs"]
mod accumulate;
#[path = "affinity/main.rs"]
mod affinity;
#[path = "alive/main.rs"]
mod alive;
#[path = "all-pairs/main.rs"]
mod all_pairs;
#[path = "anew.rs"]
mod anew;
#[path = "armci/main.rs"]
mod armci;
#[path = "board.rs"]
mod board;
#[path = "chatter.rs"]
mod chatter;
#[path = "coll/main.rs"]
mod coll;
#[path = "copies.rs"]
mod copies;
#[path = "endpoints/main.rs"]
mod endpoints;
#[path = "faults.rs"]
mod faults;
#[path = "fence/main.rs"]
mod fence;
#[path = "gups/main.rs"]
mod gups;
#[path = "halo3d/main.rs"]
mod halo3d;
#[path = "harts.rs"]
mod harts;
#[path = "hello.rs"]
mod hello;
#[path = "hostile.rs"]
mod hostile;
#[path = "idle.rs"]
mod idle;
#[path = "io/main.rs"]
mod io;
#[path = "modules/main.rs"]
mod modules;
#[path = "mpi-suite/main.rs"]
mod mpi_suite;
#[path = "npb-cg/main.rs"]
mod npb_cg;
#[path = "npb-ep/main.rs"]
mod npb_ep;
#[path = "npb-ft/main.rs"]
mod npb_ft;
#[path = "npb-is/main.rs"]
mod npb_is;
#[path = "npb-mg/main.rs"]
mod npb_mg;
#[path = "peers/main.rs"]
mod peers;
#[path = "ping.rs"]
mod ping;
#[path = "rma/main.rs"]
mod rma;
#[path = "segments.rs"]
mod segments;
#[path = "shmem/main.rs"]
mod shmem;
#[path = "snippets.rs"]
mod snippets;
#[path = "stalled.rs"]
mod stalled;
#[path = "tree/main.rs"]
mod tree;
#[path = "wake.rs"]
mod wake;
