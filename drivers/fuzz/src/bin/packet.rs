//! Any bytes are a packet or an error; a packet lies inside its bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pami::packet::{HEADER_BYTES, Packet};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(packet) = Packet::parse(bytes) {
        let inside = packet.header.len() + packet.data.len() + HEADER_BYTES;
        assert!(inside <= bytes.len());
        let range = bytes.as_ptr_range();
        for part in [packet.header, packet.data].into_iter().filter(|part| !part.is_empty()) {
            assert!(range.contains(&part.as_ptr()));
        }
    }
});
