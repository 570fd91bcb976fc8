//! What instructions are for, as the head of the job that counts them tells, adds up to what is committed.

use std::path::Path;

use xtask::Arch;
use xtask::bench::Committed;

use crate::text;

/// Rows with their figures, as in "`post` (12, 9)": those of aarch64, then of riscv64.
fn told(head: &str) -> Vec<(&str, [u32; 2])> {
    let figures = |rest: &str| {
        let (first, second) = rest.strip_prefix(" (")?.split_once(')')?.0.split_once(", ")?;
        Some([first.parse().ok()?, second.parse().ok()?])
    };
    let words: Vec<_> = head.split('`').collect();
    words.windows(2).filter_map(|pair| Some((pair[0], figures(pair[1])?))).collect()
}

/// What is told and differs from what is committed by more than 5 %, which is how far a row may go without being committed.
fn stale(head: &str, committed: &Committed) -> Vec<String> {
    let mut wrong = Vec::new();
    for (row, figures) in told(head) {
        for (arch, figure) in Arch::ALL.into_iter().zip(figures) {
            match committed.get(row, arch) {
                Some(count) if figure.abs_diff(count) <= (count / 20).max(1) => {}
                Some(count) => wrong.push(format!("{row} on {arch}: told {figure}, committed {count}")),
                None => wrong.push(format!("{row} is no row of {arch}")),
            }
        }
    }
    wrong
}

#[test]
fn q4_what_instructions_are_for_adds_up_to_what_is_committed() {
    let head = text(Path::new("jobs/examples/instructions/main.rs"));
    let committed = Committed::load().expect("the table");
    assert!(told(&head).len() >= 10, "{:?}", told(&head));
    assert_eq!(stale(&head, &committed), Vec::<String>::new());
    let wrong = stale("`post` (1200, 12), and `no-such-row` (1, 1), `post` alone", &committed);
    assert!(wrong.len() >= 3 && wrong[0].starts_with("post on aarch64: told 1200"), "{wrong:?}");
}
