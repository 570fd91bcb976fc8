//! Nodes that are processes and send each other UDP datagrams, of one command or of two (SPEC H-1, H-4).

use rustix::process::{Pid, Signal, kill_process};
use std::io::Read as _;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tests::{count_lines, long, tool};
use xtask::firmware::{Request, build};
use xtask::progress::Voice;
use xtask::run::Way;
use xtask::{Arch, Board, Mode, Run};

const DEADLINE: Duration = Duration::from_secs(120);

/// So many addresses of this machine that nobody has.
fn addresses(count: usize, host: &str) -> String {
    let sockets: Vec<_> = (0..count).map(|_| UdpSocket::bind((host, 0)).unwrap()).collect();
    let words = sockets.iter().map(|socket| socket.local_addr().unwrap().to_string());
    words.collect::<Vec<_>>().join(",")
}

fn host(job: &str, torus: &str, count: usize) -> Run {
    let run = Run::new(job).board(Board::Linux).torus(torus).udp(addresses(count, "127.0.0.1"));
    run.timeout(DEADLINE).refuse_early()
}

#[test]
fn h1_jobs_run_over_datagrams() {
    let mut jobs = vec![
        ("hello", "2x2", Mode::Smp, "all 4 tasks said hello"),
        ("all-pairs", "3", Mode::Smp, " 0 wrong, 0 protocol errors"),
        ("npb-is", "2x2", Mode::Vn, ": verified"),
        ("mpi-suite", "2", Mode::Smp, " checks, 0 failed"),
    ];
    if long() {
        jobs.extend([("npb-ft", "2x2", Mode::Vn, ": verified"), ("shmem", "2x2", Mode::Smp, " 0 wrong")]);
    }
    for (job, torus, mode, line) in jobs {
        let count = if torus == "2x2" { 4 } else { torus.parse().unwrap() };
        let outcome = host(job, torus, count).mode(mode).run().unwrap();
        outcome.expect_success();
        assert_eq!(outcome.way, Way::Udp);
        assert!(count_lines(&outcome, line) > 0, "{job} does not say {line:?}: {}", outcome.explain());
        // Nothing of it went through the fabric.
        assert!(outcome.fabric.nodes.iter().all(|node| node.injected.packets == 0));
    }
    if UdpSocket::bind("[::1]:0").is_ok() {
        let run = Run::new("hello").board(Board::Linux).torus("2").udp(addresses(2, "::1"));
        run.timeout(DEADLINE).run().unwrap().expect_success();
    }
}

/// A command with a part of the nodes, and what it says.
struct Part {
    child: Child,
    said: PathBuf,
}

impl Part {
    /// Starts node `here` of `job` by `image`, run by `runner` if there is one; what it says goes into `folder`.
    fn start(
        [runner, job]: [&[&str]; 2],
        [image, folder]: [&Path; 2],
        addresses: &str,
        here: u32,
        silence: u32,
    ) -> Self {
        let said = folder.join(format!("part-{here}"));
        let file = std::fs::File::create(&said).unwrap();
        let (program, before) = runner
            .split_first()
            .map_or((tool().as_os_str(), &[][..]), |(program, rest)| (program.as_ref(), rest));
        let mut command = Command::new(program);
        command.args(before);
        if !runner.is_empty() {
            command.arg(tool());
        }
        command.args(["host", job[0], "--udp", addresses, "--here", &here.to_string(), "--image"]).arg(image);
        command.args(["--silence", &silence.to_string(), "--logs"]).arg(folder.join(format!("logs-{here}")));
        command.arg("--").args(&job[1..]).stdin(Stdio::null());
        let child = command.stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
        Self { child, said }
    }

    fn said(&self) -> String {
        let mut text = String::new();
        std::fs::File::open(&self.said).unwrap().read_to_string(&mut text).unwrap();
        text
    }

