#![no_std]
//! kernel
