//! `cargo xtask bench peers`: what messages cost here beside other messaging libraries, on the same two cores in one run
//! (SPEC H-6).
//!
//! Peers take turns, so that what else befalls the machine befalls all; `probe` looks at the cores before and after
//! each run, `results` drops the runs that it speaks against, and such a run is made again a few times. A peer that cannot
//! be had is a row that says so.

mod catalogue;
mod deadline;
mod gasnet;
mod launch;
mod npb;
mod obtain;
mod probe;
mod processes;
mod results;
mod steps;
mod summary;
mod table;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use rustix::thread::{CpuSet, sched_getaffinity};

use crate::progress::Voice;
use crate::{helper, json, workspace};
use catalogue::{Method, Peer, Row};
use obtain::Ready;
use results::{PeerReport, Report, RunReport};

/// The job that measures our own rows.
const JOB: &str = "peers";
/// Of one run.
const DEADLINE: Duration = Duration::from_secs(60);
/// Runs of one peer for the same rows that may fail before it is left out.
const MOST_FAILED: u32 = 2;
/// Probes before the first run, of which what is typical of the cores is known.
const WARM: usize = 40;
/// So often a run is made that probes speak against, and so many probes are waited for cores that a run counts beside.
const MOST_TRIES: u32 = 4;
const MOST_WAITED: u32 = 40;
/// Between two such probes.
const PAUSE: Duration = Duration::from_millis(50);
/// Rows in the picture, as far as they are measured, and in the page's table.
const PICTURE: [&str; 8] =
    ["half-8", "half-64k", "rate-8", "barrier", "allreduce-8", "alltoall-8-16", "memory", "insn-send"];
const PAGE: [&str; 24] = [
    "half-8",
    "half-64",
    "half-64k",
    "half-1m",
    "rate-8",
    "put-8",
    "fetch-add",
    "barrier",
    "barrier-4",
    "allreduce-8",
    "allreduce-64k",
    "allreduce-64k-16",
    "broadcast-64k",
    "broadcast-64k-16",
    "alltoall-8-4",
    "alltoall-8-16",
    "alltoall-64k-16",
    "start-64",
    "memory",
    "memory-64",
    "insn-send",
    "insn-progress",
    "insn-empty",
    "insn-put",
];

/// What is wanted.
#[derive(Clone, Debug)]
pub struct Options {
    /// Rounds: how often each peer runs.
    pub runs: u32,
    /// Words of rows; all without.
    pub rows: Option<String>,
    /// Words of peers; all without.
    pub peers: Option<String>,
    /// The two cores; the first two without.
    pub cores: Option<[usize; 2]>,
    /// Runs that probes speak against count too.
    pub keep_all: bool,
    /// Where all results go, and beside it the picture and the page.
    pub json: Option<PathBuf>,
}

