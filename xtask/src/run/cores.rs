//! The cores of this machine: which this process may run on, which harts that are threads are bound to, and where each is
//! (SPEC H-1, A-2).
//!
//! All of it is what the host's sysfs says. What that does not say is not there: a machine without caches, sockets or NUMA nodes
//! in it is one chip of so many cores.
//!
//! | domain | cores of one |
//! |---|---|
//! | core | that are threads of one core (`thread_siblings_list`) |
//! | chip | that share the last level of cache and a NUMA node |
//! | processor | that are of one socket (`physical_package_id`) |

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use pami::affinity::HartPlace;
use rustix::thread::{CpuSet, sched_getaffinity};

/// Where the host tells of its cores and NUMA nodes.
const SYSTEM: &str = "/sys/devices/system";
/// Numbers of cores are below this.
const MOST: usize = CpuSet::MAX_CPU;

/// The cores of a machine.
pub struct Cores {
    /// Its folders `cpu` and `node` are the host's.
    system: PathBuf,
    /// Those that this process may run on: they are online, and neither `taskset` nor a container forbids them.
    allowed: Vec<usize>,
}

/// Where a core is. The order of these is that of harts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
struct Spot {
    socket: usize,
    /// The NUMA node, and the first core that shares the last level of cache.
    chip: (usize, usize),
    /// The first thread of the core.
    core: usize,
    thread: usize,
}

/// What two harts next to each other do not share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Step {
    Thread,
    Core,
    Chip,
    Socket,
}

impl Spot {
    fn step(self, other: Self) -> Step {
        match (self.socket == other.socket, self.chip == other.chip, self.core == other.core) {
            (false, ..) => Step::Socket,
            (_, false, _) => Step::Chip,
            (.., false) => Step::Core,
            _ => Step::Thread,
        }
    }
}

impl Cores {
    /// This machine's.
    ///
    /// # Errors
    /// The host does not say where this process may run.
    pub fn of_this_machine() -> Result<Self> {
        let set = sched_getaffinity(None).context("the host does not say on which cores this may run")?;
        let allowed = (0..MOST).filter(|&core| set.is_set(core)).collect();
        Ok(Self { system: SYSTEM.into(), allowed })
    }

    /// The cores of so many nodes of `harts` harts, node by node, if there are enough for all; else none: they run where the host
    /// likes. Those of a node are of one chip, as long as one has enough, and of the same socket else; first threads of cores come
    /// first.
    pub fn enough(&self, nodes: usize, harts: usize) -> Vec<usize> {
        if self.allowed.len() < nodes * harts {
            return Vec::new();
        }
        let mut free: Vec<_> = self.allowed.iter().map(|&core| (core, self.spot(core))).collect();
        free.sort_by_key(|&(core, spot)| (spot.socket, spot.chip, core));
        // How many threads of its core come before each: in this order they are taken.
        let (mut siblings, mut all) = (BTreeMap::new(), Vec::new());
        free.sort_by_cached_key(|&(_, spot)| {
            let before = siblings.entry((spot.socket, spot.core)).or_insert(0);
            *before += 1;
            *before
        });
        for _ in 0..nodes {
            let together = |same: &dyn Fn(&Spot, &Spot) -> bool| {
                let first = free
                    .iter()
                    .find(|(_, first)| free.iter().filter(|(_, other)| same(first, other)).count() >= harts);
                first.map(|&(_, first)| {
                    let cores = free.iter().filter(|(_, other)| same(&first, other)).map(|&(core, _)| core);
                    cores.take(harts).collect::<Vec<_>>()
                })
            };
            let is_socket = |a: &Spot, b: &Spot| a.socket == b.socket;
            let is_chip = |a: &Spot, b: &Spot| is_socket(a, b) && a.chip == b.chip;
            let own = together(&is_chip).or_else(|| together(&is_socket)).or_else(|| together(&|_, _| true));
            let own = own.unwrap_or_default();
            free.retain(|(core, _)| !own.contains(core));
            all.extend(own);
        }
        all
    }

    /// The NUMA node that all cores of each node are of, if this machine has several.
    pub fn numa_nodes(&self, cores: &[usize], harts: usize) -> Vec<Option<usize>> {
        let of = |&core: &usize| self.numa(core);
        let several = self.allowed.iter().map(of).collect::<BTreeSet<_>>().len() > 1;
        let node = |cores: &[usize]| {
            let first = of(cores.first()?);
            (several && cores.iter().all(|core| of(core) == first)).then_some(first)
        };
        cores.chunks(harts.max(1)).map(node).collect()
    }

    /// What they are, in words.
    pub fn words(&self) -> String {
        let spots: Vec<_> = self.allowed.iter().map(|&core| self.spot(core)).collect();
        let count = |of: fn(&Spot) -> [usize; 3], what: &str| {
            let count = spots.iter().map(of).collect::<BTreeSet<_>>().len();
            format!("{count} {what}{}", if count == 1 { "" } else { "s" })
        };
        let parts = [
            count(|spot| [spot.socket, 0, 0], "socket"),
            count(|spot| [spot.chip.0, 0, 0], "NUMA node"),
            count(|spot| [spot.socket, spot.chip.0, spot.chip.1], "last-level cache"),
            count(|spot| [spot.socket, spot.core, 0], "core"),
            count(|spot| [spot.thread, 0, 0], "thread"),
        ];
        format!(
            "this machine: processors {} are for this command: {}",
            ranges(&self.allowed),
            parts.join(", ")
        )
    }

