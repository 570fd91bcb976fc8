//! Harts that spin at a word until the kernel says where to go on, as firmware without PSCI leaves them (SPEC B-2, N-2). A shim in
//! front of the kernel has the emulator's firmware start the harts, and parks them so; the tree says spin-table of them.

use std::path::{Path, PathBuf};
use std::time::Duration;
use tests::tree::{dumped, with_property};
use tests::{expect_clean, expect_report};
use xtask::firmware::{self, ONE_IMAGE, Request};
use xtask::progress::Voice;
use xtask::{Arch, Mode, Run};

const DEADLINE: Duration = Duration::from_secs(60);
/// Where the shim is; nothing reserves its page but that the harts' words are in it.
const SHIM: u64 = 0x4f00_0000;
/// The harts' words lie behind its instructions, by number.
const WORDS: u64 = SHIM + 0x60;

/// Starts harts 1 to `harts`, which spin at words `apart` bytes, 8 or 0, from one to the next, and goes on at `entry` with no
/// tree: the kernel finds it where this emulator puts it.
fn shim(harts: u32, apart: u64, entry: u64) -> Vec<u8> {
    let place = if apart == 0 { 0xd503_201f } else { 0x8b00_0c21 };
    let instructions: [u32; 20] = [
        0xd280_0033,               //     mov   x19, #1
        0x5800_0260,               // 1:  ldr   x0, 0x50
        0xaa13_03e1,               //     mov   x1, x19
        0x1000_0122,               //     adr   x2, 0x30
        0xaa13_03e3,               //     mov   x3, x19
        0xd400_0002,               //     hvc   #0
        0x9100_0673,               //     add   x19, x19, #1
        0xf100_027f | harts << 10, //     cmp   x19, #harts
        0x54ff_ff23,               //     b.lo  1b
        0xaa1f_03e0,               //     mov   x0, xzr
        0x5800_0181,               //     ldr   x1, 0x58
        0xd61f_0020,               //     br    x1
        0x1000_0181,               // 0x30: adr x1, 0x60
        place,                     //     add   x1, x1, x0, lsl #3; or nop
        0xf940_0022,               // 2:  ldr   x2, [x1]
        0xb500_0062,               //     cbnz  x2, 3f
        0xd503_205f,               //     wfe
        0x17ff_fffd,               //     b     2b
        0xaa1f_03e0,               // 3:  mov   x0, xzr
        0xd61f_0040,               //     br    x2
    ];
    const CPU_ON: u64 = 0xc400_0003;
    let data = [CPU_ON, entry].into_iter().chain((0..harts).map(|_| 0));
    let instructions = instructions.iter().flat_map(|word| word.to_le_bytes());
    instructions.chain(data.flat_map(u64::to_le_bytes)).collect()
}

/// The board's tree, whose harts spin at words from `words` on, `apart` bytes from one to the next.
fn tree(folder: &Path, harts: u32, words: u64, apart: u64) -> PathBuf {
    let mut tree = dumped(folder, Arch::Aarch64, harts, "");
    for hart in 0..harts {
        let address = words + u64::from(hart) * apart;
        let node = format!("cpu@{hart}");
        let spins = with_property(&tree, &node, "enable-method", b"spin-table\0");
        tree = with_property(spins, &node, "cpu-release-addr", &address.to_be_bytes()).to_vec();
    }
    let path = folder.join("board.dtb");
    std::fs::write(&path, tree).unwrap();
    path
}

/// One node of `harts` harts that spin, as `tree` says.
fn spinning(folder: &Path, job: &str, harts: u8, apart: u64, tree: &Path) -> Run {
    let request = Request::new(Arch::Aarch64, job).together(std::env::var_os(ONE_IMAGE).is_some());
    let image = std::fs::read(firmware::build(&request, &Voice::quiet()).unwrap()).unwrap();
    let entry = u64::from_le_bytes(image[24..32].try_into().unwrap());
    let file = folder.join("shim");
    std::fs::write(&file, shim(harts.into(), apart, entry)).unwrap();
    let run = Run::new(job).arch(Arch::Aarch64).torus("1").harts(harts).mode(Mode::Vn).timeout(DEADLINE);
    let load = format!("loader,file={},addr={SHIM:#x},force-raw=on", file.display());
    let start = format!("loader,addr={SHIM:#x},cpu-num=0");
    let words = ["-dtb", tree.to_str().unwrap(), "-device", &load, "-device", &start];
    words.into_iter().fold(run, |run, word| run.qemu_option(word))
}

#[test]
fn b2_n2_harts_that_spin_at_words_of_their_own_or_at_one_are_released() {
    let folder = tempfile::tempdir().unwrap();
    for (job, apart) in [("harts", 8), ("segments", 0)] {
        let tree = tree(folder.path(), 4, WORDS, apart);
        let outcome = spinning(folder.path(), job, 4, apart, &tree).run().unwrap();
        expect_clean(&outcome);
        let up = outcome.nodes[0].up().expect("an up status");
        assert_eq!(["harts", "tasks"].map(|key| up.number::<u8>(key)), [Some(4); 2], "{}", outcome.explain());
    }
}

#[test]
fn b2_harts_whose_word_nobody_looks_at_are_said_not_to_come_up() {
    let folder = tempfile::tempdir().unwrap();
    let tree = tree(folder.path(), 2, WORDS + 0x800, 8);
    let outcome = spinning(folder.path(), "harts", 2, 8, &tree).adapter(false).run().unwrap();
    expect_report(&outcome, 0, 69, &["hart 1 did not come up"]);
}