/// Measures, writes JSON, picture and page, and returns the table.
///
/// # Errors
/// Words that name nothing, fewer than two cores, files that cannot be written, or the user had enough. A peer that
/// cannot be had, or fails, is none.
pub fn peers(options: &Options, voice: &Voice) -> Result<String> {
    let rows = catalogue::rows(options.rows.as_deref())?;
    let peers = catalogue::peers(options.peers.as_deref())?;
    let cores = cores(options.cores)?;
    let scratch = scratch()?;
    let mut report = Report {
        date: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs()),
        cpu: cpu(),
        kernel: read("/proc/sys/kernel/osrelease"),
        cores: cores.to_vec(),
        rounds: options.runs,
        all_count: options.keep_all,
        ..Report::default()
    };
    let mut ready = Vec::new();
    for peer in peers {
        report.peers.push(PeerReport { name: peer.name.to_owned(), ..PeerReport::default() });
        let Some(entry) = report.peers.last_mut() else { continue };
        let found = obtain::obtain(peer, gasnet::build, voice).and_then(|ready| {
            let benchmarks = npb::programs(peer, &rows, &ready.folders, voice)?;
            Ok(Ready { benchmarks, ..ready })
        });
        match found {
            Ok(it) => {
                entry.version.clone_from(&it.version);
                ready.push(it);
            }
            Err(error) => {
                ensure_wanted()?;
                voice.say(&format!("{} cannot be had: {error:#}", peer.name));
                entry.absent = Some(obtain::last_words(&format!("{error:#}")));
            }
        }
        voice.idle();
    }
    // What is started from here on has the two cores alone.
    probe::bind(&cores)?;
    warm(&mut report, cores, voice)?;
    let launches =
        ready.iter().flat_map(|ready| launches(ready.peer, &rows).into_iter().map(move |it| (ready, it)));
    let mut launches: Vec<_> = launches.map(|(ready, launch)| (ready, launch, 0)).collect();
    for round in 0..options.runs {
        for (ready, launch, failed) in launches.iter_mut().filter(|(.., failed)| *failed < MOST_FAILED) {
            let run = Run { ready, launch, round, cores, scratch: scratch.path() };
            let name = ready.peer.name;
            voice.busy(&format!("round {} of {}: {name}, {}", round + 1, options.runs, run.what()));
            *failed += u32::from(!run.until_it_counts(&mut report, voice)?);
        }
    }
    voice.idle();
    let text = table::table(&report, &rows);
    let file = options.json.clone().unwrap_or_else(|| workspace::target().join("pamir/peers.json"));
    write(&report, &rows, &file, voice)?;
    Ok(text)
}

/// Looks at the cores for a while, and says at once if runs hardly count beside them.
fn warm(report: &mut Report, cores: [usize; 2], voice: &Voice) -> Result<()> {
    for _ in 0..WARM {
        ensure_wanted()?;
        report.warm.push(probe::probe(cores)?);
        std::thread::sleep(PAUSE);
    }
    let Some(typical) = report.typical() else { return Ok(()) };
    let objections: Vec<_> = report.warm.iter().filter_map(|probe| probe.objection(&typical)).collect();
    let (count, last) = (objections.len(), objections.last());
    if let Some(reason) = last.filter(|_| count * 4 > WARM * 3 && !report.all_count) {
        voice.say(&format!(
            "{count} of {WARM} probes speak against these cores, the last one as {reason}: few runs will count; \
             measure where nothing else runs, with other --cores, or with --keep-all"
        ));
    }
    Ok(())
}

/// What is measured at once.
struct Launch {
    tasks: u32,
    method: Method,
    rows: Vec<&'static Row>,
}

/// One run of a peer.
struct Run<'a> {
    ready: &'a Ready,
    launch: &'a Launch,
    round: u32,
    cores: [usize; 2],
    scratch: &'a Path,
}

