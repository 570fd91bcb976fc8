//! Cards that work when they are kicked, and miss one kick.

use super::elapse;
use super::units::{CardUnit, Talker, card_units};
use crate::torus::mac;
use crate::virtio::fake::FakeCard;

/// A card that sends when it was kicked, and misses a kick.
struct Sleepy<'a> {
    card: &'a FakeCard,
    kicks: u64,
    missed: Option<u64>,
}

impl Sleepy<'_> {
    /// What it sends now.
    fn frames(&mut self) -> std::vec::Vec<std::vec::Vec<u8>> {
        let kicks = self.card.card().notified[1];
        let heard = (self.kicks + 1..=kicks).any(|kick| Some(kick) != self.missed);
        self.kicks = kicks;
        if heard {
            core::iter::from_fn(|| self.card.transmit()).map(|(frame, _)| frame).collect()
        } else {
            [].into()
        }
    }
}

/// Two nodes send each other messages, and card `node` misses kick number `missed`. Returns how many kicks each card got.
fn talk(node: usize, missed: Option<u64>) -> [u64; 2] {
    const TOTAL: u32 = 12;
    let cards = [FakeCard::new(512), FakeCard::new(512)];
    let units: [&'static CardUnit; 2] = card_units(&cards);
    let mut talkers = [0, 1].map(|node| Talker::new(units[node as usize], node, 0));
    let mut sleepy = [0, 1].map(|at| {
        let card = &cards[at];
        let kicks = card.card().notified[1];
        Sleepy { card, kicks, missed: missed.filter(|_| at == node).map(|missed| kicks + missed) }
    });
    let begun = sleepy.each_ref().map(|card| card.kicks);
    let mut rounds = 0;
    while !talkers.iter().all(|talker| talker.is_done(TOTAL)) {
        let moved = talkers.iter_mut().fold(false, |moved, talker| talker.step(TOTAL) | moved);
        for at in 0..2 {
            for frame in sleepy[at].frames().iter().filter(|frame| frame[..6] == mac(1 - at as u32)) {
                let _ = cards[1 - at].receive(frame);
            }
        }
        elapse(if moved { 5_000 } else { 500_000 });
        rounds += 1;
        assert!(rounds < 20_000, "nodes wait for ever after card {node} missed kick {missed:?}");
    }
    core::array::from_fn(|at| sleepy[at].kicks - begun[at])
}

#[test]
fn d1_d8_a_kick_that_a_card_misses_holds_nothing_up_for_good() {
    let most = talk(0, None);
    assert!(most.iter().all(|&kicks| kicks >= 4), "{most:?}");
    for (node, most) in most.into_iter().enumerate() {
        (1..=most).for_each(|missed| _ = talk(node, Some(missed)));
    }
}
