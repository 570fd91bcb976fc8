//! Whether this machine can hold a run: looked at before anything boots.

use anyhow::{Result, bail};
use rings::segment::MOST_BELLS;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that a node takes of this process: two listeners, two streams, its console, two logs; one to spare.
const DESCRIPTORS: u64 = 8;
/// Those that everything else takes: with the memory that nodes share, and a bell for each hart.
const OTHERS: u64 = 64 + 1 + MOST_BELLS as u64;
/// What an emulator takes at least, in MiB: itself, and what a node touches of its memory while it boots.
const LEAST_MIB: u64 = 44;

/// Raises the limit of descriptors as far as needed and allowed.
///
/// # Errors
/// The reckoning, if the machine cannot hold so many nodes of `memory` MiB; `fresh` of them are still to be started.
pub fn check(nodes: u32, fresh: u32, memory: u32) -> Result<()> {
    let needed = descriptors(nodes);
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < needed) {
        if let Some(most) = limit.maximum.filter(|&most| most < needed) {
            bail!(
                "{nodes} nodes take {needed} descriptors ({DESCRIPTORS} each and {OTHERS}), and no more than {most} are \
                 allowed: raise `ulimit -Hn`"
            );
        }
        setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum: limit.maximum })?;
    }
    hold(fresh, memory, &std::fs::read_to_string("/proc/meminfo").unwrap_or_default())
}

fn descriptors(nodes: u32) -> u64 {
    DESCRIPTORS * u64::from(nodes) + OTHERS
}

/// Looks at the machine's memory, in the form of `/proc/meminfo`.
fn hold(nodes: u32, memory: u32, told: &str) -> Result<()> {
    let mib = |name: &str| {
        let line = told.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()).map(|kib| kib / 1024)
    };
    // A node touches only some of its memory, but the host promises none more than it has.
    if let Some(whole) = mib("MemTotal").map(|total| total + mib("SwapTotal").unwrap_or(0))
        && u64::from(memory) > whole
    {
        bail!(
            "a node of {memory} MiB is more than this machine has: {whole} MiB, swap included (see --memory)"
        );
    }
    let needed = LEAST_MIB * u64::from(nodes);
    match mib("MemAvailable") {
        Some(free) if free < needed => {
            bail!("{nodes} nodes take at least {needed} MiB ({LEAST_MIB} each), and {free} MiB are free")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x1_more_nodes_than_memory_holds_are_refused_with_the_reckoning() {
        let told = "MemTotal:  2048000 kB\nMemAvailable:    1024000 kB\nSwapTotal:  1024000 kB\n";
        let refusal = hold(100, 256, told).expect_err("too many").to_string();
        assert!(refusal.contains("4400 MiB") && refusal.contains("1000 MiB are free"), "{refusal}");
        assert!(hold(8, 256, told).is_ok() && hold(100, 256, "").is_ok() && hold(1, 3000, told).is_ok());
        let refusal = hold(1, 3001, told).expect_err("too large").to_string();
        assert!(refusal.contains("3001 MiB") && refusal.contains("has: 3000 MiB"), "{refusal}");
    }

    #[test]
    fn x1_the_limit_of_descriptors_is_raised_to_what_a_run_takes() {
        let before = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(200), maximum: before.maximum })
            .expect("a lower limit");
        check(60, 60, 256).expect("room for sixty nodes");
        let raised = getrlimit(Resource::Nofile).current.expect("a limit");
        assert!(raised >= descriptors(60), "{raised}");
        setrlimit(Resource::Nofile, before).expect("the limit as it was");
    }
}