impl Run<'_> {
    /// Of it, in words.
    fn what(&self) -> String {
        match self.launch.rows[..] {
            [row] => row.name.to_owned(),
            _ => format!("{} tasks", self.launch.tasks),
        }
    }

    /// Does it, and again if probes speak against it. Returns whether it came to its end.
    fn until_it_counts(&self, report: &mut Report, voice: &Voice) -> Result<bool> {
        for _ in 0..MOST_TRIES {
            if !self.add_to(report, voice)? {
                return Ok(false);
            }
            let last = report.runs.last().zip(report.typical());
            if last.is_none_or(|(run, typical)| report.objection(run, &typical).is_none()) {
                break;
            }
        }
        Ok(true)
    }

    /// A probe that nothing is to be said against, or the last one that was waited for.
    fn probe_before(&self, report: &Report) -> Result<probe::Probe> {
        let mut probe = probe::probe(self.cores)?;
        let Some(typical) = report.typical().filter(|_| self.is_probed(report)) else { return Ok(probe) };
        for _ in 0..MOST_WAITED {
            if probe.objection(&typical).is_none() {
                break;
            }
            ensure_wanted()?;
            std::thread::sleep(PAUSE);
            probe = probe::probe(self.cores)?;
        }
        Ok(probe)
    }

    /// Whether probes can speak against it.
    fn is_probed(&self, report: &Report) -> bool {
        self.launch.method == Method::Timed && !report.all_count
    }

    /// Does it between two probes. Returns whether it came to its end; what it gave until then counts.
    fn add_to(&self, report: &mut Report, voice: &Voice) -> Result<bool> {
        let &Launch { tasks, method, ref rows } = self.launch;
        let (name, program) = (self.ready.peer.name, self.ready.program_of(rows));
        ensure_wanted()?;
        let before = self.probe_before(report)?;
        let mut values = launch::Values::new();
        let result = launch::command(self.ready, rows, tasks, self.cores, self.scratch)
            .and_then(|command| launch::launch(command, program, rows, DEADLINE, &mut values));
        let after = probe::probe(self.cores)?;
        if let Err(error) = &result {
            ensure_wanted()?;
            voice.say(&format!("{name}, {}, failed: {error:#}", self.what()));
            let missing = rows.iter().filter(|row| !values.contains_key(row.name));
            let why = missing.map(|row| (row.name.to_owned(), format!("{error:#}")));
            if let Some(peer) = report.peers.iter_mut().find(|peer| peer.name == name) {
                peer.failures.extend(why);
            }
        }
        if !values.is_empty() {
            let (peer, round) = (name.to_owned(), self.round);
            report.runs.push(RunReport { peer, tasks, method, round, probes: [before, after], values });
        }
        Ok(result.is_ok())
    }
}

/// Fails once the user has had enough.
fn ensure_wanted() -> Result<()> {
    if helper::over() {
        bail!("interrupted");
    }
    Ok(())
}

