//! The runner, with shell scripts in the emulator's place: they speak as a node's console does.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use xtask::node::{ADAPTER_MTU, Exit};
use xtask::run::Ending;
use xtask::{KillWhen, Outcome, Run};

/// A script that knows its rank as `$rank` and says frames with `say`.
struct Script {
    folder: tempfile::TempDir,
}

impl Script {
    fn new(body: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let head = r#"#!/bin/bash
# Without a process of its own, which would outlive the script's end for a moment.
[[ " $*" =~ " node="([0-9]+) ]] && rank=${BASH_REMATCH[1]}
say() { printf '%s\0' "$@"; }
printf 'firmware says hello\r\n\0'
# Keeps the script's name.
wait_long() { exec -a "$0" sleep 60; }
say "S0up harts=2"
"#;
        let script = Self { folder };
        std::fs::write(script.path(), format!("{head}{body}")).expect("a script");
        std::fs::set_permissions(script.path(), Permissions::from_mode(0o755)).expect("a program");
        script
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("emulator")
    }

    fn run(&self) -> Run {
        Run::new("stand-in").torus("2").stand_in(self.path()).logs(self.folder.path().join("logs"))
    }

    fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join("logs").join(name)).expect("a log")
    }

    /// Whether a process of this script still runs; a script that waits keeps its name.
    fn lives(&self) -> bool {
        let path = self.path().display().to_string();
        std::fs::read_dir("/proc").expect("processes").flatten().any(|process| {
            std::fs::read_to_string(process.path().join("cmdline")).is_ok_and(|line| line.contains(&path))
        })
    }
}

fn only_failure(outcome: &Outcome) -> &str {
    let failures: Vec<_> = outcome.failures().collect();
    assert_eq!(failures.len(), 1, "{failures:?}");
    failures[0]
}

#[test]
fn x2_a_full_disk_is_told_with_the_files_name_and_costs_nothing_else() {
    let script = Script::new("say 'S0end status=1'; exit 1");
    let logs = script.folder.path().join("logs");
    std::fs::create_dir(&logs).expect("a folder");
    for file in ["node-0.log", "node-1.raw", "dump.txt"] {
        std::os::unix::fs::symlink("/dev/full", logs.join(file)).expect("a link");
    }
    let outcome = script.run().run().expect("a run, whose end is told");
    assert!(outcome.dump.is_some() && outcome.nodes.iter().all(|node| node.exit.is_some()));
    for file in ["node-0.log", "node-1.raw", "dump.txt"] {
        let told = |remark: &String| remark.contains(file) && remark.contains("No space left");
        assert!(outcome.remarks.iter().any(told), "{file}: {:?}", outcome.remarks);
    }
}

#[test]
fn n11_a_run_is_good_only_if_every_node_ends_with_status_0() {
    let script = Script::new("say 'S0end status=0 allocations=0 sent=3 received=4'\n");
    let outcome = script.run().run().expect("a run");
    outcome.expect_success();
    assert_eq!((outcome.exit_code(), outcome.nodes.len()), (0, 2));
    assert_eq!(outcome.nodes[1].end().and_then(|end| end.number("received")), Some(4));
    assert!(script.log("node-1.log").contains("firmware says hello"));
    assert!(script.log("commands.txt").contains(&format!("host_mtu={ADAPTER_MTU}")));

    let script = Script::new("say \"S0end status=$rank\"; exit $rank\n");
    let outcome = script.run().run().expect("a run");
    assert_eq!(only_failure(&outcome), "node 1 ended with status 1");
    assert_eq!(outcome.exit_code(), 1);
}

#[test]
fn x2_logs_and_capture_stay_only_where_something_failed() {
    let kept = |body: &str| {
        let script = Script::new(body);
        let outcome = Run::new("stand-in").torus("1").stand_in(script.path()).run().expect("a run");
        let path = outcome.logs.path().to_owned();
        assert!(path.join("torus.pcap").is_file());
        drop(outcome);
        (path.clone(), path.exists())
    };
    assert!(!kept("say 'S0end status=0'\n").1);
    let (path, stays) = kept("say 'S0end status=1'; exit 1\n");
    assert!(stays);
    std::fs::remove_dir_all(path).expect("to tidy up");
}