    /// Waits until it has said `words`.
    #[track_caller]
    fn hear(&self, words: &str) {
        let begun = Instant::now();
        while !self.said().contains(words) {
            assert!(begun.elapsed() < DEADLINE, "{words:?} is not said: {}", self.said());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Its exit code, and all that it said.
    #[track_caller]
    fn end(mut self) -> (Option<i32>, String) {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status.code(), self.said());
            }
            assert!(begun.elapsed() < DEADLINE, "no end: {}", self.said());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // One that has ended is no more to be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn image(job: &str) -> PathBuf {
    build(&Request::new(Arch::Native, job), &Voice::quiet()).unwrap()
}

/// The process of node `node` of those at `addresses`.
fn process(addresses: &str, node: u32) -> Pid {
    let word = format!(",{node},{addresses}");
    let begun = Instant::now();
    loop {
        for process in std::fs::read_dir("/proc").unwrap().flatten() {
            let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
            let words: Vec<_> = line.split(|&byte| byte == 0).map(String::from_utf8_lossy).collect();
            if words.iter().any(|it| it.starts_with("udp=") && it.ends_with(&word))
                && let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok())
            {
                return Pid::from_raw(pid).unwrap();
            }
        }
        assert!(begun.elapsed() < DEADLINE, "there is no node {node}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn h1_h4_two_commands_run_one_job_in_any_order_and_a_death_is_named_by_both() {
    let folder = tempfile::tempdir().unwrap();
    let (image, folder, addresses) = (image("hello"), folder.path(), addresses(2, "127.0.0.1"));
    let second = Part::start([&[], &["hello"]], [&image, folder], &addresses, 1, 60);
    second.hear("waiting for the command that starts node 0 at 127.0.0.1:");
    let first = Part::start([&[], &["hello"]], [&image, folder], &addresses, 0, 60);
    let (first, second) = (first.end(), second.end());
    assert_eq!((first.0, second.0), (Some(0), Some(0)), "{}\n{}", first.1, second.1);
    assert!(first.1.contains("all 2 tasks said hello"), "{}", first.1);
    assert!(first.1.contains("   1  elsewhere") && second.1.contains("   0  elsewhere"), "{}", second.1);

    let image = self::image("idle");
    let idle: &[&str] = &["idle", "--seconds", "3600"];
    let parts = [0, 1].map(|here| Part::start([&[], idle], [&image, folder], &addresses, here, 60));
    parts.iter().for_each(|part| part.hear("booting 1 nodes"));
    kill_process(process(&addresses, 1), Signal::KILL).unwrap();
    for part in parts {
        let (code, said) = part.end();
        assert!(code == Some(1) && said.contains("node 1 was killed by signal 9"), "{said}");
    }

    // The whole command, and with it its node.
    let parts = [0, 1].map(|here| Part::start([&[], idle], [&image, folder], &addresses, here, 60));
    let node = process(&addresses, 0);
    let [mut first, second] = parts;
    second.hear("booting 1 nodes");
    first.child.kill().unwrap();
    let (code, said) = second.end();
    assert!(code == Some(1) && said.contains("node 0 is dead: the command that started it"), "{said}");
    let begun = Instant::now();
    while rustix::process::test_kill_process(node).is_ok() && begun.elapsed() < DEADLINE {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(begun.elapsed() < DEADLINE, "node 0 outlives its command");
}

/// A network of two machines that are none: namespaces of this one, joined by a cable. Gone with it.
struct Cable([String; 2]);

impl Cable {
    const ADDRESSES: &str = "10.9.0.1:7000,10.9.0.2:7000";

    /// Why there is none: this takes root, and iproute2.
    fn new() -> Result<Self, String> {
        let cable = Self(["a", "b"].map(|end| format!("pamir-{}-{end}", std::process::id())));
        let [a, b] = &cable.0;
        for namespace in [a, b] {
            ip(&["netns", "add", namespace])?;
        }
        ip(&["link", "add", "end", "netns", a, "type", "veth", "peer", "name", "end", "netns", b])?;
        for (namespace, address) in [(a, "10.9.0.1/24"), (b, "10.9.0.2/24")] {
            ip(&["-n", namespace, "address", "add", address, "dev", "end"])?;
            ip(&["-n", namespace, "link", "set", "end", "up"])?;
        }
        Ok(cable)
    }

    fn start(&self, job: &[&str], places: [&Path; 2], here: u32, silence: u32) -> Part {
        let runner = ["ip", "netns", "exec", &self.0[here as usize]];
        Part::start([&runner, job], places, Self::ADDRESSES, here, silence)
    }

    fn pull(&self) {
        ip(&["-n", &self.0[1], "link", "set", "end", "down"]).unwrap();
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        // Either may not have been made.
        self.0.iter().for_each(|namespace| _ = ip(&["netns", "delete", namespace]));
    }
}

fn ip(words: &[&str]) -> Result<(), String> {
    let done = Command::new("ip").args(words).output().map_err(|error| format!("ip: {error}"))?;
    match done.status.success() {
        true => Ok(()),
        false => Err(format!("ip {}: {}", words.join(" "), String::from_utf8_lossy(&done.stderr).trim())),
    }
}

#[test]
fn h1_h4_two_machines_run_one_job_and_one_that_is_gone_is_named_after_its_silence() {
    let cable = match Cable::new() {
        Ok(cable) => cable,
        Err(why) => return eprintln!("skipped: there are no two machines: {why}"),
    };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for bad in [false, true] {
        if bad {
            let loss = [
                "netns",
                "exec",
                &cable.0[0],
                "tc",
                "qdisc",
                "add",
                "dev",
                "end",
                "root",
                "netem",
                "loss",
                "2%",
            ];
            if let Err(why) = ip(&loss) {
                eprintln!("skipped: the cable loses nothing: {why}");
                break;
            }
        }
        let image = image("npb-is");
        let parts = [0, 1].map(|here| cable.start(&["npb-is"], [&image, folder], here, 60));
        let [first, second] = parts.map(Part::end);
        assert_eq!((first.0, second.0), (Some(0), Some(0)), "{}\n{}", first.1, second.1);
        assert!(first.1.contains(": verified"), "{}", first.1);
    }
    // Nobody says that the other is gone: no process ends, and no connection.
    let image = image("idle");
    let parts = [0, 1].map(|here| cable.start(&["idle", "--seconds", "3600"], [&image, folder], here, 3));
    parts.iter().for_each(|part| part.hear("booting 1 nodes"));
    cable.pull();
    for (part, other) in parts.into_iter().zip([1, 0]) {
        let (code, said) = part.end();
        let named = said.contains(&format!("node {other} is dead: nothing was heard from 10.9.0."));
        assert!(code == Some(1) && named && said.contains(" for 3 s"), "{said}");
    }
}
