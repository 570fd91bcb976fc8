//! Nodes that are processes of this machine (SPEC H-1, H-2, H-4).

use super::liveness::{expect_death, expect_suspect};
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tests::{count_lines, expect_clean, expect_success_on_a_bad_wire, long, processor_time, tool};
use xtask::firmware::{Request, build};
use xtask::node::Exit;
use xtask::progress::Voice;
use xtask::run::{Ending, Way};
use xtask::setup::has_nightly_source;
use xtask::{Arch, Board, KillWhen, Level, Mode, Outcome, Run};

const DEADLINE: Duration = Duration::from_secs(120);

fn host(job: &str) -> Run {
    Run::new(job).board(Board::Linux).timeout(DEADLINE)
}

/// All nodes ended well and allocated nothing once the job ran.
#[track_caller]
fn expect_good(outcome: &Outcome) {
    expect_clean(outcome);
    for node in &outcome.nodes {
        assert_eq!(node.end().and_then(|end| end.number("allocations")), Some(0), "{}", outcome.explain());
    }
}

#[test]
fn h1_processes_greet_as_nodes_do() {
    for (mode, tasks) in [(Mode::Smp, 3), (Mode::Vn, 6)] {
        let outcome = host("hello").torus("3").mode(mode).run().unwrap();
        expect_good(&outcome);
        assert_eq!(
            count_lines(&outcome, &format!("all {tasks} tasks said hello")),
            1,
            "{}",
            outcome.explain()
        );
    }
}

#[test]
fn h1_harts_are_threads_of_which_there_may_be_more_than_cores() {
    let outcome = host("harts").torus("4").harts(8).run().unwrap();
    expect_good(&outcome);
    for hart in 0..8 {
        assert_eq!(count_lines(&outcome, &format!("runs on its hart {hart};")), 4, "{}", outcome.explain());
    }
}

/// Who has no core of its own for each hart reckons with others that have to be given one.
#[test]
fn h3_where_harts_share_cores_other_algorithms_are_chosen() {
    let run = host("coll").torus("4").harts(xtask::run::core_count().min(16) as u8);
    let list = ["--list", "--collective", "broadcast", "--sizes", "65536"];
    let outcome = run.args(list).run().unwrap();
    expect_good(&outcome);
    assert_eq!(count_lines(&outcome, "chosen: 65536 B binomial"), 1, "{}", outcome.explain());
}

#[test]
fn h3_many_more_tasks_than_cores_that_all_wait_take_no_processor_time() {
    let run = host("idle").torus("4").harts(8).mode(Mode::Vn);
    // No other test has these arguments.
    let (outcome, least) = processor_time(run, &["--seconds", "9"], 0..4);
    expect_good(&outcome);
    // Two harts that never sleep take 400.
    assert!(least <= 20, "32 tasks that wait for two seconds take {least} hundredths at least");
}

#[test]
fn h1_keys_are_sorted_in_either_mode() {
    for mode in [Mode::Smp, Mode::Vn] {
        let outcome = host("npb-is").torus("2x2").mode(mode).run().unwrap();
        expect_good(&outcome);
        assert_eq!(count_lines(&outcome, "full verification: all 65536 keys in order: verified"), 1);
    }
}

/// That messages went from node to node without the fabric, which has let all nodes start.
#[track_caller]
fn expect_shared(outcome: &Outcome) {
    assert_eq!(outcome.way, Way::Segment);
    for (node, fabric) in outcome.nodes.iter().zip(&outcome.fabric.nodes) {
        let through_memory = node.end().and_then(|end| end.number::<u64>("local"));
        assert!(through_memory.is_some_and(|packets| packets > 0), "{}", outcome.explain());
        assert_eq!(fabric.injected.packets, 0, "{}", outcome.explain());
        assert!(fabric.joined && fabric.control > 0, "{}", outcome.explain());
    }
}

#[test]
fn h2_processes_share_memory_by_default_and_take_the_fabric_if_told() {
    let run = || host("npb-is").torus("2x2").tree(false);
    expect_shared(&run().run().unwrap());
    let outcome = run().by_fabric(true).run().unwrap();
    expect_good(&outcome);
    assert!(matches!(outcome.way, Way::Fabric(_)));
    assert!(outcome.fabric.nodes.iter().all(|node| node.injected.packets > 0), "{}", outcome.explain());
}

