//! Living runs are shown in the terminal, and in plain text (SPEC S-3, X-4).

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};
use tests::{expect_clean, on_both_architectures, tool};
use xtask::{Board, Run};

use super::inspect::look;

const PATIENCE: Duration = Duration::from_secs(60);

fn top(name: &str) -> Command {
    let mut command = Command::new(tool());
    command.args(["top", "--every", "0.3", "--run", name]).env("TERM", "xterm");
    command
}

/// What `top --once` prints of the run.
fn once(name: &str) -> String {
    let output = top(name).arg("--once").output().expect("top");
    [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat()
}

/// A terminal with `top` of a run in it.
struct Terminal {
    keyboard: File,
    line: OwnedFd,
    modes: String,
    shown: Arc<Mutex<Vec<u8>>>,
    process: Child,
}

/// The modes of a terminal, in words that can be compared.
fn modes(line: &OwnedFd) -> String {
    let Termios { input_modes, output_modes, control_modes, local_modes, .. } =
        tcgetattr(line).expect("modes");
    format!("{input_modes:?} {output_modes:?} {control_modes:?} {local_modes:?}")
}

impl Terminal {
    fn open(name: &str) -> Self {
        let keyboard: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let path = ptsname(&keyboard, Vec::new()).unwrap();
        let line = rustix::fs::open(path.as_c_str(), OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        tcsetwinsize(&line, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let modes = modes(&line);
        let end = || line.try_clone().unwrap();
        let process = top(name).stdin(end()).stdout(end()).stderr(end()).spawn().expect("top");
        let (keyboard, shown) = (File::from(keyboard), Arc::new(Mutex::new(Vec::new())));
        let (mut screen, seen) = (keyboard.try_clone().unwrap(), Arc::clone(&shown));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(length @ 1..) = screen.read(&mut bytes) {
                seen.lock().unwrap().extend_from_slice(&bytes[..length]);
            }
        });
        Self { keyboard, line, modes, shown, process }
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }

    /// Waits until all of these words were shown.
    fn expect(&self, words: &[&str]) {
        let begun = Instant::now();
        while !words.iter().all(|word| self.shown().contains(word)) {
            assert!(begun.elapsed() < PATIENCE, "{words:?} are not all of {:?}", self.shown());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn press(&mut self, keys: &[u8]) {
        self.keyboard.write_all(keys).unwrap();
    }

    /// Waits for its end, after which the terminal is as it was.
    fn end(mut self) -> ExitStatus {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                break status;
            }
            if begun.elapsed() > PATIENCE {
                self.process.kill().unwrap();
                panic!("it goes on: {:?}", self.shown());
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        assert_eq!(modes(&self.line), self.modes);
        // The other screen is left, and the cursor is there again.
        self.expect(&["\x1b[?1049h", "\x1b[?1049l", "\x1b[?25h"]);
        let shown = self.shown();
        assert!(shown.rfind("\x1b[?1049l") > shown.rfind("\x1b[?1049h"), "{shown:?}");
        status
    }
}

on_both_architectures! {
    fn s3_x4_top_shows_a_living_run_and_leaves_it_and_the_terminal_as_they_were(arch) {
        tool();
        let run = Run::new("alive").arch(arch).torus("2").args(["--seconds", "25"]);
        let outcome = look(run, |name| {
            let text = once(name);
            let line = format!("{name}: alive on board virt, {arch}, torus 2\n");
            // Node 0 computes on one hart; node 1 sent it all that it may, and sleeps.
            let seen = [&line, "2 of 2 nodes live; harts: 1 computing", "\n    0 1c 1s ", "\n    1 2s ", "1 to 0 ("];
            if !seen.iter().all(|words| text.contains(words)) || !text.contains("node 1 for room at node 0, 50 packets (task 0 context 0) ") {
                return false;
            }
            let mut terminal = Terminal::open(name);
            terminal.expect(&[name, "comput", "hot links", "waits"]);
            assert_ne!(modes(&terminal.line), terminal.modes);
            terminal.press(b"p");
            terminal.expect(&["paus"]);
            terminal.press(b"q");
            assert_eq!(terminal.end().code(), Some(0));

            let mut terminal = Terminal::open(name);
            terminal.expect(&["comput"]);
            terminal.press(b"\x03");
            assert_eq!(terminal.end().code(), Some(130));

            let terminal = Terminal::open(name);
            terminal.expect(&["comput"]);
            let process = Pid::from_child(&terminal.process);
            kill_process(process, Signal::TERM).unwrap();
            assert_eq!(terminal.end().code(), Some(130));
            true
        });
        expect_clean(&outcome);
    }
}

#[test]
fn s3_h1_top_shows_nodes_that_are_processes_too() {
    tool();
    let run = Run::new("idle").board(Board::Linux).torus("2").args(["--seconds", "8"]);
    let outcome = look(run, |name| {
        let text = once(name);
        let words =
            [&format!("{name}: idle on board linux, "), "2 of 2 nodes live; harts: ", "\n    0 ", "\n    1 "];
        words.iter().all(|words| text.contains(words))
    });
    expect_clean(&outcome);
}
