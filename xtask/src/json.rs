//! `--json`: results as files, for programs that go on with them (SPEC X-4). `docs/results.md` has their schema.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result};
use pami::topology::{Direction, TorusShape};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::console::Status;
use crate::fabric::{FaultCounts, NodeStatistics, Statistics, Traffic, TreeNodeStatistics, TreeStatistics};
use crate::progress::Voice;
use crate::run::{Ending, NodeOutcome, Outcome, Way};
use crate::{Mode, setup};

/// Writes `value` into `file`, for people too, and says so.
///
/// # Errors
/// The file cannot be written: its name is in the error.
pub fn write(file: &Path, value: &impl Serialize, voice: &Voice) -> Result<()> {
    let text = serde_json::to_string_pretty(value).context("results that are no JSON")?;
    text_file(file, &(text + "\n"), voice)
}

/// Writes `text` into `file`, and says so.
///
/// # Errors
/// The file cannot be written: its name is in the error.
pub fn text_file(file: &Path, text: &str, voice: &Voice) -> Result<()> {
    stream_file(file, voice, |to| to.write_all(text.as_bytes()))
}

/// Has `write` fill `file`, and says so.
///
/// # Errors
/// The file cannot be written: its name is in the error.
pub fn stream_file<T>(
    file: &Path,
    voice: &Voice,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<T>,
) -> Result<T> {
    let written = File::create(file).and_then(|made| {
        let mut to = BufWriter::new(made);
        let told = write(&mut to)?;
        to.flush()?;
        Ok(told)
    });
    let told = written.with_context(|| format!("cannot write {}", file.display()))?;
    voice.say(&format!("written to {}", file.display()));
    Ok(told)
}

/// Makes `file` if it is not there: that it cannot be written is better known before what it is to tell of.
///
/// # Errors
/// It cannot be written: its name is in the error.
pub fn check(file: &Path) -> Result<()> {
    let opened = File::options().append(true).create(true).open(file);
    opened.map(drop).with_context(|| format!("cannot write {}", file.display()))
}

/// Results `of` a kind, with what every file has: who made them, and when.
pub fn results(of: &str, results: Value) -> Value {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut all = json!({ "of": of, "pamir": env!("CARGO_PKG_VERSION"), "date": since.as_secs() });
    if let (Value::Object(all), Value::Object(results)) = (&mut all, results) {
        all.extend(results);
    }
    all
}

/// A run.
pub fn run(outcome: &Outcome) -> Value {
    let Outcome { asked, fabric, .. } = outcome;
    let emulator = asked.board.is_emulated().then(|| setup::emulator_version(asked.arch)).flatten();
    let rows = outcome.nodes.iter().enumerate();
    results(
        "run",
        json!({
            "job": asked.job,
            "arguments": asked.arguments,
            "board": asked.board.to_string(),
            "arch": asked.arch.to_string(),
            "emulator": emulator,
            "torus": asked.torus.to_string(),
            "harts": asked.harts,
            "mode": match asked.mode { Mode::Smp => "smp", Mode::Vn => "vn" },
            "faults": fabric.faults,
            "way": match outcome.way { Way::Segment => "segment", Way::Fabric(_) => "fabric", Way::Udp => "udp" },
            "ending": match outcome.ending {
                Ending::Finished => "finished",
                Ending::NodeFailed => "node failed",
                Ending::Deadline => "deadline",
                Ending::Interrupted => "interrupted",
            },
            "exit_code": outcome.exit_code(),
            "image_seconds": outcome.image_time.as_secs_f64(),
            "boot_seconds": seconds(outcome.boot_time),
            "job_seconds": seconds(outcome.job_time),
            "torus_steps": fabric.steps,
            "tree": fabric.tree.as_ref().map(tree),
            "complaints": fabric.complaints,
            "remarks": outcome.remarks,
            "nodes": rows.map(|(rank, it)| node(rank, it, asked.torus, fabric)).collect::<Vec<_>>(),
        }),
    )
}

fn seconds(time: Option<Duration>) -> Option<f64> {
    time.map(|time| time.as_secs_f64())
}

fn traffic(traffic: Traffic) -> Value {
    json!({ "packets": traffic.packets, "bytes": traffic.bytes })
}

fn node(rank: usize, node: &NodeOutcome, shape: TorusShape, fabric: &Statistics) -> Value {
    let counted = fabric.nodes.get(rank).cloned().unwrap_or_default();
    let links: Vec<_> = counted.links_of(shape, rank as u32).map(link).collect();
    let NodeStatistics { injected, delivered, hops, control, dropped, faults, .. } = counted;
    let FaultCounts { dropped: lost, corrupted, duplicated, delayed, reordered, cut } = faults;
    let below = fabric.tree.as_ref().and_then(|tree| tree.nodes.get(rank));
    json!({
        "rank": rank,
        "status": node.status(),
        "exit": node.exit.map(|exit| exit.to_string()),
        "failure": node.failure,
        "told": node.statuses.iter().map(told).collect::<Vec<_>>(),
        "injected": traffic(injected),
        "delivered": traffic(delivered),
        "hops": hops,
        "control": control,
        "dropped": dropped.total(),
        "faults": {
            "dropped": lost,
            "corrupted": corrupted,
            "doubled": duplicated,
            "delayed": delayed,
            "reordered": reordered,
            "link_down": cut,
        },
        "links": links,
        "tree": below.map(tree_node),
    })
}