    /// The cores of so many harts by a list of them, as in `0-3,8`: one after the other, and from the first again if there are
    /// more harts.
    ///
    /// # Errors
    /// It is no list, or has a core that is not to be had, by name.
    pub fn listed(&self, words: &str, harts: usize) -> Result<Vec<usize>> {
        let cores = list(words).filter(|cores| !cores.is_empty());
        let cores = cores.with_context(|| format!("{words:?} is no list of cores: write it as in 0-3,8"))?;
        cores.iter().try_for_each(|&core| self.check(core))?;
        Ok(cores.into_iter().cycle().take(harts).collect())
    }

    /// Refuses a core that harts cannot be bound to.
    fn check(&self, core: usize) -> Result<()> {
        if self.allowed.contains(&core) {
            return Ok(());
        }
        let told = |file: &str| read(&self.system.join("cpu").join(file)).and_then(|text| list(&text));
        if let Some(present) = told("present") {
            ensure!(
                present.contains(&core),
                "there is no core {core}: this machine has {}",
                ranges(&present)
            );
        }
        if let Some(online) = told("online") {
            ensure!(
                online.contains(&core),
                "core {core} is offline: of this machine {} are online",
                ranges(&online)
            );
        }
        bail!(
            "core {core} is not for this process, which may run on {}: `taskset` or its container says so",
            ranges(&self.allowed)
        );
    }

    /// Where the harts of a node are, as `cores`, node by node, has them: each node's come into the order of their places, and what
    /// any node's neighbours do not share, none's do, for equal harts have equal places in all nodes.
    pub fn places(&self, cores: &mut [usize], harts: usize) -> Vec<HartPlace> {
        let mut steps = vec![Step::Thread; harts.saturating_sub(1)];
        for node in cores.chunks_mut(harts.max(1)) {
            node.sort_by_key(|&core| self.spot(core));
            let spots: Vec<_> = node.iter().map(|&core| self.spot(core)).collect();
            for (step, pair) in steps.iter_mut().zip(spots.windows(2)) {
                *step = (*step).max(pair[0].step(pair[1]));
            }
        }
        let mut place = HartPlace::default();
        let mut places = vec![place];
        for step in steps {
            let HartPlace { socket, cluster, core, thread } = place;
            place = match step {
                Step::Thread => HartPlace { thread: thread + 1, ..place },
                Step::Core => HartPlace { core: core + 1, thread: 0, ..place },
                Step::Chip => HartPlace { cluster: cluster + 1, core: 0, thread: 0, ..place },
                Step::Socket => HartPlace { socket: socket + 1, ..HartPlace::default() },
            };
            places.push(place);
        }
        places
    }

    /// Where core `core` is.
    fn spot(&self, core: usize) -> Spot {
        let folder = self.system.join("cpu").join(format!("cpu{core}"));
        let first = |file: PathBuf| read(&file).and_then(|text| list(&text)?.into_iter().min());
        // Some hosts do not know, and say -1.
        let socket = read(&folder.join("topology/physical_package_id")).and_then(|text| text.parse().ok());
        Spot {
            socket: socket.unwrap_or(0),
            chip: (self.numa(core), last_cache(&folder.join("cache")).and_then(first).unwrap_or(0)),
            core: first(folder.join("topology/thread_siblings_list")).unwrap_or(core),
            thread: core,
        }
    }

    /// The NUMA node of core `core`.
    fn numa(&self, core: usize) -> usize {
        let nodes = std::fs::read_dir(self.system.join("node")).into_iter().flatten().flatten();
        let has = |folder: &Path| {
            read(&folder.join("cpulist"))
                .and_then(|text| list(&text))
                .is_some_and(|cores| cores.contains(&core))
        };
        let number = |name: &str| name.strip_prefix("node")?.parse().ok();
        let mut nodes = nodes.filter(|node| has(&node.path()));
        nodes.find_map(|node| number(node.file_name().to_str()?)).unwrap_or(0)
    }
}

/// The file that lists who shares the last level of cache, of those in a core's folder of caches.
fn last_cache(folder: &Path) -> Option<PathBuf> {
    let caches = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|cache| cache.path());
    let level = |cache: &PathBuf| read(&cache.join("level"))?.parse::<u32>().ok();
    let cache = caches.filter_map(|cache| Some((level(&cache)?, cache))).max()?.1;
    Some(cache.join("shared_cpu_list"))
}

fn read(file: &Path) -> Option<String> {
    std::fs::read_to_string(file).ok().map(|text| text.trim().to_owned())
}

/// Numbers and ranges of them between commas, as the host writes them.
pub(super) fn list(words: &str) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for word in words.split(',').filter(|_| !words.is_empty()) {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= MOST {
            return None;
        }
        all.extend(first..=last);
    }
    Some(all)
}

/// The same, of numbers that rise.
pub(super) fn ranges(cores: &[usize]) -> String {
    let runs = cores.chunk_by(|&a, &b| a + 1 == b);
    let run = |run: &[usize]| match run {
        [first, .., last] => format!("{first}-{last}"),
        _ => run.iter().map(ToString::to_string).collect(),
    };
    runs.map(run).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
#[path = "cores_tests.rs"]
mod tests;
