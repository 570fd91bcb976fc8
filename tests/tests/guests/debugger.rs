//! Nodes under a debugger (SPEC S-1, R-2).

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tests::{expect_clean, long, on_both_architectures};
use xtask::{Outcome, Run};

use super::inspect::told;

const DEADLINE: Duration = Duration::from_secs(120);

/// A debugger's line to an emulator: packets of the remote protocol.
struct Debugger(UnixStream);

impl Debugger {
    /// To the one node of the run that waits for one, by the command that the run notes in `logs`.
    /// `None` if `is_over` before there is one.
    fn attach(logs: &Path, is_over: impl Fn() -> bool) -> Option<Self> {
        while !is_over() {
            let commands = std::fs::read_to_string(logs.join("commands.txt")).unwrap_or_default();
            let socket = commands.split("-gdb unix:").nth(1).and_then(|rest| rest.split(',').next());
            if let Some(line) = socket.and_then(|socket| UnixStream::connect(socket).ok()) {
                line.set_read_timeout(Some(DEADLINE)).unwrap();
                return Some(Self(line));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        None
    }

    /// Acknowledges whatever was said, and says `packet`.
    fn say(&mut self, packet: &str) {
        let sum = packet.bytes().fold(0u8, u8::wrapping_add);
        write!(self.0, "+${packet}#{sum:02x}").unwrap();
    }

    /// The next packet that begins so.
    fn hear(&mut self, beginning: &str) -> String {
        let (mut said, mut bytes) = (String::new(), [0; 4096]);
        loop {
            let packet = said.split('$').skip(1).find(|packet| packet.starts_with(beginning));
            if let Some((packet, _)) = packet.and_then(|packet| packet.split_once('#')) {
                return packet.to_owned();
            }
            let length = self.0.read(&mut bytes).unwrap();
            assert!(length > 0, "the emulator has hung up on its debugger");
            said.extend(bytes[..length].iter().map(|&byte| char::from(byte)));
        }
    }

    fn go_on(&mut self) {
        self.say("c");
    }

    /// Stops the node, and waits until it stands.
    fn interrupt(&mut self) {
        self.0.write_all(&[3]).unwrap();
        self.hear("T");
    }

    /// Where the first hart of a node that stands is. It lies behind 32 registers of 64 bits on either architecture.
    fn program_counter(&mut self) -> u64 {
        self.say("Hg1");
        self.hear("OK");
        self.say("g");
        let registers = self.hear("");
        let counter = registers.get(32 * 16..33 * 16).expect("33 registers");
        u64::from_str_radix(counter, 16).expect("hexadecimal digits").swap_bytes()
    }
}

/// What came of `run`, whose node 1 a debugger held for `length`, when that had gone for so long.
pub fn held(run: Run, after: Duration, length: Duration) -> Outcome {
    let logs = tempfile::tempdir().unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // It hangs up when the run is over.
        let debugger = scope.spawn(|| {
            let mut debugger = Debugger::attach(logs.path(), || over.load(Ordering::Relaxed))?;
            debugger.go_on();
            std::thread::sleep(after);
            debugger.interrupt();
            std::thread::sleep(length);
            debugger.go_on();
            Some(debugger)
        });
        let outcome = run.logs(logs.path()).gdb(1).run();
        over.store(true, Ordering::Relaxed);
        let outcome = outcome.unwrap();
        assert!(debugger.join().unwrap().is_some(), "it waited for no debugger: {}", outcome.explain());
        outcome
    })
}

on_both_architectures! {
    fn r2_a_node_held_in_a_debugger_does_not_end_the_run(arch) {
        let run = Run::new("alive").arch(arch).torus("2").harts(1).args(["--seconds", "5"]).timeout(DEADLINE);
        // Wherever it is by then, the other one waits for it.
        let length = if long() { 45 } else { 14 };
        expect_clean(&held(run, Duration::from_secs(3), Duration::from_secs(length)));
    }

    fn s1_a_debugger_finds_a_living_node_where_inspect_does(arch) {
        let parent = tempfile::tempdir().unwrap();
        let name = format!("debugged-{arch}-{}", std::process::id());
        let logs = parent.path().join(&name);
        let run = Run::new("alive").arch(arch).torus("2").args(["--seconds", "15"]).timeout(DEADLINE);
        let run = run.logs(&logs).gdb(0);
        let running = std::thread::spawn(move || run.run().unwrap());
        let Some(mut debugger) = Debugger::attach(&logs, || running.is_finished()) else {
            panic!("it waited for no debugger: {}", running.join().unwrap().explain());
        };
        debugger.go_on();
        while !told(&name, 0).contains("alive::compute") {
            assert!(!running.is_finished(), "{}", running.join().unwrap().explain());
            std::thread::sleep(Duration::from_millis(100));
        }
        debugger.interrupt();
        let place = format!("  hart 0 pc {:#x} (", debugger.program_counter());
        let told = told(&name, 0);
        assert!(told.contains(&place), "{place}: {told}");
        debugger.go_on();
        expect_clean(&running.join().unwrap());
    }
}