/// A link of a node's router.
fn link((direction, to, Traffic { packets, bytes }): (Direction, u32, Traffic)) -> Value {
    json!({ "direction": direction.to_string(), "to": to, "packets": packets, "bytes": bytes })
}

fn tree(tree: &TreeStatistics) -> Value {
    json!({
        "steps": tree.steps,
        "class_routes": tree.opened,
        "refused": tree.refused,
        "shipped": tree.shipped,
    })
}

fn tree_node(node: &TreeNodeStatistics) -> Value {
    json!({
        "injected": traffic(node.injected),
        "delivered": traffic(node.delivered),
        "up": traffic(node.up),
        "down": node.down.map(traffic),
        "combined": node.combined,
        "delayed": node.delayed,
        "dropped": node.dropped.total(),
    })
}

/// A status in the node's own words; numbers as such.
fn told(status: &Status) -> Value {
    let value = |text: &str| text.parse::<i64>().map_or_else(|_| Value::from(text), Value::from);
    let values: Map<_, _> = status.values.iter().map(|(key, text)| (key.clone(), value(text))).collect();
    json!({ "hart": status.hart, "word": status.word, "values": values })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::run::Run;
    use crate::workspace;
    use std::collections::BTreeSet;

    /// Paths of all that is no object and no list.
    fn paths(value: &Value, path: &str, all: &mut BTreeSet<String>) {
        match value {
            // In a node's own words.
            Value::Object(_) if path.ends_with(".values") => drop(all.insert(path.to_owned())),
            Value::Object(fields) => {
                let dot = if path.is_empty() { "" } else { "." };
                fields.iter().for_each(|(key, value)| paths(value, &format!("{path}{dot}{key}"), all));
            }
            Value::Array(items) => items.iter().for_each(|item| paths(item, &format!("{path}[]"), all)),
            _ => drop(all.insert(path.to_owned())),
        }
    }

    /// The paths in the document's tables below a heading.
    fn told(document: &str, heading: &str) -> BTreeSet<String> {
        let (_, rest) = document.split_once(heading).expect("the heading");
        let rest = rest.split("\n## ").next().expect("a section");
        let cells = rest.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
        cells.flat_map(|cell| cell.trim_end_matches('`').split("`, `")).map(str::to_owned).collect()
    }

    /// `value` has what the document says below `heading`, and nothing else.
    pub(crate) fn same(value: &Value, heading: &str) {
        let document = workspace::root().join("docs/results.md");
        let document = std::fs::read_to_string(document).expect("the document");
        let mut known = told(&document, "Every file begins with");
        known.extend(told(&document, heading));
        let mut written = BTreeSet::new();
        paths(value, "", &mut written);
        let missing: Vec<_> = written.difference(&known).collect();
        let unwritten: Vec<_> = known.difference(&written).collect();
        assert!(missing.is_empty() && unwritten.is_empty(), "untold {missing:?}, unwritten {unwritten:?}");
    }

    #[test]
    fn x4_the_schema_of_a_run_is_as_the_document_says() {
        let asked = Run::new("stand-in").torus("2x2").args(["--class", "W"]).stand_in("/bin/true");
        let mut outcome = asked.run().expect("a run");
        outcome.fabric.complaints.push("a complaint".into());
        outcome.remarks.push("a remark".into());
        let values = [("status", "0"), ("way", "torus")].map(|(key, text)| (key.into(), text.into()));
        outcome.nodes[3].statuses.push(Status { hart: 1, word: "end".into(), values: values.into() });
        outcome.fabric.nodes[3].links[2] = Traffic { packets: 7, bytes: 900 };
        let written = run(&outcome);
        same(&written, "## `cargo xtask qemu`");
        assert_eq!(written["nodes"][3]["told"][0]["values"], json!({ "status": 0, "way": "torus" }));
        let link = json!({ "direction": "-y", "to": 1, "packets": 7, "bytes": 900 });
        assert_eq!(written["nodes"][3]["links"][2], link);
        assert_eq!(written["exit_code"], 1);
    }

    #[test]
    fn x4_a_file_that_cannot_be_written_is_named() {
        let file = Path::new("/no/such/folder/of/results.json");
        let error = format!("{:#}", check(file).unwrap_err());
        assert!(error.contains("cannot write") && error.contains("results.json"), "{error}");
        assert_eq!(format!("{:#}", write(file, &1, &Voice::quiet()).unwrap_err()), error);
    }
}