#[test]
fn n11_an_emulator_that_goes_before_the_job_ends_is_named_with_its_complaint() {
    let script = Script::new("[ $rank = 0 ] || { echo no such device >&2; exit 3; }; wait_long\n");
    let outcome = script.run().run().expect("a run");
    assert_eq!(outcome.ending, Ending::NodeFailed);
    let failure = only_failure(&outcome);
    assert!(
        failure.starts_with("node 1 was gone before the job ended") && failure.ends_with(": no such device"),
        "{failure}"
    );
    assert_eq!(outcome.nodes[0].exit, Some(Exit::TornDown));
    assert!(!script.lives());
}

#[test]
fn n10_a_report_ends_the_whole_run_and_says_whose_it_was() {
    let script = Script::new(
        "[ $rank = 0 ] || say 'R1panicked at job.rs:1' 'R1  at 0x40201234'; [ $rank = 0 ] || exit 1; wait_long\n",
    );
    let outcome = script.run().run().expect("a run");
    assert_eq!(outcome.nodes[1].exit, Some(Exit::Code(1)));
    assert_eq!(outcome.nodes[1].reports, ["panicked at job.rs:1", "  at 0x40201234"]);
    assert!(only_failure(&outcome).starts_with("node 1 reported: panicked at job.rs:1; see "));
    assert!(
        outcome.dump.as_ref().is_some_and(|dump| dump.contains("node 0 (alive)") && dump.contains("fabric"))
    );
    assert!(script.log("node-1.log").contains("1.1 REPORT panicked"));
    assert!(!script.lives());
}

#[test]
fn n10_a_killed_node_ends_the_run_with_its_name() {
    let script = Script::new("say 'D0x'; wait_long\n");
    let run = script.run().kill_node_at(1, KillWhen::Line("cannot be decoded".into()));
    let outcome = run.run().expect("a run");
    assert_eq!(only_failure(&outcome), "node 1 was killed by signal 9");
    assert_eq!(outcome.exit_code(), 1);
    assert!(!script.lives());
}

#[test]
fn x4_after_a_death_that_was_asked_for_the_others_go_on() {
    let script = Script::new(
        "say 'D0x'; [ $rank = 0 ] || wait_long; sleep 2; say 'R0node 1 is gone' 'S0end status=5'; exit 5\n",
    );
    let run = script.run().kill_node_at(1, KillWhen::Line("cannot be decoded".into())).go_on();
    let outcome = run.run().expect("a run");
    assert_eq!((outcome.ending, outcome.exit_code()), (Ending::Finished, 1));
    assert_eq!(outcome.nodes[0].status(), Some(5));
    let failures: Vec<_> = outcome.failures().collect();
    assert!(failures.contains(&"node 1 was killed by signal 9"), "{failures:?}");
    assert!(!script.lives());
}

#[test]
fn x4_the_table_shows_faults_only_if_they_were_asked_for() {
    let script = Script::new("say 'S0end status=0'\n");
    let table = |run: Run| xtask::table::render(&run.run().expect("a run"));
    assert!(!table(script.run()).contains("fault"));
    let text = table(script.run().faults("drop=1%").link_down("0:+x@1s..3s"));
    let tail: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("faults")).collect();
    assert_eq!(tail[0], "faults injected into what each node sent: drop=1%,seed=0, down 0:+x@1s..3s");
    assert_eq!(tail[1].split_whitespace().next(), Some("node"));
    assert!(tail[1].ends_with("link down") && tail[5].trim_start().starts_with("all  "), "{text}");
    assert_eq!(tail.len(), 6);
}

#[test]
fn n10_a_hung_node_meets_the_deadline() {
    let script = Script::new("[ $rank = 1 ] || say 'S0end status=0'; [ $rank = 0 ] || wait_long\n");
    let start = Instant::now();
    let outcome = script.run().timeout(Duration::from_millis(700)).run().expect("a run");
    assert!(start.elapsed() < Duration::from_secs(20));
    assert_eq!((outcome.ending, outcome.exit_code()), (Ending::Deadline, 124));
    assert_eq!(outcome.unfinished().collect::<Vec<_>>(), [1]);
    assert!(!outcome.success() && !script.lives());
    assert!(script.log("dump.txt").contains("node 1 (alive)"));
}

#[test]
fn x1_an_interrupt_tears_everything_down() {
    let script = Script::new("wait_long\n");
    let flag = Arc::new(AtomicBool::new(false));
    let run = script.run().interrupt(Arc::clone(&flag));
    let thread = std::thread::spawn(move || run.run().expect("a run"));
    while !script.lives() {
        std::thread::sleep(Duration::from_millis(10));
    }
    flag.store(true, Ordering::Relaxed);
    let outcome = thread.join().expect("a run");
    assert_eq!((outcome.ending, outcome.exit_code()), (Ending::Interrupted, 130));
    assert!(!script.lives());
}

