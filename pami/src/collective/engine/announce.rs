//! Collectives that only some endpoints are instructed to start: the others are called back (SPEC G-6).

use super::Engine;
use super::request::Collect;
use super::wire::{Label, Notice, Word};
use crate::collective::catalogue::CATALOGUE;
use crate::collective::{Algorithm, Blocks, Collective, Form, Tuning};
use crate::dispatch::Done;
use crate::endpoint::Endpoint;
use crate::geometry::GeometryId;

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
    pub fn collect<A>(&self, done: Done<A>) -> Collect<A> {
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
pub struct OnAnnounced<A: 'static> {
    /// The function. It starts the collective; until it has it is called again in each advance.
    pub call: &'static (dyn Fn(&mut A, Announcement, usize) + Sync),
    /// Handed to it as is.
    pub cookie: usize,
}

// Derived impls would ask the same of A.
impl<A> Clone for OnAnnounced<A> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<A> Copy for OnAnnounced<A> {}

impl Notice {
    pub(super) fn new<A>(collect: &Collect<A>, (algorithm, tuning): (Algorithm, Tuning)) -> Self {
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

    fn read(&self, label: &Label, geometry: GeometryId, origin: Endpoint) -> Option<Announcement> {
        let algorithm = CATALOGUE.iter().map(|entry| entry.algorithm);
        let tuning = Tuning { radix: self.radix.get(), chunk: self.chunk.get() as usize };
        Some(Announcement {
            geometry,
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

impl<A> Engine<A> {
    /// Says what is called when a collective begins that this endpoint was not instructed to start.
    pub(crate) fn on_announced(&mut self, on: Option<OnAnnounced<A>>) {
        self.on_announced = on;
    }

    /// Whether a collective may have been announced that has not begun here.
    #[inline]
    pub(crate) fn calls(&self) -> bool {
        self.calls
    }

    /// A collective that was announced and has not begun here, with what is to be called.
    pub(crate) fn announced(&mut self) -> Option<(OnAnnounced<A>, Announcement)> {
        let announced = self.early.iter().find_map(|early| {
            let key = early.label.key;
            let entry = self.geometries.iter().flatten().find(|entry| entry.id.0 == key.geometry);
            let geometry = entry.map_or(Some(GeometryId(key.geometry)), |entry| entry.name)?;
            let begun = self.slots.values().any(|slot| slot.is_of(key))
                || self.queue.has_announced(geometry, key.sequence);
            let tells = matches!(early.word, Word::Short | Word::Request);
            let notice = early.label.notice.filter(|_| tells && !begun)?;
            notice.read(&early.label, geometry, early.origin)
        });
        self.calls = announced.is_some();
        Some((self.on_announced?, announced?))
    }
}
