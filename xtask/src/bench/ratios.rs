//! Ratios: what messages take of the host's time, beside what the same network takes for bare frames in the same run.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use super::Figures;
use crate::arch::Arch;
use crate::json;
use crate::progress::Voice;
use crate::run::Run;

/// The job that measures.
pub(super) const JOB: &str = "ping";
const DEADLINE: Duration = Duration::from_secs(300);
/// Names of its ways.
const TORUS: &str = "torus, 1 hop";
const BARE: &str = "bare frames, 1 hop";
const NODE: &str = "shared memory, context 1";
/// Bytes of a short message and of a long one.
const SHORT: u64 = 8;
const LONG: u64 = 1 << 20;

/// A row of the job's table.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Row {
    way: String,
    bytes: u64,
    half_round_trip_us: f64,
    per_second: f64,
}

impl Row {
    /// A line of the job's: the way, then four numbers.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace().rev().skip(1);
        let [per_second, half_round_trip_us] = [words.next()?.parse().ok()?, words.next()?.parse().ok()?];
        let bytes = words.next()?.parse().ok()?;
        let mut way: Vec<_> = words.collect();
        way.reverse();
        Some(Self { way: way.join(" "), bytes, half_round_trip_us, per_second })
    }

    /// Megabytes a second of one message after the other.
    fn megabytes(&self) -> f64 {
        self.bytes as f64 / self.half_round_trip_us
    }
}

/// A line of the table: what it is of, for messages, for bare frames.
pub(super) type TableLine = (&'static str, f64, f64);

/// Measures on `arch`, on two nodes of a hart each.
///
/// # Errors
/// If the run fails.
pub fn ratios(arch: Arch, rounds: u32, voice: &Voice) -> Result<Figures> {
    let run = Run::new(JOB).arch(arch).torus("2").harts(1).args(["--rounds", &rounds.to_string()]);
    let outcome = run.timeout(DEADLINE).voice(voice.clone()).run()?;
    if !outcome.success() {
        bail!("{JOB} on {arch} failed\n{}", outcome.explain());
    }
    let rows: Vec<_> = outcome.lines().filter_map(|line| Row::parse(&line.text)).collect();
    let lines = lines(&rows)?;
    let json = json!({ "arch": arch.to_string(), "rows": values(&lines) });
    Ok(Figures { text: table(&lines), json: json::results("bench ratios", json) })
}

/// Messages beside bare frames, of the job's rows.
pub(super) fn lines(rows: &[Row]) -> Result<[TableLine; 4]> {
    let row = |way: &str, bytes: Option<u64>| {
        let mut rows = rows.iter().filter(|row| row.way == way);
        let row = rows.rfind(|row| bytes.is_none_or(|bytes| row.bytes == bytes));
        let size = bytes.map_or("any".to_owned(), |bytes| bytes.to_string());
        row.with_context(|| format!("{JOB} printed no row for {way}, {size} bytes"))
    };
    let (short, long, within) = (row(TORUS, Some(SHORT))?, row(TORUS, Some(LONG))?, row(NODE, Some(LONG))?);
    // Its last row has the longest frames.
    let (frame, frames) = (row(BARE, Some(SHORT))?, row(BARE, None)?);
    let most = frames.per_second * frames.bytes as f64 / 1e6;
    Ok([
        ("half round trip of 8 B, us", short.half_round_trip_us, frame.half_round_trip_us),
        ("8 B, thousands a second", short.per_second / 1e3, frame.per_second / 1e3),
        ("1 MiB, MB/s", long.megabytes(), most),
        ("1 MiB within a node, MB/s", within.megabytes(), most),
    ])
}

/// The lines for programs.
pub(super) fn values(lines: &[TableLine]) -> Vec<Value> {
    let value = |&(what, messages, bare): &TableLine| json!({ "what": what, "messages": messages, "bare_frames": bare, "ratio": messages / bare });
    lines.iter().map(value).collect()
}

/// The lines for people.
pub(super) fn table(lines: &[TableLine]) -> String {
    let mut text =
        format!("{:<28} {:>10} {:>12} {:>8}\n", "over one hop", "messages", "bare frames", "ratio");
    for (what, message, bare) in lines {
        text += &format!("{what:<28} {message:>10.1} {bare:>12.1} {:>8.2}\n", message / bare);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn q4_ratios_are_made_of_the_jobs_rows() {
        let lines = "\
path                          bytes   half rtt us   messages/s       MB/s
shared memory, context 1    1048576     500.00         1223       1282
torus, 1 hop                      8        200.00         6510          0
torus, 1 hop                1048576      10000.00           37         38
bare frames, 1 hop                8        100.00       13020          0
bare frames, 1 hop             4000         60.00       100000        400
";
        let rows: Vec<_> = lines.lines().filter_map(Row::parse).collect();
        assert_eq!(rows.len(), 5);
        let lines = super::lines(&rows).unwrap();
        let text = table(&lines);
        let ratios: Vec<_> =
            text.lines().skip(1).map(|line| line.split_whitespace().last().unwrap()).collect();
        assert_eq!(ratios, ["2.00", "0.50", "0.26", "5.24"], "{text}");
        assert_eq!(values(&lines)[2]["ratio"], lines[2].1 / lines[2].2);
        let error = super::lines(&rows[..3]).unwrap_err().to_string();
        assert_eq!(error, "ping printed no row for bare frames, 1 hop, 8 bytes");
    }
}