#[test]
fn x1_what_cannot_be_run_is_refused_before_anything_starts() {
    let refused = |run: Run| format!("{:#}", run.run().expect_err("refused"));
    assert!(
        refused(Run::new("npb_is")).contains("there is no job called npb_is")
            || refused(Run::new("x")).contains("no job")
    );
    assert!(refused(Run::new("hello").torus("2y2")).contains("the torus \"2y2\" cannot be"));
    assert!(refused(Run::new("hello").harts(65)).contains("1 to 64 harts"));
    assert!(refused(Run::new("hello").topology("2x2")).contains("\"2x2\""));
    assert!(refused(Run::new("hello").topology("5x13x1")).contains("1 to 64 harts"));
    assert!(refused(Run::new("hello").topology("2x2x2").harts(4)).contains("2x2x2 has 8 harts, not 4"));
    assert!(refused(Run::new("hello").torus("2").gdb(2)).contains("there is no node 2"));
    for (run, why) in [
        (Run::new("hello").faults("dorp=1%"), "the faults \"dorp=1%\" cannot be: there is no fault \"dorp\""),
        (
            Run::new("hello").link_down("0:+u@1s..3s"),
            "the link \"0:+u@1s..3s\" cannot go down: node 0 of 2x2x2 has no link +u",
        ),
        (
            Run::new("hello").kill("3@2s"),
            "cannot kill \"3@2s\": write node=NODE@TIME or io=NUMBER@TIME, as in node=3@2s",
        ),
        (Run::new("hello").kill("io=0@2s"), "there is no I/O node 0 to kill: the run has 0"),
        (
            Run::new("hello").kill("node=x@2s"),
            "cannot kill \"node=x@2s\": \"x\" is no node: write its number, as in node=3@2s",
        ),
        (Run::new("hello").kill("node=3@2"), "\"2\" is no time: write a number and us, ms or s"),
        (Run::new("hello").kill("node=8@2s"), "there is no node 8 to kill: the last one of 2x2x2 is 7"),
    ] {
        let refusal = refused(run);
        assert!(refusal.contains(why), "{refusal}");
    }
}

#[test]
fn r2_a_node_that_stands_still_is_suspected_and_goes_on() {
    let script = Script::new("say 'D0x'; sleep 2; sleep 3; say 'S0end status=0 allocations=0'\n");
    let pause = KillWhen::Line("cannot be decoded".into());
    let run = script.run().silence(Duration::from_secs(6)).pause_node_at(1, Duration::from_secs(3), pause);
    let outcome = run.run().expect("a run");
    outcome.expect_success();
    assert_eq!([0, 1].map(|node: usize| outcome.nodes[node].suspicions), [0, 1]);
    assert!(!outcome.nodes[1].suspected);
    let log = script.log("node-1.log");
    assert!(
        log.contains("node 1 has given no sign of life for") && log.contains("counts as dead after 6 s"),
        "{log}"
    );
    assert!(log.contains("node 1 gives signs of life again"), "{log}");
}

#[test]
fn r2_a_node_that_told_its_end_and_takes_its_time_to_leave_has_not_died() {
    // Each tells where its cable goes, which the test pulls; the process is there for longer than a dead node's may be.
    let script = Script::new("say 'S0end status=0 allocations=0'; echo \"$*\" > \"$0.$rank\"; sleep 2.5\n");
    let outcome = std::thread::scope(|scope| {
        let pull = |rank: u32| {
            let said = script.path().with_extension(rank.to_string());
            let path = loop {
                let words = std::fs::read_to_string(&said).unwrap_or_default();
                if let Some((_, rest)) = words.split_once("id=torus,server=off,addr.type=unix,addr.path=") {
                    break rest.split_whitespace().next().unwrap_or_default().to_owned();
                }
                std::thread::sleep(Duration::from_millis(5));
            };
            drop(std::os::unix::net::UnixStream::connect(path).expect("a cable"));
        };
        scope.spawn(move || (0..2).for_each(pull));
        script.run().run().expect("a run")
    });
    outcome.expect_success();
}

