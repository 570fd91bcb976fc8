//! The closing table of a run.

use std::time::Duration;

use crate::fabric::{Statistics, TreeStatistics};
use crate::run::Outcome;

const HEAD: [&str; 9] =
    ["node", "exit", "in memory", "sent", "received", "bytes out", "bytes in", "hops", "dropped"];
const FAULTS_HEAD: [&str; 7] =
    ["node", "dropped", "corrupted", "doubled", "delayed", "reordered", "link down"];

const TREE_HEAD: [&str; 7] = ["node", "sent", "received", "up", "down", "combined", "dropped"];

/// One row per node, then the totals; then the tree's, if it was used; then the faults that were injected, if any were asked for.
///
/// A node's own counters come from its final status; bytes and hops are the fabric's. The README explains the columns.
pub fn render(outcome: &Outcome) -> String {
    let mut rows = vec![HEAD.map(str::to_owned).to_vec()];
    let mut total = [0u64; 7];
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
            number("local").unwrap_or(0),
            number("sent").unwrap_or(fabric.injected.packets),
            number("received").unwrap_or(fabric.delivered.packets),
            fabric.injected.bytes,
            fabric.delivered.bytes,
            fabric.hops,
            number("dropped").unwrap_or(0) + fabric.dropped.total(),
        ];
        rows.push(row([rank.to_string(), exit], cells, &mut total));
    }
    rows.push(row(["all".into(), String::new()], total, &mut [0; 7]));
    let mut text = columns(&rows);
    let job = match (outcome.job_time, outcome.waited) {
        (None, Some(waited)) => format!("not ended after {}", time(Some(waited))),
        (ended, _) => time(ended),
    };
    text.push_str(&format!("boot {}, job {job}", time(outcome.boot_time)));
    for (rank, node) in outcome.nodes.iter().enumerate().filter(|(_, node)| node.unlogged() > 0) {
        let unlogged = node.unlogged();
        text.push_str(&format!(
            "\nnode {rank} dropped {unlogged} log lines: its serial line is too slow for them"
        ));
    }
    if let Some(tree) = outcome.fabric.tree.as_ref().filter(|tree| tree.steps > 0) {
        text.push_str("\n\ntree network\n");
        text.push_str(&columns(&tree_rows(tree)));
        let (steps, opened, refused) = (tree.steps, tree.opened, tree.refused);
        text.push_str(&format!("{steps} steps, {opened} class routes set up, {refused} refused"));
    }
    if let Some(words) = &outcome.fabric.faults {
        text.push_str(&format!("\n\nfaults injected into what each node sent: {words}\n"));
        text.push_str(columns(&faults(&outcome.fabric)).trim_end());
    }
    text
}

/// Packets from and to each node, over the links from its router, and what its ALU made; in the fabric's count.
fn tree_rows(statistics: &TreeStatistics) -> Vec<Vec<String>> {
    let mut rows = vec![TREE_HEAD.map(str::to_owned).to_vec()];
    let mut total = [0u64; 6];
    for (rank, node) in statistics.nodes.iter().enumerate() {
        let down = node.down.iter().map(|link| link.packets).sum();
        let (sent, received) = (node.injected.packets, node.delivered.packets);
        let cells = [sent, received, node.up.packets, down, node.combined, node.dropped.total()];
        rows.push(row([rank.to_string()], cells, &mut total));
    }
    rows.push(row(["all".into()], total, &mut [0; 6]));
    rows
}

fn faults(statistics: &Statistics) -> Vec<Vec<String>> {
    let mut rows = vec![FAULTS_HEAD.map(str::to_owned).to_vec()];
    let mut total = [0u64; 6];
    for (rank, node) in statistics.nodes.iter().enumerate() {
        let it = node.faults;
        let cells = [it.dropped, it.corrupted, it.duplicated, it.delayed, it.reordered, it.cut];
        rows.push(row([rank.to_string()], cells, &mut total));
    }
    rows.push(row(["all".into()], total, &mut [0; 6]));
    rows
}

/// Names and numbers as cells; adds the numbers to `total`.
fn row<const N: usize, const M: usize>(
    names: [String; N],
    numbers: [u64; M],
    total: &mut [u64; M],
) -> Vec<String> {
    for (sum, number) in total.iter_mut().zip(numbers) {
        *sum += number;
    }
    names.into_iter().chain(numbers.map(|number| number.to_string())).collect()
}

/// Rows of as many cells as the first, which is the head, set in columns.
fn columns(rows: &[Vec<String>]) -> String {
    let cells = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..cells).map(width).collect();
    let mut text = String::new();
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
    text
}

fn time(time: Option<Duration>) -> String {
    time.map_or("not reached".to_owned(), |time| format!("{:.2} s", time.as_secs_f64()))
}
