//! The lists of a geometry: which algorithms there are, which are valid, which is chosen (SPEC G-2).

use super::arguments::Arguments;
use super::bench::Bench;
use super::case::Case;
use core::fmt::Write;
use heapless::String;
use kernel::JobError;
use pami::collective::Collective;

pub fn print(bench: &Bench, arguments: &Arguments) -> Result<(), JobError> {
    let first = bench.query(&Case { bytes: 8, ..bench.case() })?;
    let (metadata, placement) = (first.metadata, first.placement);
    let mut line = String::<200>::new();
    let _ = write!(
        line,
        "{} ranks, {} of a node, {} links at most between two",
        placement.size, placement.per_node, placement.diameter
    );
    for (holds, name) in [
        (metadata.size.is_power_of_two(), "power of two"),
        (metadata.rectangle, "rectangle"),
        (metadata.domains, "affinity domains"),
        (metadata.ordered_domains, "ranks in their order"),
        (metadata.node_ranges, "ranks of each node together"),
        (metadata.class_route, "class route"),
    ] {
        let _ = write!(line, "; {}{name}", if holds { "" } else { "no " });
    }
    defmt::println!("{=str}", line.as_str());
    let judges = bench.judges().ok_or(JobError::Other("a rank is no member of coll.verdict"))?;
    line.clear();
    let _ = write!(line, "configured: verdict of {} ranks, {}", judges.size, judges.algorithms);
    defmt::println!("{=str}", line.as_str());
    for &what in &arguments.collectives {
        let case = Case { what, bytes: 8, root: arguments.root, ..bench.case() };
        let query = bench.query(&case)?;
        for always in [true, false] {
            line.clear();
            let _ = write!(line, "{what:<14} {}", if always { "always valid:" } else { "must be asked:" });
            for candidate in query.candidates().filter(|it| it.entry.is_always_valid() == always) {
                let _ = write!(line, " {}", candidate.entry.algorithm);
                if let Err(unmet) = candidate.valid {
                    let _ = write!(line, " (no: {unmet})");
                }
            }
            defmt::println!("{=str}", line.as_str());
        }
        line.clear();
        let _ = write!(line, "{what:<14} chosen:");
        let sizes = if what == Collective::Barrier { &[0][..] } else { &arguments.sizes };
        for &bytes in sizes {
            let chosen = bench.query(&Case { bytes, ..case })?.choose(None);
            let chosen = chosen.map_err(|_| JobError::Other("nothing is valid"))?;
            let _ = write!(line, " {bytes} B {};", chosen.algorithm);
        }
        defmt::println!("{=str}", line.as_str());
    }
    Ok(())
}