#[test]
fn h2_d8_shared_memory_may_be_taken_for_lossless() {
    for (job, mode) in [("npb-is", Mode::Vn), ("mpi-suite", Mode::Smp)] {
        let outcome = host(job).torus("2x2").mode(mode).lossless(true).run().unwrap();
        expect_good(&outcome);
        expect_shared(&outcome);
    }
}

#[test]
fn h2_r1_a_context_that_takes_nothing_holds_up_no_other_in_shared_memory() {
    let outcome = host("stalled").torus("2").args(["--messages", "100000"]).run().unwrap();
    expect_good(&outcome);
    expect_shared(&outcome);
}

#[test]
fn h2_an_agent_core_runs_the_engine_in_shared_memory() {
    for job in ["rma", "fence"] {
        let outcome = host(job).torus("2").agent_core(true).run().unwrap();
        expect_good(&outcome);
        assert_eq!(outcome.way, Way::Segment);
        assert!(outcome.fabric.nodes.iter().all(|node| node.injected.packets > 0), "{}", outcome.explain());
    }
}

#[test]
fn h1_frames_that_the_host_takes_in_part_are_whole_at_the_other_end() {
    // A burst of bare frames fills the stream faster than the fabric empties it.
    let outcome = host("ping").torus("2").harts(1).by_fabric(true).run().unwrap();
    expect_good(&outcome);
    assert_eq!(count_lines(&outcome, "bare frames, 1 hop"), 5, "{}", outcome.explain());
}

#[test]
fn h6_rows_of_ours_are_measured_by_processes_and_by_threads() {
    for (over, mode, torus, harts) in
        [("pami", Mode::Smp, "2", 1), ("mpi", Mode::Smp, "3", 1), ("mpi", Mode::Vn, "1", 2)]
    {
        let run = host("peers").torus(torus).mode(mode).harts(harts);
        let outcome = run
            .args(["--over", over, "--rows", "half-8,half-64k,stream-8,allreduce-8,memory"])
            .run()
            .unwrap();
        expect_good(&outcome);
        assert_eq!(count_lines(&outcome, "first"), 1, "{}", outcome.explain());
        assert_eq!(count_lines(&outcome, "still"), 1, "{}", outcome.explain());
        let two = usize::from(torus != "3");
        let counts =
            [("half-8", two), ("half-64k", two), ("stream-8", two), ("allreduce-8", 1), ("barrier", 0)];
        for (row, count) in counts {
            assert_eq!(count_lines(&outcome, &format!("row {row} ")), count, "{row}: {}", outcome.explain());
        }
    }
}

#[test]
fn h1_r1_a_bad_wire_is_mended_between_processes() {
    for job in ["rma", "fence"] {
        let outcome = host(job).torus("2").faults("drop=1%,reorder=5%,seed=5").run().unwrap();
        expect_success_on_a_bad_wire(&outcome, "drop=1%,reorder=5%");
    }
}

#[test]
fn h1_d8_streams_lose_nothing_and_may_be_taken_for_lossless() {
    for mode in [Mode::Smp, Mode::Vn] {
        let run = host("npb-is").torus("2x2").mode(mode).lossless(true);
        let outcome = run.by_fabric(true).run().unwrap();
        expect_good(&outcome);
        assert_eq!(count_lines(&outcome, "full verification: all 65536 keys in order: verified"), 1);
    }
}

#[test]
fn h1_n10_faults_of_a_process_are_reported_as_a_nodes_are() {
    for (word, report) in [
        ("null", "null dereference: read from 0x8"),
        ("overflow", "stack overflow of hart"),
        ("illegal", "illegal instruction"),
        ("panic", "panic on node 0"),
    ] {
        for &arch in Arch::of_processes() {
            let outcome = host("faults").arch(arch).torus("1").args([word]).run().unwrap();
            assert!(!outcome.success());
            let explain = || outcome.explain();
            assert!(outcome.reports().any(|line| line.contains(report)), "{word} on {arch}: {}", explain());
        }
    }
}

