#![no_std]
//! drivers
