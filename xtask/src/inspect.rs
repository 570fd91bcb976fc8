//! `cargo xtask inspect`: what the nodes of living runs are doing (SPEC S-1, S-3).

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::run::living_runs;

/// What the node `node` is doing, or in a line each all nodes, of the living runs of this workspace, or of that called `run`
/// alone. `parent` has the folders of runs' sockets, if not where runs have them.
///
/// # Errors
/// No run is alive, or none of that name; there are several, and the node may be of any; the run has no such node, or gives no
/// answer.
pub fn inspect(parent: Option<&Path>, node: Option<u32>, run: Option<&str>) -> Result<String> {
    let (runs, names) = living_runs(parent, run)?;
    if let ([_, _, ..], Some(node)) = (&runs[..], node) {
        bail!("several runs are alive, of which may be node {node}: say --run, as one of {names}");
    }
    let mut text = String::new();
    for living in runs {
        text.push_str(&format!("{}: {}\n", living.name(), living.ask(node)?));
    }
    Ok(text)
}

/// Tells the same again and again, every so often, until no run is alive that it could be of, or `told` says that nobody reads.
///
/// # Errors
/// As [`inspect`], the first time.
pub fn watch(
    parent: Option<&Path>,
    node: Option<u32>,
    run: Option<&str>,
    every: Duration,
    mut told: impl FnMut(&str) -> bool,
) -> Result<()> {
    let mut text = inspect(parent, node, run)?;
    while told(&text) {
        std::thread::sleep(every);
        text = match inspect(parent, node, run) {
            Ok(text) => text,
            // It was about to end, or stands still, and is asked again.
            Err(error) if living_runs(parent, run).is_ok() => {
                format!("{error:#}\n")
            }
            Err(_) => break,
        };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Door, Question};

    /// What is said while `doors` are those of runs with two nodes.
    fn said(parent: &Path, doors: &mut [Door], node: Option<u32>, run: Option<&str>) -> String {
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| match inspect(Some(parent), node, run) {
                Ok(text) => text,
                Err(error) => format!("error: {error:#}"),
            });
            while !asking.is_finished() {
                doors.iter_mut().for_each(|door| {
                    door.answer(|node| match node {
                        Question::Node(node @ 0..2) => Ok(format!("node {node}")),
                        Question::Node(node) => Err(format!("there is no node {node}: the last one is 1")),
                        _ => Ok("two nodes".into()),
                    });
                });
                std::thread::yield_now();
            }
            asking.join().expect("an answer")
        })
    }

    #[test]
    fn s3_runs_are_told_apart_and_errors_name_what_is_wrong() {
        let parent = tempfile::tempdir().expect("a folder");
        let open = |name: &str| {
            let sockets = parent.path().join(format!("pamir-{name}"));
            std::fs::create_dir(&sockets).expect("a folder");
            Door::open(&sockets, &Path::new("logs").join(name)).expect("a door")
        };
        let none = "error: no run of this workspace is alive: `cargo xtask qemu JOB` starts one";
        assert_eq!(said(parent.path(), &mut [], None, None), none);
        let mut one = [open("run-1")];
        assert_eq!(said(parent.path(), &mut one, Some(1), None), "run-1: node 1\n");
        let [one] = one;
        let mut both = [one, open("run-2")];
        let mut said = |node, run| said(parent.path(), &mut both, node, run);
        assert_eq!(said(None, None), "run-1: two nodes\nrun-2: two nodes\n");
        assert_eq!(said(Some(0), Some("run-2")), "run-2: node 0\n");
        assert_eq!(said(Some(9), Some("run-2")), "error: run-2: there is no node 9: the last one is 1");
        let several = said(Some(0), None);
        assert!(several.starts_with("error: several runs") && several.ends_with("run-1, run-2"), "{several}");
        assert_eq!(said(None, Some("run-3")), "error: no run run-3 is alive; there is run-1, run-2");
    }

    #[test]
    fn s3_what_is_watched_is_told_again_until_the_run_has_ended() {
        let parent = tempfile::tempdir().expect("a folder");
        let sockets = parent.path().join("pamir-1");
        std::fs::create_dir(&sockets).expect("a folder");
        let watch = |told: &mut dyn FnMut(&str) -> bool| {
            super::watch(Some(parent.path()), Some(1), None, Duration::from_millis(1), told)
        };
        assert!(watch(&mut |_| panic!("nothing lives")).is_err());
        let mut door = Door::open(&sockets, Path::new("logs/run-1")).expect("a door");
        let answers = std::thread::scope(|scope| {
            let watching = scope.spawn(|| {
                let mut heard = Vec::new();
                watch(&mut |text| {
                    heard.push(text.to_owned());
                    true
                })
                .expect("it was there");
                heard
            });
            let mut answers = 0;
            while answers < 3 {
                door.answer(|_| {
                    answers += 1;
                    Ok(format!("answer {answers}"))
                });
                std::thread::yield_now();
            }
            drop(door);
            watching.join().expect("an end")
        });
        let whole = ["run-1: answer 1\n", "run-1: answer 2\n", "run-1: answer 3\n"];
        assert_eq!(answers[..3], whole, "{answers:?}");
    }

    #[test]
    fn s3_x1_what_a_killed_run_left_is_not_alive_nor_is_what_another_workspace_runs() {
        let parent = tempfile::tempdir().expect("a folder");
        let [killed, other] = ["pamir-killed", "pamir-other"].map(|name| parent.path().join(name));
        for folder in [&killed, &other] {
            std::fs::create_dir(folder).expect("a folder");
        }
        drop(Door::open(&killed, Path::new("logs/run-2")).expect("a door"));
        assert!(killed.join("door.sock").exists());
        let _other = Door::open(&other, Path::new("logs/run-3")).expect("a door");
        let record = std::fs::read_to_string(other.join("run.json")).expect("a record");
        let foreign = record.replace("\"workspace\":\"", "\"workspace\":\"/elsewhere");
        assert_ne!(record, foreign);
        std::fs::write(other.join("run.json"), foreign).expect("a record");
        assert!(
            inspect(Some(parent.path()), None, None).expect_err("none").to_string().starts_with("no run of")
        );
    }
}
