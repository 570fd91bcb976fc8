//! Images under a boot loader of real boards: U-Boot loads one over TFTP and starts it as it starts Linux (SPEC B-2, B-8).

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tests::on_both_architectures;
use xtask::firmware::{ONE_IMAGE, Request, export};
use xtask::progress::Voice;
use xtask::serial::{Line, Words};
use xtask::{Arch, Board, setup};

/// How long U-Boot and the job may take.
const DEADLINE: Duration = Duration::from_secs(90);

/// The emulator, ended with the test.
struct Emulator(Child);

impl Drop for Emulator {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A board that starts U-Boot, which finds `folder` on a TFTP server.
fn power_on(arch: Arch, folder: &Path) -> Emulator {
    let voice = Voice::quiet();
    let mut command = Command::new(setup::emulator(arch, &voice).unwrap());
    let loader = setup::u_boot(arch, &voice).unwrap();
    command.args(Board::Virt.options(arch)).args(["-smp", "2", "-m", "256", "-display", "none"]);
    // Where the processor begins, or what OpenSBI hands over to.
    command.arg(if arch == Arch::Aarch64 { "-bios" } else { "-kernel" }).arg(loader);
    command.args(["-serial", "stdio", "-monitor", "none", "-nodefaults", "-no-reboot"]);
    command.arg("-netdev").arg(format!("user,id=server,restrict=on,tftp={}", folder.display()));
    command.args(["-global", "virtio-mmio.force-legacy=false", "-device", "virtio-net-device,netdev=server"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    Emulator(command.spawn().unwrap())
}

/// Hands over all that comes, in pieces as it comes.
fn pump(mut from: impl std::io::Read, to: &Sender<Vec<u8>>) {
    let mut bytes = [0; 4096];
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        if to.send(bytes[..length].to_vec()).is_err() {
            return;
        }
    }
}

/// Types each command once what precedes it was said; returns all that was said until the emulator ended.
fn dialogue(mut emulator: Emulator, dialogue: &[(&str, &str)]) -> Vec<u8> {
    let (said, heard) = channel();
    let output = emulator.0.stdout.take().unwrap();
    let mut line = emulator.0.stdin.take().unwrap();
    std::thread::spawn(move || pump(output, &said));
    let (begun, mut all, mut seen, mut steps) = (Instant::now(), Vec::new(), 0, dialogue.iter());
    let mut step = steps.next();
    loop {
        match heard.recv_timeout(DEADLINE.saturating_sub(begun.elapsed())) {
            Ok(bytes) => all.extend(bytes),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => panic!("no end in time:\n{}", String::from_utf8_lossy(&all)),
        }
        let (next, found) = match step {
            Some((before, command)) => {
                let found = all[seen..].windows(before.len()).position(|bytes| bytes == before.as_bytes());
                (Some(command), found.map(|at| at + before.len()))
            }
            None => (None, None),
        };
        if let (Some(command), Some(found)) = (next, found) {
            seen += found;
            line.write_all(command.as_bytes()).unwrap();
            step = steps.next();
        }
    }
    assert!(step.is_none(), "U-Boot did not ask:\n{}", String::from_utf8_lossy(&all));
    all
}

/// A board that starts `image` without a boot loader once it is told to go on, with a serial line that is a terminal; returns
/// its name too.
fn power_on_with_terminal(arch: Arch, image: &Path, words: &str) -> (Emulator, String) {
    let mut command = Command::new(setup::emulator(arch, &Voice::quiet()).unwrap());
    command.args(Board::Virt.options(arch)).args(["-smp", "2", "-m", "256", "-display", "none"]);
    command.args([
        "-serial",
        "pty",
        "-monitor",
        "stdio",
        "-S",
        "-nodefaults",
        "-no-reboot",
        "-append",
        words,
    ]);
    command.arg("-kernel").arg(image);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut emulator = Emulator(command.spawn().unwrap());
    let said = BufReader::new(emulator.0.stdout.take().unwrap()).lines();
    let mut words =
        said.flat_map(|line| line.unwrap().split_whitespace().map(String::from).collect::<Vec<_>>());
    let name = words.find(|word| word.starts_with("/dev/")).unwrap();
    std::thread::spawn(move || words.for_each(drop));
    (emulator, name)
}

on_both_architectures! {
    fn b8_r2_a_board_is_asked_over_its_serial_line_whether_it_lives(arch) {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("alive.image");
        let together = std::env::var_os(ONE_IMAGE).is_some();
        let request = Request::new(arch, "alive").together(together);
        let (elf, _) = export(&request, &image, &Voice::quiet()).unwrap();
        let words = "node=0 torus=1 job=alive -- --seconds 8";
        let (mut emulator, terminal) = power_on_with_terminal(arch, &image, words);
        let line = Line::open(Some(Path::new(&terminal)), 115_200).unwrap();
        emulator.0.stdin.as_mut().unwrap().write_all(b"cont\n").unwrap();
        let (said, told) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
        let note = |list: &Arc<Mutex<Vec<String>>>| {
            let list = Arc::clone(list);
            move |text: &str| list.lock().unwrap().push(text.to_owned())
        };
        let (show, tell, (done, end)) = (note(&said), note(&told), channel());
        std::thread::spawn(move || {
            let words = Words::load(&elf, None).unwrap();
            done.send(words.attend(line, Duration::from_secs(1), show, tell).unwrap())
        });
        let status = end.recv_timeout(DEADLINE);
        let said = said.lock().unwrap();
        assert_eq!(status, Ok(Some(0)), "{said:#?} {told:#?}");
        assert!(said.iter().any(|line| line.contains("STATUS alive down=0")), "{said:#?} {told:#?}");
    }

    fn b2_u_boot_starts_an_image_over_tftp_as_it_starts_linux(arch) {
        let folder = tempfile::tempdir().unwrap();
        let together = std::env::var_os(ONE_IMAGE).is_some();
        let request = Request::new(arch, "hello").together(together);
        let (elf, bytes) = export(&request, &folder.path().join("hello.image"), &Voice::quiet()).unwrap();
        let commands = "setenv bootargs 'node=0 torus=1 job=hello'; setenv autoload no; dhcp; \
                        tftpboot ${kernel_addr_r} hello.image; booti ${kernel_addr_r} - ${fdtcontroladdr}\n";
        let said = dialogue(power_on(arch, folder.path()), &[("stop autoboot", "\n"), ("=> ", commands)]);
        let text = String::from_utf8_lossy(&said);
        assert!(text.contains(&format!("Bytes transferred = {bytes}")), "{text}");
        // It is by itself: its card, at which nobody answers, is left alone.
        assert!(text.contains("interrupts=none"), "{text}");
        // What `cargo xtask serial` makes of the line.
        let mut lines = Vec::new();
        let words = Words::load(&elf, None).unwrap();
        let status = words.follow(&mut said.as_slice(), |line| lines.push(line.to_owned())).unwrap();
        assert_eq!(status, Some(0), "{lines:#?}");
        for expected in ["Starting kernel ...", "task 0 says: Hello, World!", "all 1 tasks said hello"] {
            assert!(lines.iter().any(|line| line.contains(expected)), "no {expected:?} in {lines:#?}");
        }
        // A line that ends before the node has told its end is no success.
        let end = said.windows(6).position(|bytes| bytes == b"\0S0end").unwrap();
        assert_eq!(words.follow(&mut &said[..end], |_| ()).unwrap(), None);
    }
}
