//! Collectives that only some endpoints are instructed to start: the others are called back (SPEC G-6).

use super::wire::{Label, Word};
use super::{Collect, Engine, GeometryId};
use crate::collective::catalogue::CATALOGUE;
use crate::collective::{Algorithm, Blocks, Collective, Form, Tuning};
use crate::context::{Active, Done};
use crate::device::Port;
use crate::endpoint::Endpoint;
use zerocopy::byteorder::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// What the first message of a collective says to an endpoint that was not instructed: all that
/// [`collect`](Self::collect) needs but memory and a reduction's operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Announcement {
    /// The geometry.
    pub geometry: GeometryId,
    /// The collective's number, see [`Collect::number`].
    pub number: u32,
    /// Who is instructed.
    pub form: Form,
    /// What is to be done.
    pub what: Collective,
    /// How.
    pub algorithm: (Algorithm, Tuning),
    /// The root's rank, or task.
    pub root: u32,
    /// Elements of the vector, or of each block.
    pub len: usize,
    /// Whether tasks' endpoints share the work.
    pub divided: bool,
    /// Who the message is from.
    pub origin: Endpoint,
}

impl Announcement {
    /// What this endpoint has to call, but for its memory and a reducer.
    pub fn collect<P: Port>(&self, done: Done<P>) -> Collect<P> {
        let blocks = Blocks::equal(self.len);
        Collect {
            root: self.root,
            blocks,
            sources: blocks,
            algorithm: Some(self.algorithm),
            divided: self.divided,
            form: self.form,
            number: self.number,
            ..Collect::new(self.geometry, self.what, done)
        }
    }
}

/// Called when a collective begins that this endpoint was not instructed to start.
pub struct OnAnnounced<P: Port> {
    /// The function. It starts the collective; until it has it is called again in each advance.
    pub call: &'static (dyn Fn(&mut Active<P>, Announcement, usize) + Sync),
    /// Handed to it as is.
    pub cookie: usize,
}

impl<P: Port> Clone for OnAnnounced<P> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<P: Port> Copy for OnAnnounced<P> {}

/// The call, in a packet's header.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub(super) struct Notice {
    what: u8,
    algorithm: u8,
    form: u8,
    divided: u8,
    root: U32,
    len: U32,
    radix: U32,
    chunk: U32,
}

impl Notice {
    pub(super) fn new<P: Port>(collect: &Collect<P>, (algorithm, tuning): (Algorithm, Tuning)) -> Self {
        Self {
            what: collect.what as u8,
            algorithm: algorithm as u8,
            form: collect.form as u8,
            divided: collect.divided.into(),
            root: collect.root.into(),
            len: (collect.blocks.len(0) as u32).into(),
            radix: tuning.radix.into(),
            chunk: u32::try_from(tuning.chunk).unwrap_or(u32::MAX).into(),
        }
    }

    fn read(&self, label: &Label, origin: Endpoint) -> Option<Announcement> {
        let algorithm = CATALOGUE.iter().map(|entry| entry.algorithm);
        let tuning = Tuning { radix: self.radix.get(), chunk: self.chunk.get() as usize };
        Some(Announcement {
            geometry: GeometryId(label.key.geometry),
            number: label.key.sequence,
            form: [Form::RootOnly, Form::OthersOnly].into_iter().find(|form| *form as u8 == self.form)?,
            what: Collective::ALL.into_iter().find(|what| *what as u8 == self.what)?,
            algorithm: (algorithm.into_iter().find(|it| *it as u8 == self.algorithm)?, tuning),
            root: self.root.get(),
            len: self.len.get() as usize,
            divided: self.divided != 0,
            origin,
        })
    }
}

impl<P: Port> Engine<P> {
    /// A collective that was announced and has not begun here.
    fn announced(&self) -> Option<Announcement> {
        self.early.iter().find_map(|early| {
            let begun = |slot: &super::Slot<P>| slot.key.is_of(early.label.key);
            let tells = matches!(early.word, Word::Short | Word::Request);
            let notice = early.label.notice.filter(|_| tells && !self.slots.iter().any(begun))?;
            notice.read(&early.label, early.origin)
        })
    }
}

impl<P: Port> Active<P> {
    /// What is called when a collective begins that this endpoint was not instructed to start.
    pub fn on_announced(&mut self, on: Option<OnAnnounced<P>>) {
        self.collectives.on_announced = on;
        self.stir();
    }

    /// Calls those back that have to begin something. Returns how many.
    pub(super) fn call_back(&mut self) -> usize {
        let mut called = 0;
        while let Some(on) = self.collectives.on_announced
            && let Some(announcement) = self.collectives.announced()
        {
            called += 1;
            (on.call)(self, announcement, on.cookie);
            // It found no room: the next advance asks again.
            if self.collectives.announced() == Some(announcement) {
                return called;
            }
        }
        self.collectives.calls = self.collectives.announced().is_some();
        called
    }
}
