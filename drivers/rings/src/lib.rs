#![no_std]
//! rings
