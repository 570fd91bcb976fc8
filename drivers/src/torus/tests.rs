//! Which address a frame goes to, and which frames are taken.

use super::*;
use crate::virtio::VirtioNet;
use crate::virtio::fake::{FakeCard, HostHal};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::vec::Vec;

type Nic = VirtioNet<HostHal, FakeCard>;

/// Node 3, with a card whose own address this is.
fn node(station: [u8; 6]) -> (TorusAdapter<Nic>, FakeCard) {
    let card = FakeCard::new(1024);
    card.card().config[..6].copy_from_slice(&station);
    (TorusAdapter::new(Nic::new(card.clone()).unwrap(), 3).unwrap(), card)
}

/// The station address of rank `rank`.
fn station(rank: u32) -> [u8; 6] {
    let [a, b, c, d] = rank.to_le_bytes();
    [0x70, 0xb3, a, b, c, d]
}

/// The front of a frame that the node sends to `rank`.
fn sent(adapter: &mut TorusAdapter<Nic>, card: &FakeCard, rank: u32) -> Vec<u8> {
    // SAFETY: nothing is lent, and no frame is in flight.
    assert!(unsafe { adapter.transmit(rank, &[9; 64], &[], [Lent::NONE; 2], 0) });
    adapter.flush();
    let (frame, _) = card.transmit().unwrap();
    assert!(adapter.reclaim().is_some());
    frame[..FRAME_HEADER].to_vec()
}

/// A frame of `rank`'s, by its station address.
fn of(rank: u32, station: [u8; 6]) -> Vec<u8> {
    let mut frame = frame(3, rank, ETHERTYPE_RELIABLE, &[7; 64]);
    frame[6..12].copy_from_slice(&station);
    frame
}

/// The node believes such a frame.
fn learn(adapter: &mut TorusAdapter<Nic>, card: &FakeCard, frame: &[u8]) {
    card.receive(frame).unwrap();
    let came = adapter.receive().unwrap();
    adapter.learn(&came);
    adapter.recycle(came);
    adapter.flush();
}

#[test]
fn d1_a_frame_says_its_ranks_and_is_of_the_cards_own_address_if_that_is_one() {
    let own = [(station(3), station(3)), ([0; 6], mac(3)), ([0x71, 0, 0, 0, 0, 1], mac(3)), (mac(9), mac(3))];
    for (told, own) in own {
        let (mut adapter, card) = node(told);
        let expected = [&mac(9)[..], &own, &[0x88, 0xb6], &[9, 0, 0, 0], &[3, 0, 0, 0]].concat();
        assert_eq!(sent(&mut adapter, &card, 9), expected);
        let to_all = sent(&mut adapter, &card, FABRIC);
        assert_eq!(
            (&to_all[..6], &to_all[12..18]),
            (&mac(FABRIC)[..], &[0x88, 0xb5, 255, 255, 255, 255][..])
        );
    }
}

#[test]
fn d1_frames_count_by_their_ranks_whatever_card_they_are_from() {
    let (mut adapter, card) = node(station(3));
    for (what, at, byte) in [("foreign", 13, 0xb5), ("foreign", 13, 0), ("stray", 14, 4)] {
        let mut frame = of(9, station(9));
        frame[at] = byte;
        card.receive(&frame).unwrap();
        assert!(adapter.receive().is_none(), "{what}");
    }
    let faults = adapter.faults();
    assert_eq!((faults.foreign, faults.stray, faults.runts), (2, 1, 0));
    card.receive(&of(9, station(700))).unwrap();
    assert_eq!(adapter.receive().unwrap().source(), 9);
}

#[test]
fn d1_no_frame_goes_to_a_group_or_to_nobody_because_a_peer_says_so() {
    let (mut adapter, card) = node(station(3));
    learn(&mut adapter, &card, &of(9, station(9)));
    for address in [[0; 6], [0xff; 6], [1, 0, 0x5e, 0, 0, 1]] {
        learn(&mut adapter, &card, &of(9, address));
        assert_eq!(sent(&mut adapter, &card, 9)[..6], station(9));
    }
}

