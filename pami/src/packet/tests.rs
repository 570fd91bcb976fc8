//! What is written is read again, and of what is read nothing is taken for what it is not (SPEC D-9).

use super::*;
use proptest::prelude::*;
use zerocopy::IntoBytes;

fn envelopes() -> impl Strategy<Value = Envelope> {
    let kinds = prop_oneof![
        Just(Kind::EagerFirst),
        Just(Kind::EagerNext),
        Just(Kind::EagerFirstAcked),
        Just(Kind::Ack)
    ];
    let endpoints = || (any::<u32>(), any::<u8>());
    (kinds, any::<u8>(), any::<u16>(), endpoints(), endpoints(), any::<u32>(), 0u32..1 << 20).prop_map(
        |(kind, dispatch, client, (task, context), (task2, context2), message, offset)| Envelope {
            kind,
            dispatch,
            origin: Endpoint::from_parts(ClientId(client), task, ContextOffset(context)),
            target: Endpoint::from_parts(ClientId(client), task2, ContextOffset(context2)),
            message,
            offset,
            total: u32::MAX,
        },
    )
}

proptest! {
    #[test]
    fn d9_any_bytes_are_a_packet_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Packet::parse(&bytes);
    }

    #[test]
    fn d9_a_damaged_packet_never_reaches_outside_its_buffer(
        envelope in envelopes(), payload in proptest::collection::vec(any::<u8>(), 0..100),
        at in 0usize..HEADER_BYTES, byte in any::<u8>()
    ) {
        let mut bytes = std::vec::Vec::from(Header::new(&envelope, 0, payload.len() as u16).as_bytes());
        bytes.extend(&payload);
        bytes[at] = byte;
        if let Ok(packet) = Packet::parse(&bytes) {
            prop_assert!(packet.header.len() + packet.data.len() <= payload.len());
        }
    }

    #[test]
    fn d9_a_packet_reads_back_what_was_written(
        envelope in envelopes(), header in proptest::collection::vec(any::<u8>(), 0..64),
        data in proptest::collection::vec(any::<u8>(), 0..64)
    ) {
        let wire = Header::new(&envelope, header.len() as u16, data.len() as u16);
        let mut bytes = std::vec::Vec::from(wire.as_bytes());
        bytes.extend(&header);
        bytes.extend(&data);
        let first = matches!(envelope.kind, Kind::EagerFirst | Kind::EagerFirstAcked);
        let expected = if first && data.is_empty() {
            Err(Malformed::Range)
        } else {
            Ok(Packet { envelope, header: &header, data: &data })
        };
        prop_assert_eq!(Packet::parse(&bytes), expected);
    }
}

proptest! {
    #[test]
    fn d9_the_front_of_a_message_of_one_packet_is_that_of_any(
        envelope in envelopes(), header_len in any::<u8>(), data_len in any::<u8>()
    ) {
        let (header_len, data_len) = (u16::from(header_len), u16::from(data_len));
        let Envelope { origin, target, dispatch, .. } = envelope;
        let total = u32::from(data_len);
        let whole = Envelope { kind: Kind::EagerFirst, message: 0, offset: 0, total, ..envelope };
        let header = Header::new(&whole, header_len, data_len);
        let made = HeaderTemplate::new(origin, target).header(dispatch, header_len, data_len);
        prop_assert_eq!(made.as_bytes(), header.as_bytes());
        prop_assert!(header.is_whole() && (header.dispatch(), header.origin()) == (dispatch, origin));
        for other in [
            Envelope { kind: Kind::EagerFirstAcked, ..whole },
            Envelope { total: total + 1, ..whole },
            Envelope { offset: 1, ..whole },
        ] {
            prop_assert!(!Header::new(&other, header_len, data_len).is_whole());
        }
    }
}

proptest! {
    #[test]
    fn d9_what_is_taken_for_whole_at_a_glance_is_a_packet_of_the_same_parts(
        envelope in envelopes(), lens in (0u16..50, 0u16..50), damage in proptest::option::of((0usize..HEADER_BYTES, any::<u8>())),
        short in 0usize..3
    ) {
        let (header_len, data_len) = lens;
        let total = u32::from(data_len);
        let whole = Envelope { kind: Kind::EagerFirst, offset: 0, total, ..envelope };
        // A buffer of words, as it has to be aligned.
        let mut buffer = [0u64; 32];
        let bytes = &mut buffer.as_mut_bytes()[..HEADER_BYTES + usize::from(header_len + data_len)];
        bytes[..HEADER_BYTES].copy_from_slice(Header::new(&whole, header_len, data_len).as_bytes());
        if let Some((at, byte)) = damage {
            bytes[at] = byte;
        }
        let bytes = &bytes[..bytes.len() - short.min(bytes.len() - HEADER_BYTES)];
        let parsed = Packet::parse(bytes);
        prop_assert!(damage.is_some() || short > 0 || Header::of_whole(bytes).is_some());
        if let Some(header) = Header::of_whole(bytes) {
            let Ok(Packet { envelope, header: front, data }) = parsed else {
                return Err(TestCaseError::fail("no packet"));
            };
            let Envelope { kind, origin, target, total, offset, .. } = envelope;
            prop_assert_eq!((kind, offset, total), (Kind::EagerFirst, 0, data.len() as u32));
            prop_assert_eq!((header.origin(), header.target()), (origin, target));
            prop_assert_eq!((header.header_len(), header.payload_len()), (front.len(), front.len() + data.len()));
        }
    }
}

#[test]
fn p5_the_header_has_the_documented_size() {
    assert_eq!(size_of::<Header>(), HEADER_BYTES);
}