/// The launches that measure `rows` of a peer. A benchmark is one of its own, and a timed row of two tasks, so that probes are
/// close to it; more tasks than cores take longer to start than to measure.
fn launches(peer: &Peer, rows: &[&'static Row]) -> Vec<Launch> {
    let mut launches: Vec<Launch> = Vec::new();
    for &row in rows.iter().filter(|row| peer.measures(row)) {
        let (tasks, method) = (row.tasks, row.method());
        let alone = method == Method::Benchmark || method == Method::Timed && tasks == 2;
        let joins = |launch: &&mut Launch| !alone && (launch.tasks, launch.method) == (tasks, method);
        match launches.iter_mut().find(joins) {
            Some(launch) => launch.rows.push(row),
            None => launches.push(Launch { tasks, method, rows: vec![row] }),
        }
    }
    launches
}

/// The two cores: those that are wanted, or the first two that this process may have.
fn cores(wanted: Option<[usize; 2]>) -> Result<[usize; 2]> {
    let set = sched_getaffinity(None).context("cannot ask for the cores")?;
    let own: Vec<_> = (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect();
    if let Some(wanted) = wanted {
        match wanted.iter().find(|core| !own.contains(core)) {
            Some(core) => bail!("there is no core {core} for this process; it has {own:?}"),
            None if wanted[0] == wanted[1] => bail!("core {} twice: two cores are measured", wanted[0]),
            None => return Ok(wanted),
        }
    }
    match own[..] {
        [first, second, ..] => Ok([first, second]),
        _ => bail!("two cores are measured, and this process has {}", own.len()),
    }
}

/// A folder for what peers put beside: in memory where there is such a place, as files that tasks share are slow elsewhere.
fn scratch() -> Result<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let folder = tempfile::Builder::new().prefix("pamir-peers-").tempdir_in(&parent);
    folder.with_context(|| format!("cannot make a folder in {}", parent.display()))
}

fn read(file: &str) -> String {
    std::fs::read_to_string(file).unwrap_or_default().trim().to_owned()
}

/// The processor's name, as the system tells it.
fn cpu() -> String {
    let said = read("/proc/cpuinfo");
    let name = said.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    name.map_or(std::env::consts::ARCH, |(_, name)| name).to_owned()
}

fn write(report: &Report, rows: &[&Row], file: &Path, voice: &Voice) -> Result<()> {
    let named =
        |names: &[&str]| rows.iter().copied().filter(|row| names.contains(&row.name)).collect::<Vec<_>>();
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    json::write(file, report, voice)?;
    json::text_file(&file.with_extension("svg"), &table::svg(report, &named(&PICTURE)), voice)?;
    json::text_file(&file.with_extension("md"), &table::markdown(report, &named(&PAGE)), voice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::slice::from_ref;

    #[test]
    fn h6_rows_of_as_many_tasks_are_one_launch_and_peers_are_asked_for_what_they_can_have() {
        let rows =
            catalogue::rows(Some("half-8,barrier,alltoall-8-16,npb-is,npb-ep,memory,insn-send")).unwrap();
        let all = |name| {
            let launches = launches(catalogue::peers(Some(name)).unwrap()[0], &rows);
            let names = |rows: Vec<&Row>| rows.iter().map(|row| row.name).collect::<Vec<_>>();
            launches.into_iter().map(|launch| (launch.tasks, names(launch.rows))).collect::<Vec<_>>()
        };
        let two = [(2, vec!["half-8"]), (2, vec!["barrier"])];
        let (held, stepped) = ((2, vec!["memory"]), (2, vec!["insn-send"]));
        assert_eq!(all("ring"), [&two[..], from_ref(&stepped)].concat());
        assert_eq!(all("gasnet"), [&two[..], &[held.clone(), stepped.clone()]].concat());
        let benchmarks = [(2, vec!["npb-is"]), (2, vec!["npb-ep"])];
        let more = [(16, vec!["alltoall-8-16"]), held.clone()];
        let mpi = [&two[..], &more, &benchmarks, from_ref(&stepped)].concat();
        assert_eq!(all("mpich-pypi"), mpi);
        assert_eq!(all("pamir"), mpi);
        assert_eq!(all("ucx-debian"), [(2, vec!["half-8"]), held, stepped]);
    }

    #[test]
    fn h6_the_readme_shows_all_rows_of_the_page_and_the_picture() {
        let read = |file: &str| std::fs::read_to_string(workspace::root().join(file)).unwrap();
        let readme = read("README.md");
        let table: Vec<_> = readme.lines().skip_while(|line| !line.starts_with("| | ring |")).collect();
        let names: Vec<_> = table[0].trim_matches(['|', ' ']).split(" | ").collect();
        assert!(names.iter().all(|name| catalogue::PEERS.iter().any(|peer| peer.name == *name)), "{names:?}");
        let shown = table[2..].iter().take_while(|line| line.starts_with('|'));
        let shown: Vec<_> = shown.filter_map(|line| line.split(" |").next()).collect();
        let rows = catalogue::rows(None).unwrap().into_iter().filter(|row| PAGE.contains(&row.name));
        let rows: Vec<_> = rows.map(|row| format!("| {}, {}", row.title, row.unit.name())).collect();
        assert_eq!(shown, rows);
        assert!(readme.contains("(docs/peers.svg)") && read("docs/peers.svg").starts_with("<svg"));
    }

    #[test]
    fn h6_cores_that_are_not_there_are_named() {
        let own = cores(None);
        let error = cores(Some([CpuSet::MAX_CPU - 1, 0])).unwrap_err().to_string();
        assert!(error.starts_with(&format!("there is no core {} for this", CpuSet::MAX_CPU - 1)), "{error}");
        if let Ok([first, second]) = own {
            assert_eq!(cores(Some([second, first])).unwrap(), [second, first]);
            let error = cores(Some([first, first])).unwrap_err().to_string();
            assert_eq!(error, format!("core {first} twice: two cores are measured"));
        }
    }
}