/// What ThreadSanitizer says is in what the process wrote to its standard error.
#[test]
fn h1_harts_that_race_are_reported() {
    if !has_nightly_source() {
        return;
    }
    let run = |hart| host("faults").torus("1").harts(4).races(true).args(["race", hart]).run().unwrap();
    expect_good(&run("1"));
    let outcome = run("all");
    let explain = outcome.explain();
    assert!(!outcome.success() && explain.contains("data race"), "{explain}");
    assert!(explain.contains("provoke::race"), "{explain}");
}

#[test]
fn h1_n11_a_jobs_status_is_the_runs() {
    let outcome =
        host("hello").torus("2").bootargs_override(1, "node=1 torus=2 job=hello nonsense").run().unwrap();
    assert_eq!(
        outcome.nodes[1].exit.map(|exit| exit.to_string()).as_deref(),
        Some("78"),
        "{}",
        outcome.explain()
    );
}

#[test]
fn h4_who_is_killed_is_named_by_all_others_which_end() {
    for (&arch, by_fabric) in Arch::of_processes().iter().flat_map(|arch| [(arch, false), (arch, true)]) {
        let run = host("idle").arch(arch).torus("4").args(["--seconds", "3600"]).by_fabric(by_fabric);
        let outcome = run.kill("node=2@300ms").run().unwrap();
        expect_death(&outcome, 2);
    }
}

#[test]
fn h4_who_is_cut_off_is_named_by_all_others_which_end() {
    let outcome = host("idle").torus("4").args(["--seconds", "3600"]).cut("node=2@300ms").run().unwrap();
    assert!(matches!(outcome.way, Way::Fabric(why) if why.contains("--cut")));
    expect_death(&outcome, 2);
}

#[test]
fn h4_who_dies_while_nodes_boot_is_named_by_those_that_boot_after_it() {
    // Harts enough that no node has joined when the first of them says that its second is up, unless the host is so busy that it hears
    // that late: then once more.
    let died = |by_fabric| {
        let run = host("hello").torus("4").harts(16).log(Level::Debug).by_fabric(by_fabric);
        run.kill_node_at(2, KillWhen::Line("hart 1 is up".into())).go_on().run().unwrap()
    };
    for by_fabric in [false, true] {
        let died_early = |outcome: &Outcome| outcome.boot_time.is_none();
        let outcome = (0..5).map(|_| died(by_fabric)).find(died_early).expect("it died after all had joined");
        assert_eq!(outcome.nodes[2].exit, Some(Exit::Signal(9)));
        expect_death(&outcome, 2);
    }
}

#[test]
fn h1_x4_who_stands_still_is_suspected_and_waited_for() {
    for by_fabric in [false, true] {
        let run = host("alive").torus("3").args(["--seconds", "1"]).by_fabric(by_fabric);
        let run = run.silence(Duration::from_secs(8)).pause("node=1@100ms+3s");
        let outcome = run.run().unwrap();
        expect_good(&outcome);
        expect_suspect(&outcome, 1);
        assert_eq!(count_lines(&outcome, "was answered"), 3, "{}", outcome.explain());
    }
}

#[test]
fn h1_x4_a_link_that_is_down_for_a_while_is_mended_and_a_card_has_none_that_could_be() {
    let outcome = host("hello").torus("2").link_down("0:+x@0s..300ms").run().unwrap();
    assert!(outcome.success(), "{}", outcome.explain());
    assert!(matches!(outcome.way, Way::Fabric(why) if why.contains("--link-down")));
    let error = host("hello").torus("2").unplug("node=1@1s").run().map(|_| ()).expect_err("no link");
    assert!(error.to_string().contains("--cut"), "{error}");
}

/// The first core that this process may run on.
fn first_core() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    list.trim().split([',', '-']).next().unwrap().to_owned()
}

