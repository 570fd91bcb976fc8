//! Files of a job: I/O nodes act for nodes on the host's files, inside one directory.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tests::{
    LOSSY_WIRE, count_lines, expect_clean, expect_success_on_a_bad_wire, long, on_both_architectures,
};
use xtask::run::Ending;
use xtask::{Arch, Board, Harm, KillWhen, Mode, Outcome, Run};

/// The job's directory `files`, with a neighbour `outside`.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = tempfile::tempdir().expect("a folder");
        for folder in ["files", "outside"] {
            fs::create_dir(place.path().join(folder)).expect("a folder");
        }
        fs::write(place.path().join("outside/secret"), "secret").expect("a file");
        symlink("../outside", place.path().join("files/leaves")).expect("a link");
        Self(place)
    }

    fn files(&self) -> PathBuf {
        self.0.path().join("files")
    }

    /// The names in the directory, but for the link.
    fn names(&self) -> Vec<String> {
        let names = fs::read_dir(self.files()).expect("the directory");
        let names = names.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"));
        let mut names: Vec<_> = names.filter(|name| name != "leaves").collect();
        names.sort();
        names
    }

    fn run(&self, arch: Arch, torus: &str) -> Run {
        let seconds = if long() { 3600 } else { 240 };
        let run = Run::new("io").arch(arch).torus(torus).timeout(Duration::from_secs(seconds));
        run.files(self.files()).io_program(env!("CARGO_BIN_EXE_io-node"))
    }

    #[track_caller]
    fn outside_is_untouched(&self) {
        let names: Vec<_> = fs::read_dir(self.0.path().join("outside")).expect("the folder").collect();
        assert_eq!(names.len(), 1, "{names:?}");
        assert_eq!(fs::read_to_string(self.0.path().join("outside/secret")).expect("a file"), "secret");
        assert_eq!(fs::read_dir(self.0.path()).expect("the place").count(), 2);
    }
}

