//! The slot that creates a geometry: when the members have met they are told of the class route; see `network`.

use super::super::geometry::GeometryState;
use super::super::limits::NOTE_BYTES;
use super::super::route::{note, noted};
use super::{CollectiveInFlight, Phase};
use crate::collective::{Area, Blocks, Call, Collective, Tuning};
use crate::combine::{Census, ClassRoute, InjectError};
use crate::device::CollectiveNetwork;
use rings::shared::Shared;

/// Where the creation of a geometry is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Creation {
    /// Its members meet.
    Meets,
    /// They are told of the class route.
    Learns,
}

impl<A> CollectiveInFlight<A> {
    /// It is over. If it was the meeting, it goes on with telling the members; returns whether it does. There is a note for
    /// every geometry.
    pub(in super::super) fn goes_on(&mut self, entry: &mut GeometryState, notes: &Shared) -> bool {
        let Some(creation) = self.creation else { return false };
        let at = self.geometry() * NOTE_BYTES;
        if self.result.is_err() || !entry.way.is_pending() {
            entry.way.close();
            return false;
        }
        if creation == Creation::Learns {
            let mut note = [0; NOTE_BYTES];
            let _ = notes.read(at, &mut note);
            match noted(note) {
                Some(route) => entry.way.open(entry.channel(route)),
                None => entry.way.close(),
            }
            return false;
        }
        self.creation = Some(Creation::Learns);
        self.key.part = 1;
        self.whole = Call {
            collective: Collective::Broadcast,
            algorithm: entry.broadcast(),
            blocks: Blocks::equal(NOTE_BYTES),
            sources: Blocks::equal(NOTE_BYTES),
            in_place: true,
            tuning: Tuning { radix: 2, chunk: 1 },
            ..self.whole
        };
        self.areas.replace(Area::Output, notes.clone(), at);
        if self.whole.rank == 0 {
            self.phase = Phase::Asks;
        } else {
            self.follow(&{ self.whole });
        }
        true
    }

    /// Asks for the class route of the nodes that `census` lists, if they can have one, and notes the answer. Returns whether
    /// anything happened. It is [for this](Self::asks) to do.
    #[cold]
    pub(in super::super) fn ask(
        &mut self,
        notes: Option<&Shared>,
        network: impl CollectiveNetwork,
        census: impl FnOnce() -> Option<Census>,
    ) -> bool {
        let route = if self.asked {
            let Some(answer) = network.answer() else { return false };
            self.asked = false;
            answer.ok()
        } else if let Some(census) = census() {
            match network.allocate(census.members()) {
                Ok(()) => {
                    self.asked = true;
                    return true;
                }
                Err(InjectError::Full | InjectError::Pending) => return false,
                Err(_) => None,
            }
        } else {
            None
        };
        self.learn(notes, route);
        true
    }

    /// The class route is known: the others are told.
    fn learn(&mut self, notes: Option<&Shared>, route: Option<ClassRoute>) {
        if let Some(notes) = notes {
            let _ = notes.write(self.geometry() * NOTE_BYTES, &note(route));
        }
        self.follow(&{ self.whole });
        self.moved = true;
    }
}