#[test]
fn r2_a_node_that_stands_still_for_too_long_counts_as_dead() {
    let script = Script::new("say 'D0x'; wait_long\n");
    let pause = KillWhen::Line("cannot be decoded".into());
    let hour = Duration::from_secs(3600);
    let run = script.run().silence(Duration::from_secs(2)).pause_node_at(1, hour, pause.clone());
    let outcome = run.run().expect("a run");
    assert_eq!(only_failure(&outcome), "node 1 is dead: it gave no sign of life for 2 s");
    assert_eq!(outcome.ending, Ending::NodeFailed);
    assert!(!script.lives());
    // Never, if so told; then it is the dump that names it.
    let script = Script::new("say 'D0x'; wait_long\n");
    let run = script.run().silence(Duration::ZERO).pause_node_at(1, hour, pause);
    let outcome = run.timeout(Duration::from_secs(13)).run().expect("a run");
    assert_eq!((outcome.ending, outcome.nodes[1].suspicions), (Ending::Deadline, 1));
    assert!(outcome.dump.as_ref().is_some_and(|dump| dump.contains("node 1 (no sign of life)")));
    assert!(outcome.dump.is_some_and(|dump| dump.contains("its emulator is stopped")));
    assert!(!script.lives());
}

#[test]
fn x1_a_job_that_fails_the_same_way_on_all_nodes_says_it_once() {
    let script = Script::new("say 'S0end status=1'; exit 1\n");
    let outcome = script.run().torus("4").run().expect("a run");
    assert_eq!(outcome.grouped(), ["nodes 0 to 3 ended with status 1"]);
    let script = Script::new("echo 'no such device' >&2; exit 1\n");
    let outcome = script.run().torus("4").run().expect("a run");
    let said = "nodes 0 to 3 were gone before the job ended; the emulator's code was 1: no such device";
    assert_eq!(outcome.grouped(), [said]);
    let script = Script::new("say \"R0node $rank, hart $rank cannot start: no memory\"; exit 1\n");
    let outcome = script.run().torus("4").run().expect("a run");
    assert_eq!(outcome.grouped(), ["nodes 0 to 3 reported: cannot start: no memory"]);
}

#[test]
fn x1_a_reader_that_goes_is_no_panic() {
    let mut tool = std::process::Command::new(env!("CARGO_BIN_EXE_xtask"))
        .arg("jobs")
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the tool");
    drop(tool.stdout.take());
    let output = tool.wait_with_output().expect("its end");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Runs the tool without an emulator: what it refuses, it refuses before it looks for one.
fn refusal(words: &[&str]) -> (Option<i32>, String) {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_xtask"))
        .arg("qemu")
        .args(words)
        .env("PATH", "/nowhere")
        .output()
        .expect("the tool");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn n4_what_a_job_cannot_take_is_refused_before_anything_boots() {
    let cases: [(&[&str], &str); 7] = [
        (&["hello", "--", "--nonsense"], "hello takes no arguments"),
        (&["npb-is", "--", "--class", "C"], "--class wants S, W or A"),
        (&["npb-ft", "--torus", "6"], "power of two; 6 makes 6 tasks"),
        (&["halo3d", "--", "--size", "3,7"], "--size wants one of 3, 7, 11"),
        (&["affinity", "--", "--radix", "2,2"], "--radix wants five numbers from 1 up"),
        (&["faults"], "faults wants a word more"),
        (&["accumulate", "--torus", "2x2"], "is for two tasks"),
    ];
    for (words, says) in cases {
        let (code, said) = refusal(words);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(says) && !said.contains("building"), "{words:?}: {said}");
    }
    let (code, said) = refusal(&["hello", "--timeout", "0"]);
    assert!(code == Some(2) && said.contains("0 is not in 1.."), "{said}");
    let folder = tempfile::tempdir().expect("a folder");
    let image = folder.path().join("image");
    // The head of an ELF file for riscv64.
    std::fs::write(&image, b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xf3\0").expect("a file");
    let run = Run::new("hello").torus("1").stand_in("/bin/false").image(&image);
    let said = format!("{:#}", run.run().expect_err("refused"));
    assert!(said.contains("is no image for aarch64"), "{said}");
    let (code, said) = refusal(&["hello", "--log", "loud"]);
    assert!(code == Some(2) && said.contains("'loud'") && said.contains("warn, info, debug"), "{said}");
    let (code, said) = refusal(&["gups", "--", "--help"]);
    assert!(code == Some(0) && said.contains("--updates") && said.contains("rmw, am or both"), "{said}");
}
