//! What Ctrl-C does to what works for this tool: a program of its own, as it ends all that there is.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use xtask::Run;
use xtask::helper::{self, Helper};

/// Processes of this program; one that waits keeps its name.
fn living(path: &Path) -> usize {
    let path = path.display().to_string();
    let line = |process: std::fs::DirEntry| std::fs::read_to_string(process.path().join("cmdline"));
    let processes = std::fs::read_dir("/proc").expect("processes").flatten();
    processes.filter_map(|process| line(process).ok()).filter(|line| line.contains(&path)).count()
}

#[test]
fn x1_a_second_interrupt_ends_all_guests_at_once_and_lets_none_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let guest = folder.path().join("emulator");
    std::fs::write(&guest, "#!/bin/bash\nexec -a \"$0\" sleep 60\n").expect("a script");
    std::fs::set_permissions(&guest, Permissions::from_mode(0o755)).expect("a program");
    let run = || Run::new("stand-in").torus("3").stand_in(guest.clone()).logs(folder.path().join("logs"));
    let running = std::thread::spawn({
        let run = run();
        move || run.run()
    });
    let start = Instant::now();
    while living(&guest) < 3 {
        assert!(start.elapsed() < Duration::from_secs(30), "{} of 3 guests run", living(&guest));
        std::thread::sleep(Duration::from_millis(10));
    }
    xtask::node::end_all();
    let outcome = running.join().expect("no panic").expect("an outcome");
    assert!(outcome.nodes.iter().all(|node| node.status() != Some(0)), "{}", outcome.explain());
    assert_eq!(living(&guest), 0);
    let Err(error) = run().run() else { panic!("it ran") };
    assert!(format!("{error:#}").contains("interrupted"), "{error:#}");
    assert_eq!(living(&guest), 0);
}

#[test]
fn x1_an_interrupt_ends_a_build_with_all_that_it_started_and_lets_none_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let build = folder.path().join("build");
    let script = "#!/bin/bash\n(exec -a \"$0\" sleep 60) &\nexec -a \"$0\" sleep 60\n";
    std::fs::write(&build, script).expect("a script");
    std::fs::set_permissions(&build, Permissions::from_mode(0o755)).expect("a program");
    let mut helper = Helper::start(&mut Command::new(&build)).expect("a build");
    let start = Instant::now();
    while living(&build) < 2 {
        assert!(start.elapsed() < Duration::from_secs(30), "{} of 2 processes run", living(&build));
        std::thread::sleep(Duration::from_millis(10));
    }
    helper::end_all();
    assert!(!helper.wait().expect("its end").success() && helper::over());
    while living(&build) > 0 {
        assert!(start.elapsed() < Duration::from_secs(60), "{} processes run on", living(&build));
        std::thread::sleep(Duration::from_millis(10));
    }
    let again = Helper::start(&mut Command::new(&build)).err().expect("an error");
    assert_eq!(again.kind(), std::io::ErrorKind::Interrupted);
}
