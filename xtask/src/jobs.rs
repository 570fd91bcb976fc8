//! The jobs that nodes can run: the examples of the crate `jobs`.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use kernel::usage::{Argument, Problem, Usage, Wrong};

use crate::workspace;

pub use ::jobs::usage;

/// The example that has all jobs but [`INSTRUCTIONS`] in one image; it is no job itself.
pub const EVERY: &str = "every";
/// The job of the bench. It keeps an image of its own: what it counts is to depend on no other job.
pub const INSTRUCTIONS: &str = "instructions";

/// A job: one file of `jobs/examples`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Job {
    /// The example's name.
    pub name: String,
    /// What it does, in one line: the first line of its documentation.
    pub summary: String,
}

fn folder() -> PathBuf {
    workspace::root().join("jobs/examples")
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

/// What arguments a job takes.
///
/// # Errors
/// The jobs cannot be listed.
pub fn help(name: &str) -> Result<String> {
    let summary = list()?.into_iter().find(|job| job.name == name).map(|job| job.summary);
    let mut text = format!("{name}: {}\n", summary.unwrap_or_default());
    let usage = usage(name);
    for word in usage.iter().flat_map(|usage| usage.words) {
        text.push_str(&format!("\n  {word}"));
    }
    for Argument { name, value, help } in usage.iter().flat_map(|usage| usage.arguments) {
        let value = match value.to_string() {
            value if value.is_empty() => value,
            value => format!(": {value}"),
        };
        text.push_str(&format!("\n  {name:<18} {help}{value}"));
    }
    if usage.is_some_and(|usage| usage.arguments.is_empty() && usage.words.is_empty()) {
        text.push_str("\n  It takes no arguments.");
    }
    Ok(text)
}

/// A word that a job does not take, and what it does.
pub fn explain(usage: &Usage, wrong: Wrong<'_>) -> String {
    let (job, word) = (usage.job, wrong.word);
    let names = || usage.arguments.iter().map(|argument| argument.name).collect::<Vec<_>>().join(", ");
    let words = || usage.words.iter().map(ToString::to_string).collect::<Vec<_>>().join(", then ");
    let of = |name: &str| usage.arguments.iter().find(|argument| argument.name == name);
    match wrong.problem {
        Problem::Unknown if usage.arguments.is_empty() => {
            format!("{word:?} is unknown: {job} takes no arguments")
        }
        Problem::Unknown => format!("{word:?} is unknown: {job} takes {}", names()),
        Problem::NoValue => {
            let value = of(word).map(|argument| argument.value.to_string()).unwrap_or_default();
            format!("{word} wants {value} behind it")
        }
        Problem::Value("", _) => format!("{word:?} is nothing that {job} knows: it takes {}", words()),
        Problem::NoWord => format!("{job} wants a word more, as in `{job} -- WORD`: {}", words()),
        Problem::Value(name, _) => {
            let value = of(name).map(|argument| argument.value.to_string()).unwrap_or_default();
            format!("{word:?} cannot be: {name} wants {value}")
        }
        Problem::Range(name, from, to) => {
            format!("{word:?} cannot be: {name} wants a number from {from} to {to} on this machine")
        }
    }
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
    use kernel::usage::Shape;
    use std::path::Path;

    const EIGHT: Shape = Shape { nodes: 8, harts: 2, tasks: 8, contexts: 4, tree: true };

    #[test]
    fn x2_the_one_image_has_every_job_but_that_of_the_bench() {
        let source = std::fs::read_to_string(folder().join(EVERY).with_extension("rs")).expect("its source");
        let modules = source.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
        let modules: Vec<_> = modules.map(|module| module.replace('_', "-")).collect();
        let names = list().expect("a list").into_iter().map(|job| job.name);
        let names: Vec<_> = names.filter(|name| name != INSTRUCTIONS).collect();
        assert_eq!(modules, names);
    }

    #[test]
    fn n4_every_job_is_described_with_all_its_arguments() {
        let described: Vec<_> = ::jobs::USAGE.iter().map(|usage| usage.job).collect();
        let names: Vec<_> = list().expect("a list").into_iter().map(|job| job.name).collect();
        assert_eq!(names, described);
        for usage in ::jobs::USAGE {
            let path = folder().join(usage.job);
            let inside = |path: &Path| {
                let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
                entries.map(|entry| entry.path()).collect::<Vec<_>>()
            };
            let mut files = inside(&path);
            if files.is_empty() {
                files = vec![path.with_extension("rs")];
            }
            // A module may have a folder of its own.
            files = files
                .into_iter()
                .flat_map(|file| if file.is_dir() { inside(&file) } else { vec![file] })
                .collect();
            let source: String =
                files.iter().map(|file| std::fs::read_to_string(file).expect("a source")).collect();
            for word in source.split('"').filter(|word| word.starts_with("--") && !word.contains(' ')) {
                let known = usage.arguments.iter().any(|argument| argument.name == word);
                assert!(known, "{} takes {word}, which is not described", usage.job);
            }
        }
    }

    #[test]
    fn n4_every_chapter_of_the_mpi_suite_can_be_asked_for() {
        let source = std::fs::read_to_string(folder().join("mpi-suite/main.rs")).expect("a source");
        let chapters: Vec<_> = source
            .lines()
            .filter_map(|line| line.trim().strip_prefix("(\"")?.split_once("\", ").map(|(name, _)| name))
            .collect();
        assert!(chapters.len() >= 10);
        let usage = usage("mpi-suite").expect("described");
        for chapter in chapters {
            assert!(usage.check(["--chapter", chapter], &EIGHT).is_ok(), "{chapter} is refused");
        }
    }

    #[test]
    fn n4_help_and_refusals_say_what_can_be() {
        let help = help("npb-is").expect("a job");
        assert!(help.contains("--class") && help.contains("S, W or A"), "{help}");
        let usage = usage("npb-is").expect("described");
        let wrong = usage.check(["--class", "C"], &EIGHT).expect_err("no such class");
        assert_eq!(explain(usage, wrong), "\"C\" cannot be: --class wants S, W or A");
        let usage = super::usage("coll").expect("described");
        let wrong = usage.check(["--root", "8"], &EIGHT).expect_err("no such rank");
        let said = "\"8\" cannot be: --root wants a number from 0 to 7 on this machine";
        assert_eq!(explain(usage, wrong), said);
    }

    #[test]
    fn n4_help_lists_every_word_that_a_job_knows() {
        let source = |path: &str| std::fs::read_to_string(folder().join(path)).expect("a source");
        let between = |text: &str, head: &str, tail: &str| -> Vec<String> {
            let words = text.split(head).skip(1).filter_map(|rest| rest.split_once('"'));
            words.filter(|(_, rest)| rest.starts_with(tail)).map(|(word, _)| word.to_owned()).collect()
        };
        let faults = between(&source("faults.rs"), "        \"", " =>");
        let recipes = between(&source("accumulate/cases.rs"), "name: \"", ",");
        let collectives = pami::collective::Collective::ALL.map(|it| it.name().to_owned()).to_vec();
        let algorithms = pami::collective::Algorithm::ALL.map(|it| it.name().to_owned()).to_vec();
        let of = [("faults", faults), ("accumulate", recipes), ("coll", collectives), ("coll", algorithms)];
        for (job, words) in of {
            let help = help(job).expect("a job");
            assert!(words.len() >= 7, "{job}: {words:?}");
            for word in words {
                let known = help.split([' ', ',', '\n']).any(|known| known == word);
                assert!(known, "{job} knows {word}, of which its help says nothing: {help}");
            }
        }
    }

    #[test]
    fn x1_jobs_are_listed_by_whole_sentences_without_ids_or_arguments() {
        for Job { name, summary } in list().expect("a list") {
            assert!(summary.ends_with('.') && !summary.contains("SPEC"), "{name}: {summary}");
            let refers = summary.contains("cargo xtask") || !summary.contains("`--");
            assert!(refers, "{name}: {summary}");
        }
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
