//! The I/O nodes of a run: a process of this tool for each processing set (SPEC S-2).

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use super::folder::Folder;
use super::settings::Run;
use crate::fabric::FabricHandle;
use crate::helper::{self, Group, Helper};
use crate::io_node::Space;

/// The most nodes that an I/O node serves, unless so many are asked for.
const SET: u32 = 64;
/// The name of this tool's program.
const OWN_NAME: &str = "xtask";

impl Run {
    /// How many I/O nodes there are; none if the job has no files.
    pub(super) fn io_node_count(&self, nodes: u32) -> Result<u32> {
        let Some(files) = &self.files else { return Ok(0) };
        if !self.has_tree() {
            bail!(
                "I/O nodes are on the tree network, which this run has not: leave out --files, or --no-tree and --plain; board {} has {}",
                self.board,
                if self.board.has_tree() { "one" } else { "none" }
            );
        }
        let count = files.io_nodes.unwrap_or(nodes.div_ceil(SET));
        if !(1..=nodes).contains(&count) {
            bail!("{nodes} nodes have 1 to {nodes} I/O nodes, not {count}");
        }
        Ok(count)
    }
}

/// The I/O nodes, by number. They end with this.
#[derive(Default)]
pub struct IoNodes(Vec<(Helper, PathBuf)>);

impl IoNodes {
    /// Starts those of `run`. What they complain about is in `folder`.
    ///
    /// # Errors
    /// The directory cannot be made, or a process not be started.
    pub(super) fn start(run: &Run, count: u32, fabric: &FabricHandle, folder: &Folder) -> Result<Self> {
        let Some(files) = &run.files else { return Ok(Self::default()) };
        let directory = &files.directory;
        std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
        let program = match &files.program {
            Some(program) => program.clone(),
            None => own_program()?,
        };
        let (first, space) = (fabric.nodes(), folder.path().join("files-space"));
        Space::create(&space, files.limit).with_context(|| format!("cannot write {}", space.display()))?;
        let start = |number| {
            let complaints = folder.path().join(format!("io-{number}.txt"));
            let log = std::fs::File::create(&complaints)
                .with_context(|| format!("cannot write {}", complaints.display()))?;
            let mut command = Command::new(&program);
            command.arg("io-node").arg("--socket").arg(fabric.io_socket(number).unwrap_or(Path::new("")));
            command.arg("--files").arg(directory);
            command.arg("--space").arg(&space).args(["--rank", &(first + number).to_string()]);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
            let helper = Helper::start(&mut command).with_context(|| format!("I/O node {number}"))?;
            Ok((helper, complaints))
        };
        (0..count).map(start).collect::<Result<_>>().map(Self)
    }

    /// Kills one.
    pub fn kill(&self, number: u32) {
        self.with(number, Group::end);
    }

    /// Has one stand still.
    pub fn pause(&self, number: u32) {
        self.with(number, Group::pause);
    }

    /// Has it go on.
    pub fn resume(&self, number: u32) {
        self.with(number, Group::resume);
    }

    fn with(&self, number: u32, what: impl FnOnce(Group)) {
        if let Some((helper, _)) = self.0.get(number as usize) {
            what(helper.group());
        }
    }

    /// Which have ended before the run did, and what they said.
    pub fn lost(&mut self) -> Vec<String> {
        // This tool ended them itself.
        if helper::over() {
            return Vec::new();
        }
        let lost = self.0.iter_mut().enumerate().filter_map(|(number, (helper, complaints))| {
            let status = helper.ended()?;
            let said = std::fs::read_to_string(complaints).unwrap_or_default();
            Some(format!("I/O node {number} ended, {status}: calls to it failed with EIO. {}", said.trim()))
        });
        lost.map(|text| text.trim_end().to_owned()).collect()
    }
}

/// This tool itself.
fn own_program() -> Result<PathBuf> {
    let program = std::env::current_exe().context("which program this is")?;
    let name = program.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    // One that was built anew meanwhile has this behind its name, and is there all the same.
    if name.strip_suffix(" (deleted)").unwrap_or(name) != OWN_NAME {
        bail!("{} cannot be an I/O node: say which program can", program.display());
    }
    Ok("/proc/self/exe".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Board;

    fn count(run: Run, nodes: u32) -> Result<u32> {
        run.io_node_count(nodes)
    }

    #[test]
    fn s2_nodes_have_as_many_io_nodes_as_they_need_or_as_many_as_are_wanted() {
        let run = || Run::new("io").files("target");
        assert_eq!([1, 8, 64, 65, 512].map(|nodes| count(run(), nodes).unwrap()), [1, 1, 1, 2, 8]);
        assert_eq!(count(run().io_nodes(2), 8).unwrap(), 2);
        assert_eq!(count(Run::new("io"), 8).unwrap(), 0);
        for wrong in [0, 9] {
            assert!(count(run().io_nodes(wrong), 8).unwrap_err().to_string().contains("1 to 8"));
        }
    }

    #[test]
    fn s2_a_run_without_a_tree_network_has_no_io_nodes_and_says_so() {
        let run = || Run::new("io").files("target");
        for run in [run().tree(false), run().plain(), run().board(Board::SifiveU)] {
            let why = count(run, 2).expect_err("no tree").to_string();
            assert!(why.contains("tree network"), "{why}");
        }
    }
}
