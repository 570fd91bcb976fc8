//! `cargo xtask service` on the command line: its nodes, and its jobs, as behind `cargo xtask qemu`.

use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::{Args, Parser};

use super::Files;
use super::nodes::Qemu;
use crate::arch::Arch;
use crate::board::Board;
use crate::progress::Voice;
use crate::run::Run;
use crate::service::{self, Then};
use crate::{jobs, json};

/// A job of `cargo xtask service`, as after `cargo xtask qemu`.
#[derive(Parser)]
#[command(name = "a job", no_binary_name = true)]
struct JobLine {
    #[command(flatten)]
    qemu: Qemu,
}

/// What nodes that stay are, or cannot do: a job does not say so.
const NOT_OF_A_JOB: [&str; 9] = [
    "--board",
    "--arch",
    "--harts",
    "--topology",
    "--memory",
    "--image",
    "--trace",
    "--gdb",
    "--qemu-option",
];

/// Nodes that stay.
#[derive(Args)]
pub(super) struct Service {
    /// So many nodes
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    nodes: u32,
    /// Board of the nodes
    #[arg(long, value_enum, default_value = "virt")]
    board: Board,
    /// Instruction set of the nodes [default: aarch64, or that of the board]
    #[arg(long, value_enum)]
    arch: Option<Arch>,
    /// Hardware threads per node
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=64))]
    harts: u8,
    /// Memory per node
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(40..))]
    memory: u32,
    /// Start the nodes anew for each job: what it takes without a service
    #[arg(long)]
    anew: bool,
    /// Write how all jobs went into FILE; docs/results.md has the schema
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where the lines are [default: the standard input]
    jobs: Option<PathBuf>,
}

impl Service {
    fn arch(&self) -> Arch {
        self.arch.unwrap_or(self.board.archs()[0])
    }

    /// Runs all jobs; the result is the exit code.
    pub(super) fn serve(&self, interrupt: &Arc<AtomicBool>, voice: &Voice) -> Result<u8> {
        self.json.as_deref().map_or(Ok(()), json::check)?;
        self.board.check(self.arch())?;
        let lines: Box<dyn BufRead + Send> = match &self.jobs {
            Some(file) => Box::new(BufReader::new(
                File::open(file).with_context(|| format!("cannot read {}", file.display()))?,
            )),
            None => {
                if std::io::stdin().is_terminal() {
                    voice.say("a job a line, as behind `cargo xtask qemu`: hello --torus 2; Ctrl-D when there are no more");
                }
                Box::new(BufReader::new(std::io::stdin()))
            }
        };
        let run = |words: &str| {
            let (run, files) = self.job(words)?;
            let then: Then = Box::new(move |outcome, voice| files.write(outcome, voice));
            Ok((run, then))
        };
        let served = service::serve(self.nodes, self.anew, lines, &run, interrupt, voice)?;
        voice.print(served.table().trim_end());
        self.json.as_ref().map_or(Ok(()), |file| json::write(file, &served.json(), voice))?;
        Ok(if interrupt.load(Ordering::Relaxed) { 130 } else { u8::from(!served.success()) })
    }

    /// The run that `words` ask of the nodes that stay, and what is to be written of it.
    fn job(&self, words: &str) -> Result<(Run, Files)> {
        let words: Vec<_> = words.split_ascii_whitespace().collect();
        let mut own = words.iter().take_while(|word| **word != "--");
        if let Some(word) = own.find(|word| {
            let name = word.split('=').next();
            NOT_OF_A_JOB.iter().any(|other| name == Some(other))
        }) {
            bail!(
                "`{word}` is none of a job's words: the nodes of a service are the same for all of its jobs"
            );
        }
        let JobLine { qemu } =
            JobLine::try_parse_from(words).map_err(|error| anyhow!("{}", error.render()))?;
        if let Some(job) = qemu.asks_help() {
            bail!("`cargo xtask qemu {job} -- --help` tells the arguments of {job}");
        }
        jobs::check(qemu.job())?;
        let files = qemu.files();
        files.check()?;
        let run = qemu.into_run().board(self.board).arch(self.arch()).memory(self.memory);
        Ok((run.harts(self.harts), files))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Cli, Verb};
    use clap::Parser as _;

    #[test]
    fn s1_a_job_of_a_service_is_as_after_qemu_but_for_what_its_nodes_are() {
        let words = ["cargo xtask", "service", "--nodes", "4", "--arch", "riscv64", "--harts", "3"];
        let Verb::Service(service) = Cli::try_parse_from(words).expect("words").verb else {
            panic!("no service")
        };
        let read = |words: &str| service.job(words).map(|(run, _)| format!("{run:?}"));
        let run = read("ping --torus 2 --mode vn -- --rounds 7").expect("a run");
        for words in
            ["job: \"ping\"", "arch: Riscv64", "harts: Some(3)", "torus: \"2\"", "\"--rounds\", \"7\""]
        {
            assert!(run.contains(words), "{words}: {run}");
        }
        let refused = |words: &str| read(words).expect_err("refused").to_string();
        for word in ["--harts", "--harts=2", "--trace", "--gdb=1"] {
            assert!(
                refused(&format!("ping {word} 2")).contains(&format!("`{word}` is none of a job's words"))
            );
        }
        assert!(refused("ping --tours 2").contains("--torus"));
        assert!(refused("pong").contains("there is no job called pong"));
        assert!(refused("ping -- --help").contains("cargo xtask qemu ping -- --help"));
        // Behind the two dashes they are the job's.
        assert!(read("ping -- --harts").is_ok());
    }
}
