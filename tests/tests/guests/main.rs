//! All integration tests, in one program: a job is built once for all of them, and while the guests of one test wait those
//! of another run.

mod accumulate;
mod affinity;
mod boards;
mod boot;
mod boot_loader;
mod collectives;
mod debugger;
mod each_board;
mod faults;
mod fences;
mod firmware;
mod host;
mod host_jobs;
mod host_udp;
mod inspect;
mod instructions;
mod io;
mod jobs;
mod liveness;
mod messages;
mod modules;
mod npb;
mod plain;
mod readme;
mod serial_line;
mod service;
mod spin_table;
mod timeline;
mod top;
mod tree;
