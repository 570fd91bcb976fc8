//! The server with hostile nodes played by the test; what lies around its directory is never touched.

use super::server::Server;
use super::space::{NEW_FILE, Space};
use kernel::file_calls::{
    ANSWER_BYTES, Answer, CALL_BYTES, Call, DESCRIPTORS, Entries, Errno, Kind, MOST_NAME, OpenMode, Verb,
};
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

/// A directory `inside` with a neighbour `outside`, which holds `secret`.
struct Bench {
    around: TempDir,
    limits: TempDir,
    server: Server,
}

impl Bench {
    fn new(limit: u64) -> Self {
        let around = tempfile::tempdir().unwrap();
        for folder in ["inside", "inside/sub", "outside"] {
            fs::create_dir(around.path().join(folder)).unwrap();
        }
        fs::write(around.path().join("outside/secret"), "secret").unwrap();
        let limits = tempfile::tempdir().unwrap();
        let space = limits.path().join("space");
        Space::create(&space, limit).unwrap();
        let server = Server::new(&around.path().join("inside"), Space::open(&space).unwrap()).unwrap();
        Self { around, limits, server }
    }

    /// Another I/O node of the same run.
    fn beside(&self) -> Server {
        let space = Space::open(&self.limits.path().join("space")).unwrap();
        Server::new(&self.path("inside"), space).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.around.path().join(name)
    }

    fn call(&mut self, node: u32, call: Call, data: &[&[u8]]) -> Result<(u64, Kind, Vec<u8>), Errno> {
        let data = data.concat();
        let mut bytes = vec![0; CALL_BYTES + data.len()];
        call.write(&mut bytes).copy_from_slice(&data);
        let mut answer = vec![1; 3];
        self.server.serve(node, &bytes, &mut answer);
        let (Answer { result, kind }, data) = Answer::read(&answer).expect("an answer");
        result.map(|value| (value, kind, data.to_vec()))
    }

    fn named(&mut self, verb: Verb, name: &str) -> Result<(u64, Kind, Vec<u8>), Errno> {
        self.call(0, Call::new(verb), &[name.as_bytes()])
    }

    fn open(&mut self, node: u32, name: &str, mode: OpenMode) -> Result<u32, Errno> {
        let opened = self.call(node, Call { mode, ..Call::new(Verb::Open) }, &[name.as_bytes()]);
        opened.map(|(descriptor, ..)| descriptor as u32)
    }

    fn write(&mut self, descriptor: u32, offset: u64, data: &[u8]) -> Result<u64, Errno> {
        let call = Call { descriptor, offset, ..Call::new(Verb::Write) };
        self.call(0, call, &[data]).map(|(written, ..)| written)
    }

    fn read(&mut self, descriptor: u32, offset: u64, length: u32) -> Result<Vec<u8>, Errno> {
        let call = Call { descriptor, offset, length, ..Call::new(Verb::Read) };
        self.call(0, call, &[]).map(|(_, _, data)| data)
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), Errno> {
        let call = Call { length: from.len() as u32, ..Call::new(Verb::Rename) };
        self.call(0, call, &[from.as_bytes(), to.as_bytes()]).map(|_| ())
    }

    fn names(&mut self, folder: &str, last: &str, length: u32) -> Result<Vec<(Kind, String)>, Errno> {
        let call = Call { length, ..Call::new(Verb::List) };
        let (count, _, data) = self.call(0, call, &[folder.as_bytes(), &[0], last.as_bytes()])?;
        let name = |(kind, name): (Kind, &[u8])| (kind, String::from_utf8(name.to_vec()).unwrap());
        let names: Vec<_> = Entries(&data).map(name).collect();
        assert_eq!(names.len() as u64, count);
        Ok(names)
    }

    /// Nothing outside was changed.
    #[track_caller]
    fn outside_is_untouched(&self) {
        assert_eq!(fs::read_to_string(self.path("outside/secret")).unwrap(), "secret");
        assert_eq!(fs::read_dir(self.path("outside")).unwrap().count(), 1);
        assert_eq!(fs::read_dir(self.around.path()).unwrap().count(), 2);
    }
}

