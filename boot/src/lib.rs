#![no_std]
//! boot
