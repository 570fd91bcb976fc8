//! What processes agree on before they begin a collective: whether all of them have the large place, if it reduces long vectors, and
//! the task's place for one that is divided among the contexts, if that is reckoned to pay (SPEC G-8).

use super::{Collectives, Means, Stage, Start};
use crate::error::{Error, Result};
use pami::collective::engine::SHORT_LIMIT;
use pami::collective::{self, Algorithm, Collective, Query, Reducer, Tuning};
use pami::device::Port;
use pami::operator::{Element, Operator};
use pami::{Active, Collect};

/// Bytes for the answer to which places all have, in front of what its reduction takes.
const ANSWER: usize = 8;

/// That a process has the large place, and that it has the task's place for a collective that is divided.
pub(super) const LARGE: u32 = 1;
pub(super) const DIVIDED: u32 = 2;

/// How all contexts share the call, if that is reckoned to pay with so many bytes of scratch memory.
pub(super) fn divided<P: Port>(
    active: &Active<P>,
    collect: &Collect<P>,
    room: usize,
    means: Means<'_, P>,
) -> Option<(Algorithm, Tuning)> {
    let division = means.0.division?;
    let element_len = collect.reducer.map_or(1, |reducer| reducer.element_len());
    // Short data pays for no more than this.
    if collect.blocks.longest().saturating_mul(element_len) <= SHORT_LIMIT {
        return None;
    }
    let query = Query { scratch: room, ..active.query(collect).ok()? };
    query.divided(division.slices() as u32)
}

impl Collectives {
    /// Asks all processes for places, of which this one takes those that are free.
    pub(super) fn ask<P: Port>(
        &mut self,
        active: &mut Active<P>,
        index: u32,
        asks: u32,
        means: Means<'_, P>,
    ) -> Result<Start> {
        let Some(flight) = self.flights.get_mut(index) else { return Ok(Start::Started) };
        // There is one for every call.
        let work = self.works.take().ok_or(Error::Finalized)?;
        let large = if asks & LARGE == 0 { None } else { self.larges.take() };
        let token = means.0.division.map(|division| &division.token);
        let token = token.filter(|token| asks & DIVIDED != 0 && token.take());
        // What is left of it when it is removed goes with it.
        (flight.work, flight.large, flight.token) = (Some(work), large, token);
        let have = if large.is_some() { LARGE } else { 0 } | if token.is_some() { DIVIDED } else { 0 };
        let (memory, at) = self.works.place(work).ok_or(Error::Finalized)?;
        memory.write(at, &have.to_ne_bytes()).map_err(|_| Error::Finalized)?;
        let collect = Collect {
            output: Some((memory.clone(), at)),
            in_place: true,
            blocks: collective::Blocks::equal(1),
            reducer: Some(Reducer::new(Operator::BitAnd, Element::U32).map_err(|_| Error::Op)?),
            scratch: Some((memory, at + ANSWER)),
            scratch_limit: self.works.len() - ANSWER,
            ..Collect::new(flight.caller.geometry, Collective::Allreduce, means.0.ended(flight.cookie))
        };
        if let Err(error) = means.1.collectives.collect(active, collect) {
            self.works.release(flight.work.take());
            self.larges.release(flight.large.take());
            if let Some(token) = flight.token.take() {
                token.release();
            }
            return Start::later(error);
        }
        flight.stage = Stage::Agreeing;
        Ok(Start::Held)
    }

    /// All have answered which places they have.
    pub(super) fn answered(&mut self, index: u32) {
        let Some(flight) = self.flights.get_mut(index) else { return };
        let answer = flight.work.and_then(|work| self.works.place(work));
        let mut word = [0; 4];
        let read = answer.is_some_and(|(memory, at)| memory.read(at, &mut word).is_ok());
        let have = if read { u32::from_ne_bytes(word) } else { 0 };
        self.works.release(flight.work.take());
        if have & LARGE == 0 {
            self.larges.release(flight.large.take());
        }
        flight.stage = Stage::Answered;
        if have & DIVIDED == 0
            && let Some(token) = flight.token.take()
        {
            token.release();
        }
    }
}
