//! Questions after what has not been answered, in a job of more endpoints than have records at each other ([`crate::acks`]).

use super::Active;
use crate::acks::{PAUSE_NS, bit_of, named};
use crate::balance::chunk::Instruction;
use crate::balance::state::ProcessRequest;
use crate::device::Port;
use crate::endpoint::Endpoint;
use crate::error::OperationError;
use crate::fence::FENCED_AT_ONCE;
use crate::operation::{Action, Awaits, Blocked, Questions, Watched, bits, message_number};
use crate::packet::{Envelope, Kind};
use crate::receive::Owes;
use heapless::Vec;
use zerocopy::IntoBytes;

/// Longest pause of who waits for an answer, in [`PAUSE_NS`].
const MOST_PAUSES: u64 = 64;

impl<P: Port> Active<P> {
    /// Holds what asks to be let in, or a fence, behind an older message to the same target that asks. Returns whether it has
    /// to.
    #[inline]
    pub(crate) fn holds(&mut self, number: u8) -> bool {
        let holds = self.acks.is_crowded() && self.operations.is_behind_asking(number);
        if holds {
            self.questions.hold(number);
        }
        holds
    }

    /// Has a fence stand in line, if it does not have to be held.
    #[cold]
    #[inline(never)]
    pub(crate) fn hold_or_line_up(&mut self, number: u8) {
        if !self.holds(number) {
            self.operations.line_up(number);
        }
    }

    /// Has those stand in line that nothing holds any more.
    fn release_held(&mut self) {
        for number in bits(self.questions.held()) {
            if !self.operations.is_behind_asking(number) {
                self.questions.let_go(number);
                self.operations.line_up_again(number);
                self.operations.order_line();
            }
        }
    }

    /// Lets go what was held, and asks after what has not been answered. Returns the number of packets that went out.
    #[cold]
    #[inline(never)]
    pub(crate) fn look_after(&mut self, blocked: &mut Blocked) -> usize {
        self.acks.wait_for_questions(|| self.port.now_ns());
        self.release_held();
        let time = self.questions.is_time();
        if !time && !self.questions.is_any_due() {
            return 0;
        }
        let waiting = self.waiting_for_contexts();
        if time {
            self.questions.look(&mut self.operations, waiting);
        }
        let mut events = 0;
        let (due, question) = self.questions.next(waiting);
        for number in bits(due) {
            let targets =
                self.operations.get(number).map_or(Vec::new(), |operation| match &operation.action {
                    Action::Fence(state) => state.owed().iter().copied().collect(),
                    _ => Vec::<_, FENCED_AT_ONCE>::from_iter([operation.target]),
                });
            let mut all = true;
            for target in targets {
                let set = bits(due).filter(|&other| self.waits_for(other, target));
                let set = set.fold(0u64, |set, other| set | 1 << other);
                // Asked with the first of them.
                if set.trailing_zeros() == u32::from(number) {
                    let asked = self.ask_after(target, set, question, blocked);
                    events += usize::from(asked);
                    all &= asked;
                } else {
                    let path = self.transport.locate(&self.port, target);
                    all &= path.map_or(true, |path| !blocked.contains(&path));
                }
            }
            if all {
                self.questions.asked_all(number);
            }
        }
        events
    }

    /// Asks a target after operations. Returns `false` if there was no room.
    fn ask_after(&mut self, target: Endpoint, set: u64, question: u32, blocked: &mut Blocked) -> bool {
        // What goes to one that died ends by itself.
        let Ok(path) = self.transport.locate(&self.port, target) else { return true };
        let asked = self.teller((path, target), blocked).tell((Kind::Query, 0, question), &set.to_le_bytes());
        if asked {
            self.questions.note_asked(&mut self.operations, set);
        }
        asked
    }

    /// Operations that wait for answers of contexts.
    fn waiting_for_contexts(&self) -> u64 {
        let waits = |&number: &u8| {
            self.operations.see(number).is_some_and(|operation| match &operation.action {
                Action::Fence(state) => !state.owed().is_empty(),
                _ => operation.queued && operation.awaits.is_of_context(),
            })
        };
        bits(self.operations.used()).filter(waits).fold(0, |set, number| set | 1 << number)
    }

