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

use anyhow::{Context as _, Result};

use crate::arch::Arch;
use crate::progress::Voice;
use crate::workspace;

/// Counts on `arch`, or on all, and prints the counts beside the committed ones; with `update` commits them. True if
/// nothing is wrong with them.
///
/// # Errors
/// If a guest fails, or a file cannot be read or written.
pub fn instructions(arch: Option<Arch>, update: bool, voice: &Voice) -> Result<bool> {
    let mut committed = Committed::load()?;
    let mut all = Vec::new();
    for arch in Arch::ALL.into_iter().filter(|&it| arch.is_none_or(|arch| arch == it)) {
        all.push((arch, measure(arch, voice)?));
    }
    let text = committed.render(&all);
    voice.print(text.trim_end());
    let spreads = all.iter().flat_map(|(arch, counts)| counts.iter().map(move |count| (arch, count)));
    let spreads = spreads.filter(|(_, count)| count.varies()).map(|(arch, count)| {
        let (least, most) = count.spread;
        format!("repeats of {} on {arch}: {least} to {most}\n", count.row)
    });
    let text = text + &spreads.collect::<String>();
    let folder = workspace::target().join("pamir");
    let file = folder.join("instructions.txt");
    std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::write(&file, &text))
        .with_context(|| format!("cannot write {}", file.display()))?;
    voice.say(&format!("written to {}", file.display()));
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