const PLENTY: u64 = 1 << 30;

#[test]
fn s2_files_are_opened_written_read_renamed_listed_and_removed_on_the_host() {
    let mut bench = Bench::new(PLENTY);
    assert_eq!(bench.open(0, "sub/a", OpenMode::READ_ONLY), Err(Errno::ENOENT));
    let a = bench.open(0, "sub/a", OpenMode::UPDATE).unwrap();
    assert_eq!(bench.open(0, "sub/a", OpenMode::NEW | OpenMode::EXCLUSIVE), Err(Errno::EEXIST));
    assert_eq!(bench.write(a, 3, b"defg"), Ok(4));
    assert_eq!(bench.write(a, 0, b"abc"), Ok(3));
    assert_eq!(fs::read(bench.path("inside/sub/a")).unwrap(), b"abcdefg");
    assert_eq!(bench.read(a, 2, 3).unwrap(), b"cde");
    assert_eq!(bench.read(a, 5, 100).unwrap(), b"fg", "fewer at the end alone");
    assert_eq!(bench.read(a, 7, 1).unwrap(), b"");
    let size = Call { descriptor: a, ..Call::new(Verb::Size) };
    assert_eq!(bench.call(0, size, &[]).unwrap().0, 7);
    let anew = OpenMode::WRITE | OpenMode::APPEND | OpenMode::TRUNCATE;
    for mode in [anew | OpenMode::CREATE, anew] {
        let anew = bench.open(0, "sub/anew", mode).unwrap();
        assert_eq!((bench.write(anew, 0, b"x"), bench.write(anew, 0, b"y")), (Ok(1), Ok(1)));
        assert_eq!(fs::read(bench.path("inside/sub/anew")).unwrap(), b"xy");
    }
    bench.named(Verb::Unlink, "sub/anew").unwrap();
    let appending = bench.open(0, "sub/a", OpenMode::WRITE | OpenMode::APPEND).unwrap();
    assert_eq!(bench.write(appending, 0, b"hi"), Ok(2));
    assert_eq!(bench.read(appending, 0, 1), Err(Errno::EBADF), "it is to be written alone");
    assert_eq!(bench.named(Verb::Stat, "sub/a").unwrap(), (9, Kind::File, vec![]));
    assert_eq!(bench.named(Verb::Stat, "sub").unwrap().1, Kind::Directory);
    bench.rename("sub/a", "b").unwrap();
    assert_eq!(fs::read(bench.path("inside/b")).unwrap(), b"abcdefghi");
    let listed = bench.names(".", "", 4000).unwrap();
    assert_eq!(listed, [(Kind::File, "b".to_owned()), (Kind::Directory, "sub".to_owned())]);
    assert_eq!(bench.names(".", "b", 4000).unwrap().len(), 1, "those behind the last one");
    assert_eq!(bench.names(".", "sub", 4000).unwrap(), []);
    assert_eq!(bench.names(".", "", 3).unwrap().len(), 1, "as many as there is room for");
    assert_eq!(bench.names(".", "", 2), Err(Errno::EINVAL));
    bench.open(0, "b", OpenMode::NEW).unwrap();
    assert_eq!(fs::read(bench.path("inside/b")).unwrap(), b"", "it was truncated");
    bench.named(Verb::Unlink, "b").unwrap();
    assert!(!bench.path("inside/b").exists());
    for (verb, wrong) in [(Verb::Unlink, Errno::ENOENT), (Verb::Stat, Errno::ENOENT)] {
        assert_eq!(bench.named(verb, "b"), Err(wrong));
    }
    assert_eq!(bench.open(0, "sub", OpenMode::READ_ONLY), Err(Errno::EISDIR));
    assert_eq!(bench.call(0, Call { descriptor: a, ..Call::new(Verb::Close) }, &[]).map(|_| ()), Ok(()));
    assert_eq!(bench.read(a, 0, 1), Err(Errno::EBADF), "it was closed");
}

