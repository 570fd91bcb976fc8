//! Packets of collectives that come too late, of nobody, or in a wrong size (SPEC D-9, R-1).

use crate::machine::Packet;
use crate::stage::{Case, LIMITS, Stage, shared, words};
use pami::collective::{Algorithm, Blocks, Collective};
use pami::device::Arrival;
use pami::endpoint::ContextOffset;
use pami::packet::{Envelope, Kind};
use pami::{Collect, Endpoint, Limits, WORLD};

/// Words of packets.
const SHORT: u8 = 0;
const DATA: u8 = 3;
pub const ABORT: u8 = 4;
/// Most bytes of data of a message that is sent eagerly.
const SHORT_LIMIT: usize = 4096;

/// Has context 0 take a packet in.
pub fn forge(stage: &mut Stage, origin: Endpoint, word: u8, label: [u32; 5], data: &[u8]) {
    let target = stage.contexts[0].endpoint();
    let header: Vec<u8> = label.into_iter().flat_map(u32::to_le_bytes).collect();
    let (kind, total) = (Kind::Collective, data.len() as u32);
    let envelope = Envelope { kind, dispatch: word, origin, target, message: 0, offset: 0, total };
    stage.world.forge(Packet::new(envelope, &header, data));
    stage.contexts[0].advance();
}

#[test]
fn d9_r1_short_messages_of_what_is_over_take_no_place_and_give_their_credit_back() {
    // Four places, of which each member may have one that goes eagerly.
    let mut stage = Stage::with(3, 1, 1, 1, Limits { early: 4, ..LIMITS });
    let members = stage.everyone();
    let case = Case { what: Collective::Allreduce, size: 3, len: 2, ..Case::default() };
    stage.play(&[(case, members)]);
    stage.rest();
    let peer = stage.contexts[1].endpoint();
    let heard = |stage: &Stage| {
        stage.world.lock().seen.iter().filter(|seen| **seen == (Kind::Collective, 0, 1, 0)).count()
    };
    let before = heard(&stage);
    for count in 1..=10 {
        forge(&mut stage, peer, SHORT, [0, 0, 0, count as u32, 5], &[1]);
        assert_eq!(stage.contexts[0].counters().protocol_errors, count);
        stage.rest();
    }
    assert_eq!(heard(&stage), before + 10);
    stage.play(&[(case, members)]);
    // Of what is to come there is a place for so many, and of nobody for none.
    let protocol_errors = stage.contexts[0].counters().protocol_errors;
    let (client, future) = (peer.client(), [0, 9, 0, 0, 5]);
    for (count, (task, context)) in (1..).zip([(1, 1), (3, 0), (3, 1)]) {
        let nobody = Endpoint::from_parts(client, task, ContextOffset(context));
        forge(&mut stage, nobody, SHORT, future, &[]);
        assert_eq!(stage.contexts[0].counters().protocol_errors, protocol_errors + count);
    }
    forge(&mut stage, peer, SHORT, future, &[0; SHORT_LIMIT + 1]);
    assert_eq!(stage.contexts[0].counters().protocol_errors, protocol_errors + 4);
    for (tag, stray) in [(1, 4), (2, 4), (3, 4), (4, 4), (5, 5), (6, 6)] {
        forge(&mut stage, peer, SHORT, [0, 9, 0, tag, 5], &[0; SHORT_LIMIT]);
        assert_eq!(stage.contexts[0].counters().protocol_errors, protocol_errors + stray);
    }
}

#[test]
fn d9_who_is_no_member_gives_nothing_up() {
    let mut stage = Stage::new(3, 1, 1, 2);
    let members = stage.range(0, 2, 1);
    let id = stage.create(1, members, None);
    let stranger = stage.contexts[2].endpoint();
    forge(&mut stage, stranger, ABORT, [id.0, 1, 0, 2, 1], &[]);
    assert_eq!(stage.contexts[0].counters().protocol_errors, 1);
    let case = Case { geometry: id, what: Collective::Allreduce, size: 2, len: 2, ..Case::default() };
    stage.play(&[(case, members)]);
}

#[test]
fn d9_data_beyond_its_message_is_a_stray_and_is_written_nowhere() {
    const LEN: usize = 1000;
    let mut stage = Stage::new(2, 1, 1, 3);
    let told = stage.told;
    let sent: Vec<u64> = (0..LEN as u64).collect();
    // Behind what is broadcast there is other data.
    let output = shared(&vec![7; LEN + 1]);
    for (rank, memory) in [output.clone(), shared(&sent)].into_iter().enumerate() {
        let collect = Collect {
            root: 1,
            input: Some((memory.clone(), 0)),
            output: Some((memory, 0)),
            blocks: Blocks::equal(8 * LEN),
            algorithm: Some((Algorithm::Flat, crate::stage::TUNING)),
            ..Collect::new(WORLD, Collective::Broadcast, told.done(rank).unwrap())
        };
        stage.contexts[rank].collect(collect).unwrap();
        stage.contexts[rank].advance();
    }
    let peer = stage.contexts[1].endpoint();
    let first = stage.world.lock().steps()[0];
    stage.world.lock().step(first);
    // It is as what was cleared.
    let label = {
        let mut state = stage.world.lock();
        let clear = state.port(peer).reception.front().expect("a clear");
        let word = |at: usize| u32::from_le_bytes(clear.parts().0[4 * at..4 * at + 4].try_into().unwrap());
        [0, 1, 2, 3, 4].map(word)
    };
    forge(&mut stage, peer, DATA, label, &[9; 8 * LEN + 8]);
    assert_eq!(stage.contexts[0].counters().protocol_errors, 1);
    stage.until(2);
    stage.all_good();
    assert_eq!((&words(&output)[..LEN], words(&output)[LEN]), (&sent[..], 7));
}