#[test]
fn h1_a2_harts_go_to_the_cores_of_a_list_and_know_their_places() {
    let core = first_core();
    let run = host("idle").torus("2").args(["--seconds", "4"]).pin(&core);
    let running = std::thread::spawn(move || run.run().unwrap());
    let bound = |process: &std::path::Path| {
        let tasks = std::fs::read_dir(process.join("task")).into_iter().flatten().flatten();
        let texts = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok());
        texts.filter(|text| text.contains(&format!("Cpus_allowed_list:\t{core}\n"))).count()
    };
    // The first thread of a process is no hart.
    let word = format!("cores={core},{core}");
    while !running.is_finished() && !processes_with(&word).iter().any(|process| bound(process) == 2) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!running.is_finished(), "no process had two harts on core {core}");
    expect_good(&running.join().unwrap());
    let outcome = host("harts").torus("2").pin(&core).run().unwrap();
    expect_good(&outcome);
    for (task, hart) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let line = format!("task {task}, hart {hart}: socket 0, cluster 0, core 0, thread {hart}");
        assert_eq!(count_lines(&outcome, &line), 1, "{line}: {}", outcome.explain());
    }
    let error = host("hello").torus("2").pin("0,1023").run().map(|_| ()).expect_err("no such core");
    assert!(format!("{error:#}").contains("--pin: there is no core 1023: this machine has "), "{error:#}");
}

/// Processes of this machine that have `word` in their command line.
fn processes_with(word: &str) -> Vec<std::path::PathBuf> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|process| process.path());
    processes.filter(|process| command_line(process).contains(word)).collect()
}

