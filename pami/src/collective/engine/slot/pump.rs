//! The messages of a round that are under way: what they have to send, and what is got of them; see `bulk`.

use super::super::areas::Piece;
use super::super::bulk::Bulk;
use super::super::transfer::{Incoming, Outgoing, ReceiveStage, SendStage};
use super::super::wire::{Pulling, Stop, Wire, Word};
use super::CollectiveInFlight;
use crate::device::Port;
use crate::region::{RegionFault, RemoteData};

/// Packets of one message that an advance sends.
const PACKETS_PER_ADVANCE: usize = 64;

impl<A> CollectiveInFlight<A> {
    /// Goes on with the messages under way. Returns whether any moved.
    #[inline]
    pub(super) fn pump<P: Port>(&mut self, bulk: &mut Bulk, number: u32, wire: &mut Wire<'_, P>) -> bool {
        let receives = self.receives.iter().any(|incoming| !incoming.waits());
        let sends = self.sends.iter().any(|outgoing| !outgoing.stage.waits());
        (receives || sends) && self.pump_all((bulk, number), wire)
    }

    #[inline(never)]
    fn pump_all<P: Port>(&mut self, (bulk, number): (&mut Bulk, u32), wire: &mut Wire<'_, P>) -> bool {
        let mut moved = false;
        let mut index = 0;
        while let Some(&incoming) = self.receives.get(index) {
            match self.pump_in(incoming, (bulk, number), wire) {
                Ok(None) => {
                    self.receives.swap_remove(index);
                    moved = true;
                    continue;
                }
                Ok(Some(stage)) => {
                    moved |= stage != incoming.stage || incoming.again;
                    self.receives[index] = Incoming { again: false, stage, ..incoming };
                }
                Err(stop) => self.stopped(stop, incoming.rank),
            }
            index += 1;
        }
        let mut index = 0;
        while let Some(&outgoing) = self.sends.get(index) {
            match self.pump_out(outgoing, (bulk, number), wire) {
                Ok(None) => {
                    self.sends.swap_remove(index);
                    moved = true;
                }
                Ok(Some(stage)) => {
                    moved |= stage != outgoing.stage;
                    self.sends[index].stage = stage;
                    index += 1;
                }
                Err(stop) => {
                    self.stopped(stop, outgoing.rank);
                    return true;
                }
            }
        }
        moved
    }

    /// Clears a message, or gets it, or tells its sender that it has. Returns how far it is; `None`: all is done.
    fn pump_in<P: Port>(
        &self,
        incoming: Incoming,
        (bulk, number): (&mut Bulk, u32),
        wire: &mut Wire<'_, P>,
    ) -> Result<Option<ReceiveStage>, Stop> {
        let Incoming { from, tag, piece, again, stage, .. } = incoming;
        match stage {
            ReceiveStage::Cleared(0) | ReceiveStage::ToClear if again || stage == ReceiveStage::ToClear => {
                wire.push(from, Word::Clear, &self.label(tag), (0, 0, piece.len), |_| {})?;
                Ok(Some(ReceiveStage::Cleared(0)))
            }
            ReceiveStage::Offered(data, done) => {
                let Some(memory) = self.areas.wanted(piece.area) else {
                    return Ok(Some(ReceiveStage::Landed));
                };
                let (place, measures) = ((memory, piece.start), (done as usize, piece.len));
                Ok(Some(match wire.pull((from, data), place, measures, bulk, (number, tag))? {
                    Pulling::There(done) if done == piece.len => ReceiveStage::Landed,
                    Pulling::There(done) => ReceiveStage::Offered(data, done as u32),
                    Pulling::Begun => ReceiveStage::Pulled,
                    Pulling::Refused(RegionFault::Stale) => ReceiveStage::Lost,
                    Pulling::Refused(_) => return Err(Stop::Refused),
                }))
            }
            ReceiveStage::Landed => {
                wire.push(from, Word::Taken, &self.label(tag), (0, 0, piece.len), |_| {})?;
                Ok(None)
            }
            stage => Ok(Some(stage)),
        }
    }

    /// Sends what one message has to send now. Returns how far it is; `None`: all has gone.
    fn pump_out<P: Port>(
        &self,
        outgoing: Outgoing,
        (bulk, number): (&mut Bulk, u32),
        wire: &mut Wire<'_, P>,
    ) -> Result<Option<SendStage>, Stop> {
        let Outgoing { to, tag, piece, stage, .. } = outgoing;
        let label = self.label(tag);
        let full = |stop, stage| if stop == Stop::Full { Ok(Some(stage)) } else { Err(stop) };
        let mut gone = match stage {
            SendStage::Announce => {
                let pushed = wire.push(to, Word::Request, &label, (0, 0, piece.len), |_| {});
                return pushed.map_or_else(|stop| full(stop, stage), |()| Ok(Some(SendStage::Waits)));
            }
            SendStage::Waits | SendStage::Offered => return Ok(Some(stage)),
            SendStage::Offers => match self.lend(piece, (bulk, number), wire) {
                Some(data) => {
                    let offered = wire.offer(to, &label, data, piece.len);
                    return offered.map_or_else(|stop| full(stop, stage), |()| Ok(Some(SendStage::Offered)));
                }
                None => 0,
            },
            SendStage::Clear(gone) => gone,
        };
        // Whole words, so that the target writes whole words.
        let room = (wire.room() & !7).max(1);
        for _ in 0..PACKETS_PER_ADVANCE {
            let len = room.min(piece.len - gone);
            let measures = (gone, len, piece.len);
            if let Err(stop) =
                wire.push(to, Word::Data, &label, measures, |into| self.areas.read(piece, gone, into))
            {
                return full(stop, SendStage::Clear(gone));
            }
            gone += len;
            if gone == piece.len {
                return Ok(None);
            }
        }
        Ok(Some(SendStage::Clear(gone)))
    }

    /// The region that a message lies in, and where in it; `None` if it is to go in packets.
    fn lend<P: Port>(
        &self,
        piece: Piece,
        (bulk, number): (&mut Bulk, u32),
        wire: &mut Wire<'_, P>,
    ) -> Option<RemoteData> {
        if piece.len <= wire.short_limit() {
            return None;
        }
        let memory = self.areas.memory(piece.area)?;
        let region = wire.lend(memory, (bulk, number))?;
        Some(RemoteData { region, offset: piece.start as u32 })
    }
}
