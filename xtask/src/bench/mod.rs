//! `cargo xtask bench`: what things cost.
//!
//! Costs are counted in instructions of the node, under `-icount`: host time on a shared machine says little, but for the
//! ratio of two times of one run.

mod board;
pub mod instructions;
mod peers;
mod ratios;
mod table;

pub use board::board;
pub use instructions::{Count, measure};
pub use peers::{Options as PeersOptions, peers};
pub use ratios::ratios;
pub use table::{Committed, Complaint, UPDATE};

use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use crate::arch::Arch;
use crate::json;
use crate::progress::Voice;

/// What a measurement found: a table for people, and the same for programs.
pub struct Figures {
    /// The table.
    pub text: String,
    /// What `--json` writes.
    pub json: Value,
}

impl Figures {
    /// Prints the table, and writes the file if one is wanted.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn show(&self, file: Option<&Path>, voice: &Voice) -> Result<()> {
        voice.print(self.text.trim_end());
        file.map_or(Ok(()), |file| json::write(file, &self.json, voice))
    }
}

/// Counts on `arch`, or on all, and prints the counts beside the committed ones; with `update` commits them. Writes them into
/// the file `json` too. True if nothing is wrong with them.
///
/// # Errors
/// If a guest fails, or a file cannot be read or written.
pub fn instructions(arch: Option<Arch>, update: bool, json: Option<&Path>, voice: &Voice) -> Result<bool> {
    json.map_or(Ok(()), json::check)?;
    let mut committed = Committed::load()?;
    let mut all = Vec::new();
    for arch in Arch::ALL.into_iter().filter(|&it| arch.is_none_or(|arch| arch == it)) {
        all.push((arch, measure(arch, voice)?));
    }
    voice.print(committed.render(&all).trim_end());
    for (arch, count) in each(&all).filter(|(_, count)| count.varies()) {
        let (least, most) = count.spread;
        voice.print(&format!("repeats of {} on {arch}: {least} to {most}", count.row));
    }
    if let Some(file) = json {
        let row = |(arch, count): (Arch, &Count)| {
            json!({
                "row": count.row,
                "arch": arch.to_string(),
                "instructions": count.instructions,
                "least": count.spread.0,
                "most": count.spread.1,
                "committed": committed.get(&count.row, arch),
            })
        };
        let rows: Vec<_> = each(&all).map(row).collect();
        json::write(file, &json::results("bench instructions", json!({ "rows": rows })), voice)?;
    }
    if update {
        for (arch, counts) in &all {
            committed.update(*arch, counts);
        }
        let order = all.first().map_or(&[][..], |(_, counts)| counts);
        committed.save(&Committed::path(), order)?;
        voice.say(&format!("these are the committed counts now: {}", Committed::path().display()));
    }
    let mut good = true;
    for (arch, counts) in &all {
        for complaint in committed.complaints(*arch, counts) {
            voice.say(&format!("{arch}: {complaint}"));
            good = false;
        }
    }
    if !good && !update {
        voice.say(&format!("if that is meant to be: {UPDATE}"));
    }
    Ok(good)
}

/// All counts, each with its architecture.
fn each(all: &[(Arch, Vec<Count>)]) -> impl Iterator<Item = (Arch, &Count)> {
    all.iter().flat_map(|(arch, counts)| counts.iter().map(|count| (*arch, count)))
}
