//! The closing table of a run.

use std::time::Duration;

use crate::run::Outcome;

const HEAD: [&str; 8] = ["node", "exit", "sent", "received", "bytes out", "bytes in", "hops", "dropped"];

/// One row per node, then the totals.
///
/// A node's own counters come from its final status, which counts messages inside the node too; bytes and hops
/// are the fabric's.
pub fn render(outcome: &Outcome) -> String {
    let mut rows = vec![HEAD.map(str::to_owned)];
    let mut total = [0u64; 6];
    for (rank, node) in outcome.nodes.iter().enumerate() {
        let end = node.end();
        let number = |key: &str| end.and_then(|end| end.number::<u64>(key));
        let fabric = outcome.fabric.nodes.get(rank).cloned().unwrap_or_default();
        let exit = match (node.status(), node.exit) {
            (Some(status), _) => status.to_string(),
            (None, Some(exit)) => exit.to_string(),
            (None, None) => "?".to_owned(),
        };
        let cells = [
            number("sent").unwrap_or(fabric.injected.packets),
            number("received").unwrap_or(fabric.delivered.packets),
            fabric.injected.bytes,
            fabric.delivered.bytes,
            fabric.hops,
            number("dropped").unwrap_or(0) + fabric.dropped.total(),
        ];
        for (sum, cell) in total.iter_mut().zip(cells) {
            *sum += cell;
        }
        rows.push(row(rank.to_string(), exit, cells));
    }
    rows.push(row("all".into(), String::new(), total));
    let mut text = String::new();
    let widths: Vec<usize> =
        (0..HEAD.len()).map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0)).collect();
    for (index, row) in rows.iter().enumerate() {
        let cells: Vec<_> = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:>width$}")).collect();
        let line = cells.join("  ");
        text.push_str(line.trim_end());
        text.push('\n');
        if index == 0 {
            text.push_str(&"-".repeat(line.len()));
            text.push('\n');
        }
    }
    text.push_str(&format!("boot {}, job {}", time(outcome.boot_time), time(outcome.job_time)));
    text
}

fn row(name: String, exit: String, cells: [u64; 6]) -> [String; 8] {
    let [a, b, c, d, e, f] = cells.map(|cell| cell.to_string());
    [name, exit, a, b, c, d, e, f]
}

fn time(time: Option<Duration>) -> String {
    time.map_or("not reached".to_owned(), |time| format!("{:.2} s", time.as_secs_f64()))
}