/// What the job writes, as `jobs/examples/io/data.rs` has it: a function of file and place.
fn word(tag: u64, offset: u64) -> u64 {
    (offset / 8 + (tag << 40)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
}

/// Each byte of a file is the job's, and there are so many.
#[track_caller]
fn is_as_written(file: &Path, tag: u64, len: u64) {
    let bytes = fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    assert_eq!(bytes.len() as u64, len, "{}", file.display());
    for (place, bytes) in bytes.chunks_exact(8).enumerate() {
        assert_eq!(bytes, word(tag, 8 * place as u64).to_le_bytes(), "{} at {}", file.display(), 8 * place);
    }
}

/// The files of `--size MIB --keep` on so many tasks are whole, byte for byte, and there are no others.
#[track_caller]
fn files_are_whole(place: &Place, outcome: &Outcome, mebibytes: u64, tasks: u64) {
    assert_eq!(count_lines(outcome, "checked"), 5, "{}", outcome.explain());
    let (shorts, all) = (64 * 4096, mebibytes << 20);
    is_as_written(&place.files().join("io.shared"), 0, all + tasks * shorts);
    is_as_written(&place.files().join("io.strips"), tasks + 1, all);
    for task in 0..tasks {
        is_as_written(&place.files().join(format!("io.task-{task}")), task + 1, all / tasks + shorts);
    }
    assert_eq!(place.names().len() as u64, tasks + 2);
    place.outside_is_untouched();
}

fn mebibytes() -> u64 {
    if long() { 64 } else { 4 }
}

on_both_architectures! {
    fn s2_what_all_nodes_write_is_on_the_host_byte_for_byte(arch) {
        let (place, size) = (Place::new(), mebibytes());
        let run = place.run(arch, "2x2x2").args(["--size".into(), size.to_string(), "--keep".into()]);
        let outcome = run.run().unwrap();
        expect_clean(&outcome);
        files_are_whole(&place, &outcome, size, 8);
        let tree = outcome.fabric.tree.as_ref().expect("a tree");
        assert!(tree.shipped > 4 * (size << 20) / 4096, "{} calls", tree.shipped);
    }

    fn s2_files_are_whole_where_the_torus_loses_and_reorders(arch) {
        let place = Place::new();
        let run = place.run(arch, "2x2x2").args(["--size", "4", "--keep"]).faults(LOSSY_WIRE);
        let outcome = run.run().unwrap();
        expect_success_on_a_bad_wire(&outcome, LOSSY_WIRE);
        files_are_whole(&place, &outcome, 4, 8);
    }

    fn s2_a_hostile_job_stays_inside_the_directory_and_its_limits(arch) {
        let place = Place::new();
        let outcome = place.run(arch, "2").args(["--hostile"]).run().unwrap();
        expect_clean(&outcome);
        assert_eq!(count_lines(&outcome, "hostile calls were refused"), 2, "{}", outcome.explain());
        for line in [
            "refused: open ../outside/secret: EACCES",
            "refused: stat /etc/passwd: EACCES",
            "refused: open leaves/secret: EACCES",
            "refused: readdir leaves: EACCES",
            "refused: open io.victim: EMFILE",
            "refused: write io.victim: ENOSPC",
            "refused: write io.victim: EFBIG",
        ] {
            assert!(count_lines(&outcome, line) >= 1, "{line}: {}", outcome.explain());
        }
        assert_eq!(place.names(), Vec::<String>::new());
        place.outside_is_untouched();
    }

    fn s2_a_full_disk_is_told_at_the_caller_with_the_files_name(arch) {
        let place = Place::new();
        let outcome = place.run(arch, "2").files_limit(1 << 20).args(["--keep"]).run().unwrap();
        assert!(!outcome.success());
        assert!(count_lines(&outcome, "failed: write io.shared: ENOSPC") >= 1, "{}", outcome.explain());
        let size = fs::metadata(place.files().join("io.shared")).expect("a file").len();
        assert!(size <= 1 << 20, "{size} bytes");
    }

    fn s2_a_disk_that_fails_is_told_at_the_caller_with_the_files_name(arch) {
        // An I/O node's own memory is a file, whose first page cannot be read.
        let read = |name| {
            let run = Run::new("io").arch(arch).torus("2").timeout(Duration::from_secs(240));
            run.files("/proc/self").io_program(env!("CARGO_BIN_EXE_io-node")).args(["--read", name]).go_on().run().unwrap()
        };
        let outcome = read("mem");
        assert!(!outcome.success());
        assert_eq!(count_lines(&outcome, "failed: read mem: EIO, "), 2, "{}", outcome.explain());
        // Nothing else fails.
        let outcome = read("comm");
        expect_clean(&outcome);
        assert_eq!(count_lines(&outcome, " read 8 bytes of comm"), 2, "{}", outcome.explain());
    }

    fn s2_a_lost_io_node_is_an_error_at_the_caller_and_no_hang(arch) {
        let place = Place::new();
        let run = place.run(arch, "2x2").args(["--size", "1024"]);
        let outcome = run.harm_io_node_at(0, Harm::Kill, opened()).run().unwrap();
        assert!(!outcome.success());
        assert_ne!(outcome.ending, Ending::Deadline, "{}", outcome.explain());
        assert!(count_lines(&outcome, " io.shared: EIO, the I/O node is lost") >= 1, "{}", outcome.explain());
        assert!(outcome.remarks.iter().any(|it| it.contains("I/O node 0 ended")), "{:?}", outcome.remarks);
    }
}

/// The moment when nobody opens any more.
fn opened() -> KillWhen {
    KillWhen::Line("all tasks have opened".into())
}

#[test]
fn s2_an_io_node_that_stands_still_is_waited_for_a_while_and_then_an_error_at_every_caller() {
    let place = Place::new();
    let run =
        |size: &str| place.run(Arch::Aarch64, "2x2").board(Board::Linux).args(["--size", size, "--keep"]);
    let pause = |seconds| Harm::Pause(Duration::from_secs(seconds));
    let outcome = run("8").harm_io_node_at(0, pause(3), opened()).run().unwrap();
    expect_clean(&outcome);
    files_are_whole(&place, &outcome, 8, 4);
    let outcome = run("8").harm_io_node_at(0, pause(3600), opened()).go_on().run().unwrap();
    assert_ne!(outcome.ending, Ending::Deadline, "{}", outcome.explain());
    let told = "io.shared: ETIMEDOUT, the I/O node does not answer";
    assert_eq!(count_lines(&outcome, told), 4, "{}", outcome.explain());
}

#[test]
fn s2_two_io_nodes_serve_tasks_that_share_a_node() {
    let place = Place::new();
    let run = place.run(Arch::Aarch64, "2x2").mode(Mode::Vn).io_nodes(2).args(["--size", "2", "--keep"]);
    let outcome = run.run().unwrap();
    expect_clean(&outcome);
    files_are_whole(&place, &outcome, 2, 8);
}

#[test]
fn s2_sixty_four_nodes_have_one_io_node_and_eight_may_have_two() {
    // Emulated ones too at full size, where 64 take minutes.
    for board in [Board::Linux, Board::Virt].into_iter().take(1 + usize::from(long())) {
        for (torus, io_nodes) in [("4x4x4", 1), ("2x2x2", 2)] {
            let place = Place::new();
            let run = place.run(Arch::Aarch64, torus).board(board).io_nodes(io_nodes).memory(64);
            let outcome = run.args(["--size", "16", "--keep"]).run().unwrap();
            expect_clean(&outcome);
            files_are_whole(&place, &outcome, 16, outcome.nodes.len() as u64);
        }
    }
}

#[test]
fn s2_nodes_that_are_processes_have_files_too() {
    let place = Place::new();
    let run = place.run(Arch::Aarch64, "2x2x2").board(Board::Linux).args(["--size", "8", "--keep"]);
    let outcome = run.run().unwrap();
    expect_clean(&outcome);
    files_are_whole(&place, &outcome, 8, 8);
    place.run(Arch::Aarch64, "2").board(Board::Linux).run().unwrap().expect_success();
    assert_eq!(place.names().len(), 9 - 3, "what is not to be kept is removed");
}

#[test]
fn s2_a_job_that_was_given_no_files_is_told_so() {
    let run = Run::new("io").board(Board::Linux).torus("2").timeout(Duration::from_secs(120));
    let outcome = run.run().unwrap();
    assert!(!outcome.success());
    assert_eq!(count_lines(&outcome, "failed: open io.shared: ENODEV"), 2, "{}", outcome.explain());
}