#[test]
fn s2_no_name_leads_out_of_the_directory() {
    let mut bench = Bench::new(PLENTY);
    let outside = bench.path("outside");
    symlink(&outside, bench.path("inside/absolute")).unwrap();
    symlink("../outside", bench.path("inside/relative")).unwrap();
    symlink("../outside/secret", bench.path("inside/file")).unwrap();
    symlink("../outside/made", bench.path("inside/dangling")).unwrap();
    symlink("sub", bench.path("inside/good")).unwrap();
    symlink("/proc/self/root", bench.path("inside/magic")).unwrap();
    let secret = outside.join("secret");
    let names = [
        "../outside/secret",
        "sub/../../outside/secret",
        secret.to_str().unwrap(),
        "absolute/secret",
        "relative/secret",
        "file",
        "good/../../outside/secret",
        "magic/etc/passwd",
        "..",
        "/",
        "/etc/passwd",
    ];
    for name in names {
        for mode in [OpenMode::READ_ONLY, OpenMode::UPDATE, OpenMode::NEW, OpenMode::WRITE | OpenMode::APPEND]
        {
            assert!(bench.open(0, name, mode).is_err(), "{name} was opened");
        }
        assert_eq!(bench.named(Verb::Stat, name).map(|_| ()), Err(Errno::EACCES), "{name}");
        assert!(name == "file" || bench.named(Verb::Unlink, name).is_err(), "{name} was removed");
        assert!(bench.names(name, "", 4000).is_err(), "{name} was listed");
        assert!(bench.rename(name, "sub/taken").is_err() || name == "file", "{name} was moved in");
    }
    for name in ["../outside/new", "absolute/new", "relative/new", "dangling", "sub/../../new"] {
        assert!(bench.open(0, name, OpenMode::UPDATE).is_err(), "{name} was made");
        assert!(bench.open(0, name, OpenMode::NEW | OpenMode::EXCLUSIVE).is_err(), "{name} was made");
    }
    bench.open(0, "mine", OpenMode::NEW).unwrap();
    for name in ["../outside/mine", "../mine", "absolute/mine", "relative/secret"] {
        assert!(bench.rename("mine", name).is_err(), "{name}");
    }
    // A link that stays inside is no harm.
    bench.open(0, "good/fine", OpenMode::NEW).unwrap();
    assert!(bench.path("inside/sub/fine").exists());
    bench.outside_is_untouched();
}

