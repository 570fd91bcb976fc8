//! Nodes on a plain Ethernet switch, as on most real boards: they gather themselves, without a fabric of ours (SPEC X-3, R-7).

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use tests::{LOSSY_WIRE, count_lines, expect_clean, expect_report, on_both_architectures};
use xtask::firmware::{Request, build};
use xtask::progress::Voice;
use xtask::{Arch, Board, Mode, Outcome, Run, setup};

const DEADLINE: Duration = Duration::from_secs(60);

/// In the place of the emulator: node 2 starts when it is released, and node 1 can be reset.
const SCRIPT: &str = r#"#!/bin/sh
case "$*" in
*node=2\ *) until [ -e RELEASE ]; do sleep 0.1; done ;;
*node=1\ *)
    for word; do
        shift
        [ "$word" = -no-reboot ] || set -- "$@" "$word"
    done
    set -- "$@" -monitor unix:MONITOR,server=on,wait=off
    ;;
esac
exec EMULATOR "$@"
"#;

/// The run ended well, and the switch was all that there was: it said nothing, and no frame crossed a link.
#[track_caller]
fn expect_plain(outcome: &Outcome) {
    outcome.expect_success();
    assert!(outcome.fabric.tree.is_none(), "{}", outcome.explain());
    for node in &outcome.fabric.nodes {
        assert!(node.injected.packets > 0 && node.hops == 0 && node.control == 0, "{}", outcome.explain());
    }
}

on_both_architectures! {
    fn x3_nodes_on_a_plain_switch_gather_and_greet(arch) {
        let outcome = Run::new("hello").arch(arch).torus("2x2").plain().timeout(DEADLINE).run().unwrap();
        expect_plain(&outcome);
        expect_clean(&outcome);
        assert_eq!(count_lines(&outcome, "all 4 tasks said hello"), 1);
    }

    fn r7_a_node_that_is_told_another_torus_is_named_with_both_and_does_not_start(arch) {
        let run = Run::new("hello").arch(arch).torus("3").plain().timeout(DEADLINE);
        let told = ["3", "3", "4"].into_iter().zip(0..);
        let run = told.fold(run, |run, (torus, node)| {
            run.bootargs_override(node, format!("node={node} torus={torus} job=hello"))
        });
        let outcome = run.run().unwrap();
        let words = |torus| format!("`torus={torus} tasks=1 map=xyzt contexts=4 job=hello`");
        let (theirs, own) = (words(4), words(3));
        let said = format!("node 0 does not take it, which is told {own}, and this node {theirs}");
        expect_report(&outcome, 2, 78, &["node 2, hart 0 cannot start", &said]);
        let said = format!("node 2 is not taken: it is told {theirs}, and node 0 {own}");
        // Again, if the answer got lost.
        assert!(count_lines(&outcome, &said) > 0, "{}", outcome.explain());
    }

    fn r7_nodes_wait_for_one_that_starts_seconds_later_and_for_one_that_is_reset_meanwhile(arch) {
        let folder = tempfile::tempdir().unwrap();
        let [emulator, monitor, release, logs] =
            ["emulator", "monitor", "release", "logs"].map(|name| folder.path().join(name));
        let program = setup::emulator(arch, &Voice::quiet()).unwrap();
        let script = [("EMULATOR", &program), ("MONITOR", &monitor), ("RELEASE", &release)]
            .into_iter()
            .fold(SCRIPT.to_owned(), |script, (word, path)| script.replace(word, &path.display().to_string()));
        std::fs::write(&emulator, script).unwrap();
        std::fs::set_permissions(&emulator, std::fs::Permissions::from_mode(0o755)).unwrap();
        let request = Request::new(arch, "hello");
        let image = build(&request, &Voice::quiet()).unwrap();
        let run = Run::new("hello").arch(arch).torus("3").plain().timeout(DEADLINE);
        let run = run.stand_in(&emulator).image(image).logs(&logs);
        let running = std::thread::spawn(move || run.run().unwrap());
        let wait_for = |said: &str| {
            let log = logs.join("node-0.log");
            while !running.is_finished() && !std::fs::read_to_string(&log).is_ok_and(|log| log.contains(said)) {
                std::thread::sleep(Duration::from_millis(100));
            }
        };
        // Node 1 has said Hello, and node 2 is not there yet.
        wait_for("the job waits for nodes 2");
        let reset = UnixStream::connect(&monitor).and_then(|mut monitor| {
            monitor.write_all(b"system_reset\n")?;
            Ok(monitor)
        });
        wait_for("node 1 has started anew");
        std::fs::write(&release, "").unwrap();
        let outcome = running.join().unwrap();
        drop(reset);
        expect_plain(&outcome);
        for said in ["the job waits for nodes 2", "node 1 has started anew", "all 3 tasks said hello"] {
            assert!(count_lines(&outcome, said) > 0, "{said}: {}", outcome.explain());
        }
    }

    fn x3_jobs_on_a_plain_switch_compute_what_they_do_elsewhere(arch) {
        for job in ["npb-is", "mpi-suite"] {
            let run = Run::new(job).arch(arch).torus("3").mode(Mode::Vn).plain().timeout(2 * DEADLINE);
            expect_plain(&run.run().unwrap());
        }
        let run = Run::new("halo3d").arch(arch).torus("2x2").plain().faults(LOSSY_WIRE).timeout(2 * DEADLINE);
        expect_plain(&run.run().unwrap());
    }
}

#[test]
fn x3_boards_with_a_gem_gather_on_a_plain_switch_too() {
    for (board, arch) in [(Board::Zcu102, Arch::Aarch64), (Board::SifiveU, Arch::Riscv64)] {
        let run = Run::new("npb-is").board(board).arch(arch).torus("2").plain().timeout(2 * DEADLINE);
        expect_plain(&run.run().unwrap());
    }
}
