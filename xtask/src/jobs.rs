//! The jobs that nodes can run: the kernel's examples.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use crate::firmware::EVERY;
use crate::workspace;

/// A job: one file of `kernel/examples`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Job {
    /// The example's name.
    pub name: String,
    /// What it does, in one line: the first line of its documentation.
    pub summary: String,
}

fn folder() -> PathBuf {
    workspace::root().join("kernel/examples")
}

/// All jobs, by name.
pub fn list() -> Result<Vec<Job>> {
    let folder = folder();
    let entries =
        std::fs::read_dir(&folder).with_context(|| format!("no jobs: cannot read {}", folder.display()))?;
    let mut jobs = Vec::new();
    for entry in entries {
        let path = entry?.path();
        // Cargo takes a file or a folder with a main.rs for an example.
        let source = if path.is_dir() { path.join("main.rs") } else { path.clone() };
        let Some(name) = path.file_stem().and_then(|stem| stem.to_str()) else { continue };
        // Has all of them, and is none itself.
        if name == EVERY {
            continue;
        }
        if source.extension().is_none_or(|extension| extension != "rs") || !source.is_file() {
            continue;
        }
        let text =
            std::fs::read_to_string(&source).with_context(|| format!("cannot read {}", source.display()))?;
        let summary = text.lines().find_map(|line| line.strip_prefix("//! ")).unwrap_or("").trim();
        jobs.push(Job { name: name.to_owned(), summary: summary.to_owned() });
    }
    jobs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(jobs)
}

/// Refuses a name that is no job's, and names those that look like it.
pub fn check(name: &str) -> Result<()> {
    let jobs = list()?;
    if jobs.iter().any(|job| job.name == name) {
        return Ok(());
    }
    let near = near(name, &jobs);
    let hint = if near.is_empty() {
        String::from("`cargo xtask jobs` lists all")
    } else {
        format!("did you mean {}?", near.join(" or "))
    };
    bail!("there is no job called {name}; {hint}")
}

fn near(name: &str, jobs: &[Job]) -> Vec<String> {
    let mut scored: Vec<_> = jobs.iter().map(|job| (strsim::jaro_winkler(name, &job.name), job)).collect();
    scored.retain(|(score, job)| *score > 0.75 || job.name.contains(name) || name.contains(&job.name));
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored.into_iter().take(3).map(|(_, job)| job.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x2_the_one_image_has_every_job_but_that_of_the_bench() {
        let source = std::fs::read_to_string(folder().join(EVERY).with_extension("rs")).expect("its source");
        let modules = source.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
        let modules: Vec<_> = modules.map(|module| module.replace('_', "-")).collect();
        let names = list().expect("a list").into_iter().map(|job| job.name);
        let names: Vec<_> = names.filter(|name| name != crate::bench::instructions::JOB).collect();
        assert_eq!(modules, names);
    }

    #[test]
    fn x1_a_mistyped_job_is_answered_with_the_near_names() {
        let jobs: Vec<_> = ["hello", "npb-is", "ping"]
            .map(|name| Job { name: name.to_owned(), summary: String::new() })
            .to_vec();
        assert_eq!(near("npb_is", &jobs), ["npb-is"]);
        assert_eq!(near("helo", &jobs), ["hello"]);
        assert_eq!(near("is", &jobs), ["npb-is"]);
        assert!(near("quicksort", &jobs).is_empty());
    }
}
