//! The service node's question whether this node lives, and the answer (SPEC R-2).
//!
//! It asks by a byte on the console's line, whose interrupt is the only one that a hart takes while it runs: whatever its task
//! does, it need not call anything. The interrupt goes from hart to hart, each sends it on to the next, and the last one reads
//! the byte and answers. So an answer says of every hart that it takes interrupts, be it busy or asleep, and a hart that does
//! not keeps the question until it does again.
//!
//! Nobody asks while there is nothing to doubt (`xtask/src/run/life.rs`), so nothing ticks: a loop that nobody asks about takes
//! the same instructions each time (SPEC N-8, N-9).

use crate::devicetree::Machine;
use crate::{arch, board, console, links};

/// Lets the service node ask, and the line's interrupt tell of room. Returns whether they can.
pub(crate) fn start(machine: &Machine) -> bool {
    let interrupt = machine.uart.and_then(|uart| uart.interrupt);
    if interrupt.is_none_or(|interrupt| board::take_line(interrupt).is_err()) {
        console::look_when_idle();
        return false;
    }
    console::listen();
    board::route_line(0);
    true
}

/// This hart has taken the line's interrupt, and is to `complete` it when the line has taken it back.
pub(crate) fn asked(complete: impl FnOnce()) {
    if !console::serve() {
        return complete();
    }
    // The question is this hart's alone.
    let next = arch::hart() + 1;
    let is_last = arch::machine().is_none_or(|machine| next >= machine.harts.len());
    if is_last {
        console::drain();
    } else {
        console::hold();
    }
    complete();
    board::route_line(if is_last { 0 } else { next });
    if is_last {
        links::look();
        console::answer();
    } else {
        // The line interrupts anew, as the byte is still there.
        console::listen_again();
    }
}
