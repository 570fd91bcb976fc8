//! Ethernet frames between a node and the tree network.

use pami::combine::TreeEnvelope;
use pami::combine::packet::{ETHER_TYPE, HEADER_BYTES, MAC_PREFIX, NETWORK, TreeHeader, mac};
use zerocopy::IntoBytes as _;

const ETHERNET_BYTES: usize = 14;
/// Bytes of a frame without payload.
pub const FRAME_BYTES: usize = ETHERNET_BYTES + HEADER_BYTES;

/// What is wrong with a frame from a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// Shorter than an Ethernet header.
    Short,
    /// Of another EtherType.
    Foreign,
    /// The source address is not the sender's own.
    Forged,
    /// Not for the network.
    Unroutable,
}

/// The packet in a frame that came from node `from`.
pub fn read(frame: &[u8], from: u32) -> Result<&[u8], Wrong> {
    let (header, packet) = frame.split_first_chunk::<ETHERNET_BYTES>().ok_or(Wrong::Short)?;
    let [target @ .., _, _, _, _, _, _, _, _] = header;
    let [_, _, _, _, _, _, source @ .., high, low] = header;
    if u16::from_be_bytes([*high, *low]) != ETHER_TYPE || target[..2] != MAC_PREFIX {
        Err(Wrong::Foreign)
    } else if *source != mac(from) {
        Err(Wrong::Forged)
    } else if *target != mac(NETWORK) {
        Err(Wrong::Unroutable)
    } else {
        Ok(packet)
    }
}

/// A frame from the network to node `to`.
pub fn write(to: u32, envelope: &TreeEnvelope, payload: &[u8]) -> Vec<u8> {
    between(to, NETWORK, envelope, payload)
}

fn between(to: u32, from: u32, envelope: &TreeEnvelope, payload: &[u8]) -> Vec<u8> {
    let header = TreeHeader::new(envelope, payload.len() as u16);
    let ether_type = ETHER_TYPE.to_be_bytes();
    [&mac(to)[..], &mac(from), &ether_type, header.as_bytes(), payload].concat()
}

/// A frame from node `from`, as the firmware sends it.
#[cfg(test)]
pub fn from_node(from: u32, envelope: &TreeEnvelope, payload: &[u8]) -> Vec<u8> {
    between(NETWORK, from, envelope, payload)
}