#[test]
fn s2_who_moves_directories_meanwhile_leads_nobody_out() {
    let mut bench = Bench::new(PLENTY);
    fs::write(bench.path("inside/sub/secret"), "inside").unwrap();
    let (sub, aside, link) =
        (bench.path("inside/sub"), bench.path("inside/aside"), bench.path("inside/link"));
    symlink("../outside", &link).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // `sub` is a directory and a link that leads out in turn.
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                fs::rename(&sub, &aside).unwrap();
                fs::rename(&link, &sub).unwrap();
                std::thread::yield_now();
                fs::rename(&sub, &link).unwrap();
                fs::rename(&aside, &sub).unwrap();
            }
        });
        for _ in 0..3000 {
            for name in ["sub/secret", "sub/./secret", "aside/../sub/secret"] {
                if let Ok(file) = bench.open(0, name, OpenMode::UPDATE) {
                    let text = bench.read(file, 0, 100).unwrap();
                    assert_ne!(text, b"secret", "it was led out");
                    bench.call(0, Call { descriptor: file, ..Call::new(Verb::Close) }, &[]).unwrap();
                }
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    bench.outside_is_untouched();
}

#[test]
fn s2_what_is_no_file_is_not_opened_and_nobody_waits_for_it() {
    let mut bench = Bench::new(PLENTY);
    let pipe = bench.path("inside/pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    for mode in [OpenMode::READ_ONLY, OpenMode::WRITE, OpenMode::UPDATE] {
        assert!(bench.open(0, "pipe", mode).is_err());
    }
    assert_eq!(bench.named(Verb::Stat, "pipe").unwrap().1, Kind::Other);
    assert_eq!(bench.names(".", "", 4000).unwrap()[0].0, Kind::Other);
}

#[test]
fn s2_a_disk_that_fails_is_eio_and_nothing_else_fails() {
    // This process's memory is a file, whose first page can be neither read nor written.
    let mut bench = Bench::new(PLENTY);
    let space = Space::open(&bench.limits.path().join("space")).unwrap();
    bench.server = Server::new(Path::new("/proc/self"), space).unwrap();
    let memory = bench.open(0, "mem", OpenMode::READ | OpenMode::WRITE).unwrap();
    assert_eq!(bench.read(memory, 0, 100), Err(Errno::EIO));
    assert_eq!(bench.write(memory, 0, b"x"), Err(Errno::EIO));
    let good = bench.open(0, "comm", OpenMode::READ_ONLY).unwrap();
    assert_ne!(bench.read(good, 0, 100).unwrap(), b"");
}

#[test]
fn s2_a_node_has_so_many_files_open_and_none_of_anothers() {
    let mut bench = Bench::new(PLENTY);
    let all: Vec<u32> = (0..DESCRIPTORS).map(|_| bench.open(0, "a", OpenMode::UPDATE).unwrap()).collect();
    assert_eq!(bench.open(0, "a", OpenMode::UPDATE), Err(Errno::EMFILE));
    let other = bench.open(1, "a", OpenMode::UPDATE).expect("node 1 has its own");
    for descriptor in all.iter().copied().chain([other ^ 1 << 8, u32::MAX, 0]) {
        let close = Call { descriptor, ..Call::new(Verb::Close) };
        assert!(descriptor == other || bench.call(1, close, &[]).is_err(), "node 1 closed {descriptor}");
    }
    bench.call(0, Call { descriptor: all[3], ..Call::new(Verb::Close) }, &[]).unwrap();
    let again = bench.open(0, "a", OpenMode::UPDATE).expect("one was closed");
    assert_ne!(again, all[3], "who kept the old descriptor has not the new file");
    assert_eq!(bench.read(all[3], 0, 1), Err(Errno::EBADF));
}

#[test]
fn s2_files_grow_by_as_much_as_they_may_and_no_more() {
    let mut bench = Bench::new(NEW_FILE + 10);
    let a = bench.open(0, "a", OpenMode::UPDATE).unwrap();
    assert_eq!(bench.open(0, "b", OpenMode::UPDATE), Err(Errno::ENOSPC), "a file counts too");
    assert_eq!(bench.write(a, 11, b"x"), Err(Errno::ENOSPC), "so does a hole");
    assert_eq!(bench.write(a, 0, b"12345678"), Ok(8));
    assert_eq!(bench.write(a, 4, b"5678"), Ok(4), "what is there is free");
    assert_eq!(bench.write(a, 6, b"789012"), Ok(4), "as much as there is space for");
    assert_eq!(bench.write(a, 10, b"1"), Err(Errno::ENOSPC));
    assert_eq!(bench.write(a, 10, b""), Ok(0));
    assert_eq!(bench.write(a, u64::MAX, b"1"), Err(Errno::EFBIG));
    assert_eq!(bench.write(a, i64::MAX as u64, b"1"), Err(Errno::EFBIG));
    let appending = bench.open(0, "a", OpenMode::WRITE | OpenMode::APPEND).unwrap();
    assert_eq!(bench.write(appending, 0, b"1"), Err(Errno::ENOSPC), "it would go to the end");
    assert_eq!(fs::read(bench.path("inside/a")).unwrap(), b"1234567890");
}

#[test]
fn s2_files_grow_by_as_much_as_they_may_whichever_io_nodes_do_it() {
    let mut bench = Bench::new(NEW_FILE + 100);
    let mut servers = [bench.beside(), bench.beside()];
    let mut on = |which: usize, act: &mut dyn FnMut(&mut Bench)| {
        std::mem::swap(&mut bench.server, &mut servers[which]);
        act(&mut bench);
        std::mem::swap(&mut bench.server, &mut servers[which]);
    };
    let mut files = [0; 2];
    for which in [0, 1] {
        on(which, &mut |bench| files[which] = bench.open(0, "a", OpenMode::UPDATE).unwrap());
    }
    // One makes the file longer than the half, and the other fills what is before.
    on(1, &mut |bench| assert_eq!(bench.write(files[1], 70, &[1; 20]), Ok(20)));
    on(0, &mut |bench| assert_eq!(bench.write(files[0], 0, &[1; 70]), Ok(70)));
    on(0, &mut |bench| assert_eq!(bench.write(files[0], 90, &[1; 20]), Ok(10), "as much as is left of all"));
    on(1, &mut |bench| assert_eq!(bench.write(files[1], 100, &[1]), Err(Errno::ENOSPC)));
}

#[test]
fn s2_names_that_cannot_be_are_refused() {
    let mut bench = Bench::new(PLENTY);
    let long = "n".repeat(MOST_NAME + 1);
    for (name, wrong) in [("", Errno::ENOENT), (long.as_str(), Errno::ENAMETOOLONG), ("a\0b", Errno::EINVAL)]
    {
        assert_eq!(bench.open(0, name, OpenMode::UPDATE), Err(wrong), "{name:?}");
        assert_eq!(bench.named(Verb::Unlink, name).map(|_| ()), Err(wrong), "{name:?}");
        assert_eq!(bench.names(name, "", 4000).map(|_| ()), Err(wrong), "{name:?}");
    }
    bench.open(0, &long[1..], OpenMode::UPDATE).expect("the longest name");
    for mode in [
        OpenMode::empty(),
        OpenMode::APPEND,
        OpenMode::READ | OpenMode::CREATE,
        OpenMode::from_bits_retain(1 | 1 << 14),
    ] {
        assert_eq!(bench.open(0, "a", mode), Err(Errno::EINVAL), "{mode:?}");
    }
    let call = Call { length: 9, ..Call::new(Verb::Rename) };
    assert_eq!(bench.call(0, call, &[b"short"]).map(|_| ()), Err(Errno::EINVAL));
    assert_eq!(bench.call(0, Call::new(Verb::List), &[b"no zero"]).map(|_| ()), Err(Errno::EINVAL));
}

/// Every file below a folder.
fn all_below(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).unwrap().flatten();
    entries.map(|entry| if entry.path().is_dir() { all_below(&entry.path()) } else { 1 }).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn d9_any_bytes_of_a_hostile_node_are_answered_and_stay_inside(
        calls in proptest::collection::vec(
            (0u8..10, any::<u16>(), 0u32..0x400, any::<u64>(), 0u32..5000, "[a./\0]{0,12}"), 1..40
        ),
        noise in proptest::collection::vec(any::<u8>(), 0..60)
    ) {
        let mut bench = Bench::new(1 << 16);
        symlink("../outside", bench.path("inside/a")).unwrap();
        let mut answer = Vec::new();
        bench.server.serve(0, &noise, &mut answer);
        prop_assert!(Answer::read(&answer).is_some());
        for (verb, mode, descriptor, offset, length, data) in calls {
            let call = Call { mode: OpenMode::from_bits_retain(mode % 64), descriptor, offset, length, ..Call::new(Verb::Open) };
            let mut bytes = vec![0; CALL_BYTES + data.len()];
            call.write(&mut bytes).copy_from_slice(data.as_bytes());
            bytes[1] = verb;
            bench.server.serve(0, &bytes, &mut answer);
            prop_assert!(Answer::read(&answer).is_some());
            prop_assert!(answer.len() <= pami::combine::packet::MOST_PAYLOAD && answer.len() >= ANSWER_BYTES);
        }
        bench.outside_is_untouched();
        prop_assert!(all_below(&bench.path("inside")) <= 17, "files count for the limit");
    }
}
