//! Geometries that a job has from the start (SPEC G-1): those of the command line, looked at before anything boots.

use super::Run;
use anyhow::{Result, bail};
use pami::client::ConfiguredGeometry;

impl Run {
    /// The word of the nodes' personalities that says them.
    pub(super) fn geometries(&self) -> String {
        self.geometries.join(";")
    }

    /// Whether a job of so many tasks has them.
    pub(super) fn check_geometries(&self, tasks: u32) -> Result<()> {
        for read in ConfiguredGeometry::all(&self.geometries()) {
            let checked = read.and_then(|(word, geometry)| {
                geometry.check(tasks, self.contexts).map_err(|error| (word, error))
            });
            if let Err((word, error)) = checked {
                bail!("--geometry {word} cannot be: {error}");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g1_a_geometry_that_the_job_cannot_have_is_refused_before_anything_boots() {
        for (words, wrong, right) in [
            (&["npb.row:0-3:0-1", "npb.all:all"][..], "", ""),
            (&["npb.row:0-3", "npb.row:4"], "npb.row:4", "each once"),
            (&["row"], "row", "CLIENT.NAME:TASKS"),
            (&["npb.row:0-8"], "npb.row:0-8", "task 8 is not in the job"),
            (&["npb.row:0:4"], "npb.row:0:4", "no context 4"),
            (&["npb.row:0:0:scan=ring"], "npb.row:0:0:scan=ring", "scan has no algorithm ring"),
        ] {
            let run = words.iter().fold(Run::new("hello"), |run, word| run.geometry(*word));
            let refused = run.check_geometries(8).err();
            assert_eq!(refused.is_none(), wrong.is_empty(), "{words:?}");
            let said = refused.map(|refused| refused.to_string()).unwrap_or_default();
            assert!(said.contains(wrong) && said.contains(right), "{said}");
        }
    }
}