#[test]
fn d1_frames_for_peers_whose_cards_have_one_address_go_by_rank_from_then_on() {
    let (mut adapter, card) = node(station(3));
    let by = |adapter: &mut _, rank| <[u8; 6]>::try_from(&sent(adapter, &card, rank)[..6]).unwrap();
    // One of them has its place at that of the first.
    let ranks = [8, 9, 8 + PLACES as u32];
    learn(&mut adapter, &card, &of(8, station(70)));
    assert_eq!(by(&mut adapter, 8), station(70));
    for last in [1, 2, 0, 1, 0] {
        learn(&mut adapter, &card, &of(ranks[last], station(70)));
        for rank in ranks {
            assert_eq!(by(&mut adapter, rank), mac(rank));
        }
    }
    // Another card.
    learn(&mut adapter, &card, &of(9, station(9)));
    assert_eq!([8, 9].map(|rank| by(&mut adapter, rank)), [mac(8), station(9)]);
    // The node's own, of a peer and of the node.
    learn(&mut adapter, &card, &of(3, station(3)));
    assert_eq!(by(&mut adapter, 3), station(3));
    learn(&mut adapter, &card, &of(10, station(3)));
    assert_eq!([10, 3].map(|rank| by(&mut adapter, rank)), [mac(10), mac(3)]);
}

#[test]
fn d1_frames_that_a_switch_sends_to_all_and_are_for_others_are_let_go_and_nobodys_fault() {
    let (mut adapter, card) = node(station(3));
    let to_all = [0xff; 6];
    let (own, rank) = (of(9, station(9)), mac(3));
    let [mut foreign, mut stray] = [own.clone(), own.clone()];
    foreign[12..14].copy_from_slice(&[8, 6]);
    stray[14] = 4;
    for (address, counts) in [(station(4), 0), (mac(4), 0), (to_all, 0), (station(3), 1), (rank, 2)] {
        for frame in [&foreign, &stray, &own[..50].to_vec(), &own[..20].to_vec()] {
            card.receive(&[&address[..], &frame[6..]].concat()).unwrap();
            assert!(adapter.receive().is_none());
        }
        let faults = adapter.faults();
        assert_eq!(
            [faults.foreign, faults.stray, faults.runts],
            [counts, counts, 2 * counts],
            "{address:x?}"
        );
    }
    // One for this node's rank is taken, whatever card the sender thinks it plays.
    card.receive(&[&station(4)[..], &own[6..]].concat()).unwrap();
    assert_eq!(adapter.receive().unwrap().source(), 9);
}

proptest! {
    #[test]
    fn d9_any_frame_is_of_the_rank_that_it_says_or_counted_if_it_is_for_the_card(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..100), is_near in 0u8..4, to in 0..3usize
    ) {
        if let (Some(own), Some(to)) = ([station(3), mac(3)].get(to), bytes.first_chunk_mut()) {
            *to = *own;
        }
        let is_for_card = [station(3), mac(3)].iter().any(|own| bytes.starts_with(own));
        // Of the right types and for this node, now and then.
        for (at, near) in [(12, 0x88), (13, 0xb5 + (is_near & 1)), (14, 3), (15, 0), (16, 0), (17, 0)] {
            bytes.get_mut(at).filter(|_| is_near > 0).into_iter().for_each(|byte| *byte = near);
        }
        let (mut adapter, card) = node(station(3));
        card.receive(&bytes).unwrap();
        let came = adapter.receive();
        let faults = adapter.faults();
        prop_assert_eq!(faults.runts + faults.foreign + faults.stray, u64::from(came.is_none() && is_for_card));
        if let Some(came) = came {
            prop_assert_eq!(&came.source().to_le_bytes(), &bytes[18..22]);
            prop_assert_eq!((came.packet(), &bytes[14..18]), (&bytes[FRAME_HEADER..], &[3, 0, 0, 0][..]));
            adapter.learn(&came);
            let told: [u8; 6] = bytes[6..12].try_into().unwrap();
            let expected = if is_station(told) { told } else { mac(came.source()) };
            prop_assert_eq!(&sent(&mut adapter, &card, came.source())[..6], &expected[..]);
        }
    }

    /// Against a plain map, with ranks that share places.
    #[test]
    fn d1_frames_go_where_their_rank_was_last_heard_unless_a_later_one_has_its_place(
        steps in proptest::collection::vec((any::<bool>(), 0u32..3, 0u32..3, any::<u8>()), 0..if cfg!(miri) { 5 } else { 60 })
    ) {
        let (mut adapter, card) = node(station(3));
        let mut known = BTreeMap::new();
        for (hears, place, turn, salt) in steps {
            let rank = place + turn * PLACES as u32;
            if hears {
                let address = station((rank + 1) << 8 | u32::from(salt));
                learn(&mut adapter, &card, &of(rank, address));
                known.insert(place, (rank, address));
            } else {
                let expected = known.get(&place).filter(|(other, _)| *other == rank);
                let expected = expected.map_or(mac(rank), |(_, address)| *address);
                prop_assert_eq!(&sent(&mut adapter, &card, rank)[..6], &expected[..]);
            }
        }
    }
}
