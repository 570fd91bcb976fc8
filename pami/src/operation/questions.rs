//! Which operations their targets are asked after, in a job of more endpoints than have records at each other
//! ([`crate::acks`]): a target without a place for an answer forgets it, and its origin asks.

use super::{Operations, Watched, bits};

/// Rounds of an advance between two looks at what has not been answered, while nobody sleeps.
const ROUNDS: u32 = 256;
/// Looks after which the time between two questions after one operation does not grow any more: half as many.
const MOST_LOOKS: u16 = 1 << 10;

/// What a context of such a job has besides for its operations.
pub(crate) struct Questions {
    /// Those that stand in no line until an older one to the same target is let in.
    held: u64,
    /// Of the last question.
    number: u32,
    /// Operations that are to be asked after.
    due: u64,
    /// Rounds until the next look.
    rounds: u32,
}

impl Questions {
    pub(crate) const NONE: Self = Self { held: 0, number: 0, due: 0, rounds: ROUNDS };

    /// Those that stand in no line until an older one to the same target is let in.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    /// It stands in no line.
    pub(crate) fn hold(&mut self, number: u8) {
        self.held |= 1 << number;
    }

    /// It does, or has ended.
    #[inline]
    pub(crate) fn let_go(&mut self, number: u8) {
        self.held &= !(1 << number);
    }

    /// One round more. Returns whether it is time to look at what has not been answered.
    pub(crate) fn is_time(&mut self) -> bool {
        self.rounds = self.rounds.checked_sub(1).unwrap_or(ROUNDS);
        self.rounds == 0
    }

    /// Time has passed.
    pub(crate) fn end_pause(&mut self) {
        self.rounds = 1;
    }

    /// Looks at those of the operations that `waiting` names. Each is asked after ever more seldom, so that nobody who is busy
    /// with something else has his FIFO filled.
    pub(crate) fn look<A>(&mut self, operations: &mut Operations<A>, waiting: u64) {
        for number in bits(operations.used()) {
            let mut watched = operations.watched(number);
            watched.looks = match watched.looks {
                _ if waiting >> number & 1 == 0 => 0,
                MOST_LOOKS => MOST_LOOKS / 2 + 1,
                looks => looks + 1,
            };
            operations.watch(number, watched);
            self.due |= u64::from(watched.looks > 1 && watched.looks.is_power_of_two()) << number;
        }
    }

    /// Fewest looks in vain at one of these operations.
    pub(crate) fn fewest_looks<A>(operations: &Operations<A>, waiting: u64) -> Option<u16> {
        bits(waiting).map(|number| operations.watched(number).looks).min()
    }

    /// Those of the operations `waiting` that are to be asked after, and the number of the question.
    pub(crate) fn next(&mut self, waiting: u64) -> (u64, u32) {
        self.due &= waiting;
        if self.due != 0 {
            self.number = self.number.wrapping_add(1).max(1);
        }
        (self.due, self.number)
    }

    /// Whether any are to be asked after.
    pub(crate) fn is_any_due(&self) -> bool {
        self.due != 0
    }

    /// A target was asked after these.
    pub(crate) fn note_asked<A>(&self, operations: &mut Operations<A>, asked: u64) {
        for number in bits(asked) {
            let watched = Watched { question: self.number, ..operations.watched(number) };
            operations.watch(number, watched);
        }
    }

    /// All targets of an operation were asked.
    pub(crate) fn asked_all(&mut self, number: u8) {
        self.due &= !(1 << number);
    }

    /// Those of these operations whose last question was number `question`.
    pub(crate) fn answered<A>(operations: &Operations<A>, question: u32, named: u64) -> u64 {
        let last = |&number: &u8| question != 0 && operations.watched(number).question == question;
        bits(named & operations.used()).filter(last).fold(0, |set, number| set | 1 << number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::Endpoint;
    use crate::operation::{Operation, OperationSlot};
    use std::boxed::Box;

    /// A table whose first places are in use.
    fn table(used: u64) -> Operations<()> {
        let mut operations =
            Operations::new(Box::leak(Box::new(core::array::from_fn::<_, 4, _>(|_| OperationSlot::new()))));
        for number in 0..used {
            start(&mut operations, number as u8, number + 1);
        }
        operations
    }

    fn start(operations: &mut Operations<()>, number: u8, order: u64) {
        operations.put(number, Operation { order, ..Operation::over(Endpoint::from_bits(0)) });
    }

    #[test]
    fn r1_who_does_not_answer_is_asked_ever_more_seldom_and_for_ever() {
        let (mut questions, mut table) = (Questions::NONE, table(2));
        let mut asked = std::vec::Vec::new();
        for look in 1..100_000u32 {
            questions.look(&mut table, 0b10);
            let (due, number) = questions.next(0b10);
            assert!(due & 1 == 0 && number as usize == asked.len() + usize::from(due != 0));
            if due != 0 {
                questions.note_asked(&mut table, due);
                questions.asked_all(1);
                asked.push(look);
            }
        }
        assert_eq!(asked[..4], [2, 4, 8, 16]);
        let gap = u32::from(MOST_LOOKS);
        assert!(asked.windows(2).all(|two| two[1] - two[0] <= gap) && 100_000 - asked.last().unwrap() <= gap);
    }

    #[test]
    fn r1_an_answer_counts_if_it_is_to_the_last_question_and_the_operation_has_not_moved_since() {
        let (mut questions, mut table) = (Questions::NONE, table(4));
        let ask = |questions: &mut Questions, table: &mut Operations<()>, waiting| {
            while !questions.is_any_due() {
                questions.look(table, waiting);
            }
            let (due, number) = questions.next(waiting);
            questions.note_asked(table, due);
            bits(due).for_each(|number| questions.asked_all(number));
            (due, number)
        };
        let (due, first) = ask(&mut questions, &mut table, 0b1111);
        assert_eq!((due, Questions::answered(&table, first, !0)), (0b1111, 0b1111));
        // One goes again, one ends, and one begins in its place.
        table.watch(1, Watched::default());
        table.free(2);
        table.free(3);
        start(&mut table, 3, 9);
        assert_eq!(Questions::answered(&table, first, !0), 0b0001);
        assert_eq!(Questions::answered(&table, 0, !0), 0);
        let (due, second) = ask(&mut questions, &mut table, 0b0010);
        let answered = |question| Questions::answered(&table, question, 0b0011);
        assert_eq!((due, answered(first), answered(second)), (0b0010, 1, 0b0010));
    }

    #[test]
    fn r1_a_question_that_found_no_room_is_asked_with_the_next_round() {
        let (mut questions, mut table) = (Questions::NONE, table(1));
        questions.look(&mut table, 1);
        questions.look(&mut table, 1);
        let (first, second) = (questions.next(1), questions.next(1));
        assert_eq!((first.0, second.0, second.1), (1, 1, first.1 + 1));
        // Unless it was answered meanwhile.
        assert_eq!((questions.next(0).0, questions.is_any_due()), (0, false));
    }
}