    /// Whether an operation waits for the answer of `target`, which has all of its packets so far.
    fn waits_for(&self, number: u8, target: Endpoint) -> bool {
        self.operations.see(number).is_some_and(|operation| match &operation.action {
            Action::Fence(state) => state.waits_for(target),
            _ => operation.target == target,
        })
    }

    /// When one who waits for an answer has to look again.
    pub(crate) fn question_ns(&self) -> Option<u64> {
        if !self.acks.is_crowded() {
            return None;
        }
        let looks = Questions::fewest_looks(&self.operations, self.waiting_for_contexts())?;
        Some(PAUSE_NS * u64::from(looks).clamp(1, MOST_PAUSES))
    }

    /// An origin asks what became of operations. Those that something is still to be told of it hears of without.
    pub(crate) fn query_arrived(&mut self, envelope: &Envelope, data: &[u8]) {
        let Envelope { origin, message, .. } = *envelope;
        let Some(asked) = named(data).filter(|_| self.acks.is_crowded()) else {
            return self.transport.protocol_error();
        };
        let half = self.incoming.get(origin).filter(|half| half.owes != Owes::Nothing);
        let half = half.and_then(|half| bit_of(half.message)).unwrap_or(0);
        let known = half | self.receive_requests.known(origin) | self.unexpected.known(origin);
        let known = known | self.acks.record(origin).map_or(0, |record| record.known(asked));
        if asked & !known != 0 {
            self.owe_unknown(origin, asked & !known, message);
        }
    }

    /// A target knows nothing of operations, and what it knew of them it has told. So messages that ask were not looked at,
    /// fences were not noted; of other messages the end was, but no answer.
    pub(crate) fn unknown_arrived(&mut self, envelope: &Envelope, data: &[u8]) {
        let Envelope { origin, message, dispatch, .. } = *envelope;
        let Some(unknown) = named(data).filter(|_| self.acks.is_crowded()) else {
            return self.transport.protocol_error();
        };
        for number in bits(Questions::answered(&self.operations, message, unknown)) {
            if !self.waits_for(number, origin) {
                continue;
            }
            let asks = self.operations.is_asking(number);
            let Some(operation) = self.operations.get(number) else { continue };
            match &mut operation.action {
                Action::Fence(state) => {
                    state.ask_again(origin);
                    operation.queued = false;
                    self.operations.line_up_again(number);
                }
                Action::Send(state) if asks => {
                    state.rewind();
                    operation.queued = false;
                    self.operations.watch(number, Watched::default());
                    self.operations.line_up_again(number);
                }
                Action::Process(_) => self.ask_end(number),
                // The target gets the data of a rendezvous, and says so itself.
                Action::Send(state) if state.is_rendezvous() => {}
                // Of all others the target has taken in what it was sent. Of refused ones it knows that some were.
                _ if operation.awaits == Awaits::Signal && dispatch != 0 => {
                    self.answered(number, Err(OperationError::Forgotten));
                }
                _ => self.answered(number, Ok(())),
            }
        }
        self.operations.order_line();
        self.note_work();
    }

    /// Has the target of a message to be processed say once more what became of it: a last chunk of no elements is refused as
    /// any other of the message. Without room for it the next question is answered the same.
    fn ask_end(&mut self, number: u8) {
        let origin = self.transport.me();
        let Some(operation) = self.operations.get(number) else { return };
        let (target, message) = (operation.target, message_number(operation.order, number.into()));
        let (Some(path), Action::Process(state)) = (operation.path, &operation.action) else { return };
        let ProcessRequest { region, offset, total, recipe, .. } = *state.message();
        let wanted = state.wanted();
        let instruction =
            Instruction { region, offset, recipe, left: wanted, wanted, last: true, lent: false };
        let envelope =
            Envelope { kind: Kind::Chunk, dispatch: 0, origin, target, message, offset: total, total };
        if self.port.push_bcopy(path, &envelope, instruction.encode().as_bytes(), &[]).is_ok() {
            self.operations.watch(number, Watched::default());
        }
    }
}
