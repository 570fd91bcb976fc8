//! The exchange of faces: each is put into the neighbour's region with a signal, which tells the neighbour that it is there.
//!
//! Regions have two slots for each face, which take turns: a neighbour that is a step ahead writes the other one, and
//! cannot be two ahead, since it waits for this task's signal. So has what goes out: a neighbour whose signal of a step has come
//! had the faces of the step before.

use super::field::Field;
use super::grid::{Blocks, FACES};
use super::meeting::{Meeting, wait_among_living};
use core::slice;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use kernel::{
    Active, Client, Completion, Context, Done, JobError, Layout, Message, OperationError, Payload, Pools,
    Put, Receive, Region, RegionHandle, Rights, SendError, Shared, Signal, Task,
};
use spin::Mutex;

/// Dispatch id of the signals, whose header is the number of the face at the target.
const FACE: u8 = 1;
const VALUE: usize = size_of::<f64>();

struct State {
    /// Steps whose faces have come.
    come: [AtomicU32; FACES],
    /// How the first operation that failed did.
    failed: Mutex<Option<OperationError>>,
}

/// One task's end of the exchange.
pub struct Halo {
    client: Client,
    context: Context,
    meeting: Meeting,
    state: &'static State,
    /// Tasks behind the faces.
    neighbours: [Option<u32>; FACES],
    handles: &'static [RegionHandle],
    region: Region,
    /// Faces on their way out.
    out: Shared,
    slot: usize,
    done: &'static (dyn Fn(&mut Active, Completion) + Sync),
    steps: u32,
}

impl Halo {
    /// Has room for faces of `values` values.
    pub fn new(task: &'static Task, blocks: &Blocks, values: usize) -> Result<Self, JobError> {
        let memory = task.memory();
        let mut neighbours = [None; FACES];
        for (face, neighbour) in neighbours.iter_mut().enumerate() {
            *neighbour = blocks.neighbour(face);
        }
        let state: &'static State =
            memory.place(State { come: [const { AtomicU32::new(0) }; FACES], failed: Mutex::new(None) })?;
        let come = memory.place(move |_: &mut Active, message: &Message| {
            let face = message.header.first().and_then(|&face| state.come.get(usize::from(face)));
            if let Some(come) = face {
                come.fetch_add(1, Relaxed);
            }
            Receive::Done
        })?;
        let done = memory.place(move |_: &mut Active, completion: Completion| {
            if let Err(error) = completion.result {
                state.failed.lock().get_or_insert(error);
            }
        })?;
        let (mut meeting, builder) = Meeting::prepare(task, task.client("halo3d").pools(Pools::LARGE))?;
        let mut client = builder.dispatch(FACE, come).create()?;
        let mut context = kernel::context(&mut client, 0)?;
        let slot = values * VALUE;
        let region =
            context.register(memory.buffer(2 * FACES * slot)?, Rights::WRITE).map_err(|(error, _)| error)?;
        let out = memory.buffer(2 * FACES * slot)?.share();
        let handles = meeting.handles(&client, slice::from_mut(&mut context), region.handle())?;
        Ok(Self { client, context, meeting, state, neighbours, handles, region, out, slot, done, steps: 0 })
    }

    /// Where a face of this step lies.
    fn place(&self, face: usize) -> usize {
        (self.steps as usize % 2 * FACES + face) * self.slot
    }

    /// Gives the neighbours their layers and takes in this task's.
    pub fn exchange(&mut self, field: &mut Field) -> Result<(), JobError> {
        self.steps += 1;
        let neighbours = self.neighbours;
        for (face, neighbour) in neighbours.into_iter().enumerate() {
            if let Some(neighbour) = neighbour {
                self.put(field, face, neighbour)?;
            }
        }
        let (state, steps) = (self.state, self.steps);
        self.wait(|_| {
            let mut come = state.come.iter().zip(neighbours);
            come.all(|(come, neighbour)| neighbour.is_none() || come.load(Relaxed) >= steps)
        })?;
        for face in (0..FACES).filter(|&face| neighbours[face].is_some()) {
            let (mut at, memory) = (self.place(face), self.region.memory());
            field.set_around(face, || {
                let mut bytes = [0; VALUE];
                // Inside: the slot has room for the face.
                let _ = memory.read(at, &mut bytes);
                at += VALUE;
                f64::from_ne_bytes(bytes)
            });
        }
        Ok(())
    }

    fn put(&mut self, field: &Field, face: usize, neighbour: u32) -> Result<(), JobError> {
        let start = self.place(face);
        let mut end = start;
        for value in field.face(face) {
            let _ = self.out.write(end, &value.to_ne_bytes());
            end += VALUE;
        }
        let target = self.client.endpoint(neighbour, 0)?;
        let (region, opposite) = (self.handles[neighbour as usize], face ^ 1);
        let offset = self.place(opposite) as u32;
        let signal = Signal { dispatch: FACE, header: (opposite as u64).to_le_bytes() };
        let (out, done) = (self.out.clone(), self.done);
        self.attempt(|active| {
            let put = Put {
                target,
                region,
                offset,
                layout: Layout::Contiguous,
                payload: Payload::Shared(out.clone(), start..end),
                payload_layout: Layout::Contiguous,
                local_done: None,
                remote_done: Some(Done { call: done, cookie: 0 }),
            };
            active.put_signal(put, signal).map_err(|(error, _)| error)
        })
    }

    /// The largest of everybody's values, none of which is negative.
    pub fn largest(&mut self, value: f64) -> Result<f64, JobError> {
        let all =
            self.meeting.meet(&self.client, slice::from_mut(&mut self.context), [value.to_bits(), 0])?;
        Ok(all.map(|words| f64::from_bits(words[0])).fold(0.0, f64::max))
    }

    /// Tries until there is room.
    fn attempt(
        &mut self,
        mut attempt: impl FnMut(&mut Active) -> Result<(), SendError>,
    ) -> Result<(), JobError> {
        let mut outcome = attempt(&mut self.context);
        while outcome == Err(SendError::Again) {
            self.wait(|active| {
                outcome = attempt(active);
                outcome != Err(SendError::Again)
            })?;
        }
        Ok(outcome?)
    }

    fn wait(&mut self, mut until: impl FnMut(&mut Active) -> bool) -> Result<(), JobError> {
        let failed = &self.state.failed;
        wait_among_living(slice::from_mut(&mut self.context), |contexts| match *failed.lock() {
            Some(error) => Err(error.into()),
            None => Ok(until(&mut contexts[0])),
        })
    }
}
