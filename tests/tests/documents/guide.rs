//! The porter's guide counts and lists what there is (SPEC B-8).

use super::markdown::files;
use super::{is_letter, root, text};
use std::path::Path;

#[test]
fn x3_b8_the_guide_has_every_step_of_the_suite() {
    let guide = std::fs::read_to_string(root().join("PORTING.md")).expect("the guide");
    assert!(guide.lines().count() <= 180, "over three pages");
    let mut rest = guide.as_str();
    // From PAMI on nothing is new to a porter: one row has all of it.
    for (name, jobs) in xtask::conform::steps().take_while(|(name, _)| *name != "PAMI") {
        let row = format!("| {name} | ");
        let (_, behind) =
            rest.split_once(&row).unwrap_or_else(|| panic!("no row of {name}, or not in order"));
        let cell = behind.split(" | ").next().unwrap();
        assert!(jobs.iter().all(|job| cell.contains(job)), "{name}: {cell} is not {jobs:?}");
        rest = behind;
    }
}

/// Methods of a trait, in the source that defines it.
fn methods(source: &str, name: &str) -> Option<usize> {
    let rest = source.split(&format!("trait {name}")).nth(1).filter(|rest| !rest.starts_with(is_letter))?;
    let body = rest.split("\n}\n").next()?;
    let is_method = |line: &&str| line.starts_with("    fn ") || line.starts_with("    unsafe fn ");
    Some(body.lines().filter(is_method).count())
}

#[test]
fn x5_b8_the_guide_counts_the_methods_of_traits() {
    let guide = text(Path::new("PORTING.md"));
    let sources: Vec<_> = files(&root(), &["rs"]).iter().map(|name| text(name)).collect();
    let mut traits = 0;
    for row in guide.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let count = cells[2].split(',').next().and_then(|count| count.parse::<usize>().ok());
        let Some(count) = count else { continue };
        let name = cells[1].trim_matches('`');
        let found = sources.iter().find_map(|source| methods(source, name));
        assert_eq!(found, Some(count), "methods of {name}");
        traits += 1;
    }
    assert!(traits >= 3, "{traits} traits");
}