/// The command line of a process, or nothing if it has none.
fn command_line(process: &std::path::Path) -> String {
    let line = std::fs::read(process.join("cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ")
}

/// There is one NUMA node at least, wherever memory can be asked for of one.
#[test]
fn h1_a_nodes_memory_is_asked_for_where_it_is_told_whoever_touches_it() {
    let image = build(&Request::new(Arch::Native, "idle"), &Voice::quiet()).unwrap();
    let mut command = Command::new(image);
    command.args(["harts=1", "memory=64", "numa=0"]);
    command.arg("bootargs=node=0 torus=1 job=idle -- --seconds 3600");
    let mut node = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let maps = PathBuf::from(format!("/proc/{}/numa_maps", node.id()));
    let (begun, mut asked) = (Instant::now(), !maps.exists());
    if asked {
        eprintln!("skipped: the host knows no NUMA nodes");
    }
    while !asked && node.try_wait().unwrap().is_none() && begun.elapsed() < DEADLINE {
        // Of all 64 MiB as one, of which most is never touched.
        asked = std::fs::read_to_string(&maps).is_ok_and(|maps| maps.contains(" prefer:0 "));
        std::thread::sleep(Duration::from_millis(10));
    }
    node.kill().unwrap();
    node.wait().unwrap();
    assert!(asked, "no memory is of NUMA node 0");
}

#[test]
fn h2_what_goes_which_way_is_said_at_the_start() {
    let udp = ["--udp", "127.0.0.1:17170,127.0.0.1:17171"];
    for (words, said) in [
        (&["--torus", "2"][..], &["mapped by all", "process_vm_readv"][..]),
        (&["--torus", "2", "--fabric"], &["Unix socket to this command", "--fabric says so"]),
        (&udp, &["node 0 at 127.0.0.1:17170 (here)", "up to 1432 bytes"]),
    ] {
        let mut command = Command::new(tool());
        command.args(["host", "hello", "--explain"]).args(words);
        let done = command.output().unwrap();
        let text = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{text}");
        for line in ["harts: 2 nodes", "this machine: ", "cores: ", "waits: ", "collectives: "] {
            assert!(text.contains(&format!("pamir:   {line}")), "{line}: {text}");
        }
        said.iter().for_each(|word| assert!(text.contains(word), "{word}: {text}"));
    }
}

/// The folder of the sockets of a run with these logs, once its nodes are started. Their command lines name it.
fn sockets(logs: &Path) -> Option<String> {
    let commands = std::fs::read_to_string(logs.join("commands.txt")).ok()?;
    let folder = commands.split_once("torus=")?.1.split_once(',')?.1.split_once("/node-")?.0;
    assert!(folder.contains("pamir-"), "{folder}");
    Some(folder.to_owned())
}

#[test]
fn h4_the_tools_own_death_leaves_no_node_and_its_folder_is_the_next_runs_to_remove() {
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let logs = tempfile::tempdir().unwrap();
        let mut command = Command::new(tool());
        command.args(["host", "idle", "--torus", "2x2", "--logs"]).arg(logs.path());
        command.args(["--", "--seconds", "3600"]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut tool = command.spawn().unwrap();
        let start = Instant::now();
        let wait = |what: &str, is: &dyn Fn() -> bool| {
            while !is() {
                assert!(start.elapsed() < DEADLINE, "{signal:?}: {what} in vain");
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        wait("waited for nodes", &|| {
            sockets(logs.path()).is_some_and(|folder| processes_with(&folder).len() == 4)
        });
        let folder = sockets(logs.path()).unwrap();
        kill_process(Pid::from_child(&tool), signal).unwrap();
        assert!(!tool.wait().unwrap().success());
        wait("waited for the nodes' end", &|| processes_with(&folder).is_empty());
        if signal == Signal::KILL {
            expect_good(&host("hello").torus("2").run().unwrap());
        }
        assert!(!Path::new(&folder).exists(), "{signal:?} leaves {folder}");
    }
}

#[test]
fn h4_whoever_is_killed_at_whatever_moment_is_named_and_leaves_nothing_behind() {
    // The same moments each time, as far as the machine is the same.
    let mut state = 1u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    for _ in 0..if long() { 1000 } else { 20 } {
        let job = ["idle", "all-pairs", "npb-is", "halo3d", "mpi-suite", "gups"][random(6) as usize];
        let (node, us) = (random(4) as usize, random(300_000));
        let run = host(job).torus("2x2").by_fabric(random(4) == 0);
        let run = if job == "idle" { run.args(["--seconds", "3600"]) } else { run };
        let outcome = run.kill(format!("node={node}@{us}us")).run().unwrap();
        let told = || format!("{job}, node {node} at {us} us: {}", outcome.explain());
        assert_eq!(outcome.ending, Ending::Finished, "{}", told());
        let folder = sockets(outcome.logs.path()).unwrap();
        let left = std::fs::read_dir(&folder)
            .map(|entries| entries.flatten().map(|entry| entry.path()).collect::<Vec<_>>());
        assert!(left.is_err(), "{folder} is there, and in it {left:?}: {}", told());
        let left = processes_with(&folder);
        let lines: Vec<_> = left.iter().map(|process| command_line(process)).collect();
        assert!(left.is_empty(), "{left:?} are there, {lines:?}: {}", told());
        if !matches!(outcome.nodes[node].exit, Some(Exit::Signal(9))) {
            // The job was faster.
            assert!(outcome.nodes.iter().all(|node| node.exit == Some(Exit::Code(0))), "{}", told());
            continue;
        }
        for (rank, other) in outcome.nodes.iter().enumerate().filter(|&(rank, _)| rank != node) {
            let named = other.said(&format!("node {node} is dead"));
            // Who had ended before has nothing to say.
            assert!(named || other.status() == Some(0), "node {rank}: {}", told());
        }
    }
}

/// The packets that carry a face and tell of it: that of the put, and the answer that there was one.
#[test]
fn d5_halo3d_sends_one_packet_for_a_face_and_has_one_answer() {
    let outcome = host("halo3d").torus("2x2").by_fabric(true).run().unwrap();
    expect_good(&outcome);
    let steps = outcome.lines().filter_map(|line| line.text.split_once(" steps, ")?.0.rsplit(' ').next());
    let steps: Vec<u64> = steps.map(|steps| steps.parse().unwrap()).collect();
    let [coarse, fine] = steps[..] else { panic!("{}", outcome.explain()) };
    // Of each node to its two neighbours. All meet every ten steps, of 6 packets at most, and a few times besides.
    let (faces, meetings) = (2 * (coarse + fine), (coarse + fine) / 10 + 10);
    for node in &outcome.nodes {
        let sent = node.end().and_then(|end| end.number::<u64>("sent")).unwrap();
        assert!((faces..=2 * faces + 6 * meetings).contains(&sent), "{sent}, {faces}: {}", outcome.explain());
    }
}
