//! What a porter measures first on a board: the job `board`, and bare frames beside messages.

use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::json;

use super::Figures;
use super::ratios::{self, Row};
use crate::arch::Arch;
use crate::board::Board;
use crate::json;
use crate::progress::Voice;
use crate::run::{Outcome, Run};

const DEADLINE: Duration = Duration::from_secs(300);
/// Round trips of each way and size.
const ROUNDS: &str = "50";

/// Measures on `board`.
///
/// # Errors
/// If a run fails, or the board is not of this instruction set.
pub fn board(board: Board, arch: Option<Arch>, voice: &Voice) -> Result<Figures> {
    let arch = arch.unwrap_or(board.archs()[0]);
    let harts = (*board.harts().start()).max((*board.harts().end()).min(2));
    let run = |job: &str, torus: &str| -> Result<Outcome> {
        let args: &[&str] = if job == ratios::JOB { &["--rounds", ROUNDS] } else { &[] };
        let run = Run::new(job).board(board).arch(arch).torus(torus).harts(harts).args(args.iter().copied());
        let outcome = run.timeout(DEADLINE).voice(voice.clone()).run()?;
        if !outcome.success() {
            bail!("{job} on {board} failed\n{}", outcome.explain());
        }
        Ok(outcome)
    };
    let mut text =
        format!("{board}, {arch}: times of this host at this moment, where the board is emulated\n");
    // A line of the job's is what, a colon, and how much.
    let outcome = run("board", "1")?;
    let own: Vec<_> = outcome.lines().filter_map(|line| line.text.split_once(": ")).collect();
    own.iter().for_each(|(what, much)| text.push_str(&format!("{what:40} {much:>16}\n")));
    let outcome = run(ratios::JOB, "2")?;
    let rows: Vec<_> = outcome.lines().filter_map(|line| Row::parse(&line.text)).collect();
    let lines = ratios::lines(&rows)?;
    text.push_str(&ratios::table(&lines));
    let own: Vec<_> = own.iter().map(|(what, much)| json!({ "what": what, "value": much })).collect();
    let json = json!({
        "board": board.to_string(),
        "arch": arch.to_string(),
        "figures": own,
        "rows": ratios::values(&lines),
    });
    Ok(Figures { text, json: json::results("bench board", json) })
}
