//! The log on a serial line that is slower than those who log (SPEC N-12).

use std::time::Duration;
use tests::{expect_clean, expect_report, on_both_architectures};
use xtask::{Arch, Board, Outcome, Run};

const DEADLINE: Duration = Duration::from_secs(120);
/// Lines of each hart. There is room for those of two, and for some of a third.
const LINES: &str = "80";
const HARTS: u8 = 4;

/// Harts that log; four log more than there is room for.
fn chatter(harts: u8, further: &[&str]) -> Run {
    let args = ["--lines", LINES].into_iter().chain(further.iter().copied());
    Run::new("chatter").torus("1").harts(harts).args(args).timeout(DEADLINE)
}

/// Every line came whole and in its hart's order, or was counted. Returns how many were dropped, and how many harts were heard.
#[track_caller]
fn expect_whole(outcome: &Outcome, harts: u8) -> (usize, usize) {
    let node = &outcome.nodes[0];
    let said: Vec<_> = node.lines.iter().filter(|line| line.text.contains(" says line ")).collect();
    let all = usize::from(harts) * LINES.parse::<usize>().unwrap();
    let mut heard = 0;
    for hart in 0..harts {
        let lines = said.iter().filter(|line| line.hart == hart);
        let numbers = lines.map(|line| {
            let number = line.text.strip_prefix(&format!("hart {hart} says line "));
            let whole = format!(" of {LINES}, which is as long as such lines are and has its end here");
            let number = number.and_then(|rest| rest.strip_suffix(&whole)?.parse::<usize>().ok());
            number.unwrap_or_else(|| panic!("{:?}: {}", line.text, outcome.explain()))
        });
        let numbers: Vec<_> = numbers.collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "hart {hart}: {numbers:?}");
        heard += usize::from(!numbers.is_empty());
    }
    let unlogged = node.unlogged() as usize;
    assert_eq!(said.len() + unlogged, all, "{unlogged} are told of: {}", outcome.explain());
    (unlogged, heard)
}

/// The line's interrupt reaches a hart; else harts that are idle look at the line, and all leaves as well.
#[track_caller]
fn expect_interrupts(outcome: &Outcome) {
    let up = outcome.nodes[0].up().expect("an up status");
    assert_eq!(up.number("answers"), Some(1), "{}", outcome.explain());
}

/// A panic while another hart has the serial line: how many of the lines that waited came, and how many were counted.
#[track_caller]
fn panic_without_the_line(arch: Arch, fault: &str) -> (Outcome, [usize; 2]) {
    let run = Run::new("faults").arch(arch).torus("1").harts(2).args([fault]).timeout(DEADLINE);
    let outcome = run.baud(115_200).icount(true).run().unwrap();
    expect_report(&outcome, 0, 101, &["a panic without the serial line, as asked for"]);
    let node = &outcome.nodes[0];
    let came = node.lines.iter().filter(|line| line.text.ends_with("waits for the serial line")).count();
    let unlogged = node.unlogged() as usize;
    (outcome, [came, unlogged])
}

/// The numbers of the job's last line: microseconds in which all was said, then bytes that waited, and for how many.
#[track_caller]
fn told(outcome: &Outcome) -> [u64; 3] {
    let line = outcome.nodes[0].lines.iter().find(|line| line.text.starts_with("said in "));
    let text = &line.unwrap_or_else(|| panic!("no last line: {}", outcome.explain())).text;
    let numbers = text.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok());
    let numbers: Vec<u64> = numbers.collect();
    [numbers[0], numbers[2], numbers[3]]
}

on_both_architectures! {
    fn n12_what_harts_log_at_a_time_comes_whole(arch) {
        let outcome = chatter(HARTS, &[]).arch(arch).run().unwrap();
        expect_clean(&outcome);
        assert_eq!(expect_whole(&outcome, HARTS), (0, usize::from(HARTS)), "{}", outcome.explain());
    }

    fn n12_no_hart_waits_for_a_serial_line(arch) {
        // An instruction takes a nanosecond of the node's time.
        let outcome = chatter(HARTS, &[]).arch(arch).baud(115_200).icount(true).run().unwrap();
        expect_clean(&outcome);
        let (unlogged, heard) = expect_whole(&outcome, HARTS);
        assert!(unlogged > 0 && heard >= 2, "{unlogged} dropped, {heard} heard: {}", outcome.explain());
        let [said, bytes, sent] = told(&outcome);
        assert!(sent >= bytes * 86, "{bytes} bytes left in {sent} us: the line is faster than it is said to be");
        assert!(said * 20 < sent, "all was said in {said} us, and sent in {sent} more: harts waited");
    }

    fn n12_a_panic_gets_out_behind_all_that_waits(arch) {
        let outcome = chatter(HARTS, &["--panic"]).arch(arch).baud(1_000_000).icount(true).run().unwrap();
        expect_report(&outcome, 0, 101, &["with 15", "bytes that wait"]);
        let (unlogged, heard) = expect_whole(&outcome, HARTS);
        assert!(unlogged > 0 && heard >= 2, "{unlogged} dropped, {heard} heard: {}", outcome.explain());
        let log = std::fs::read_to_string(outcome.logs.path().join("node-0.log")).unwrap();
        let places = ["says line", "REPORT panic", "STATUS end"].map(|word| log.rfind(word).expect(word));
        assert!(places.is_sorted(), "{places:?}: {}", outcome.explain());
    }

    fn n10_a_panic_waits_for_a_hart_that_has_the_serial_line(arch) {
        let (outcome, lines) = panic_without_the_line(arch, "held");
        assert_eq!(lines, [20, 0], "{}", outcome.explain());
    }

    fn n12_what_a_hart_that_keeps_the_serial_line_has_lost_is_counted(arch) {
        let (outcome, [came, unlogged]) = panic_without_the_line(arch, "kept");
        assert!(came < 20 && came + unlogged >= 20, "{came} came, {unlogged} counted: {}", outcome.explain());
        let told = format!("{unlogged} frames that waited for it are lost");
        assert!(outcome.reports().any(|line| line.contains(&told)), "{}", outcome.explain());
    }

    fn n12_what_waits_leaves_by_the_interrupt_of_the_line(arch) {
        // One hart neither sleeps nor logs until then.
        let outcome = chatter(HARTS, &["--busy"]).arch(arch).baud(115_200).run().unwrap();
        expect_clean(&outcome);
        expect_interrupts(&outcome);
        expect_whole(&outcome, HARTS);
    }
}

#[test]
fn n12_b6_what_waits_leaves_by_the_interrupt_of_each_boards_line() {
    for (board, harts) in [(Board::SifiveU, 4), (Board::Versal, 2), (Board::Zcu102, 4), (Board::VirtAia, 4)] {
        let outcome = chatter(harts, &["--busy"]).board(board).baud(115_200).run().unwrap();
        expect_clean(&outcome);
        expect_interrupts(&outcome);
        expect_whole(&outcome, harts);
    }
}
