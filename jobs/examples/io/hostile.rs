//! Calls that must fail: names that lead out of the directory, too many descriptors, too many bytes. On the host the directory has
//! a link `leaves`, which leads out of it, if the test has made one.

use kernel::file_calls::{DESCRIPTORS, Errno, OpenMode};
use kernel::{File, FileError, JobError, JobFiles, SeekFrom, Task};

/// Names outside.
const OUTSIDE: [&str; 8] = [
    "..",
    "../outside",
    "../outside/secret",
    "./../outside/secret",
    "/etc/passwd",
    "/",
    "leaves",
    "leaves/secret",
];

/// Where a file cannot be that is as long as it may.
const FAR: u64 = 1 << 50;

/// Makes all of them.
pub fn try_all(task: &Task, files: &JobFiles) -> Result<(), JobError> {
    let mut refused = 0;
    let mut expect = |wanted: &[Errno], verb: &str, name: &str, result: Result<(), FileError>| match result {
        Err(error)
            if wanted.contains(&error.errno) && (error.name == name || name.len() > error.name.len()) =>
        {
            if task.number() == 0 {
                defmt::println!("refused: {}", defmt::Display2Format(&error));
            }
            refused += 1;
            Ok(())
        }
        Err(error) => {
            defmt::error!("{=str} {=str}: another error: {}", verb, name, defmt::Display2Format(&error));
            Err(JobError::Other("a hostile call failed otherwise than it should"))
        }
        Ok(()) => {
            defmt::error!("{=str} {=str} was done", verb, name);
            Err(JobError::Other("a hostile call was done"))
        }
    };
    const OUT: &[Errno] = &[Errno::EACCES];
    // What is no file either may say so first.
    const NO: &[Errno] = &[Errno::EACCES, Errno::EISDIR, Errno::EBUSY, Errno::EXDEV, Errno::ENOTEMPTY];
    let victim = "io.victim";
    files.open(victim, OpenMode::NEW)?.close()?;
    for name in OUTSIDE {
        expect(OUT, "open", name, files.open(name, OpenMode::READ_ONLY).map(drop))?;
        expect(NO, "open", name, files.open(name, OpenMode::NEW).map(drop))?;
        expect(OUT, "stat", name, files.stat(name).map(drop))?;
        expect(OUT, "readdir", name, files.read_dir(name, |_, _| {}))?;
        if name != "leaves" {
            expect(NO, "rename", victim, files.rename(victim, name))?;
            expect(NO, "unlink", name, files.unlink(name))?;
        }
    }
    let long = core::str::from_utf8(&[b'n'; 300]).unwrap_or("");
    expect(&[Errno::ENAMETOOLONG], "open", long, files.open(long, OpenMode::UPDATE).map(drop))?;
    expect(&[Errno::EINVAL], "open", "a\0b", files.open("a\0b", OpenMode::UPDATE).map(drop))?;
    expect(&[Errno::ENOENT], "open", "", files.open("", OpenMode::UPDATE).map(drop))?;
    expect(
        &[Errno::EEXIST],
        "open",
        victim,
        files.open(victim, OpenMode::NEW | OpenMode::EXCLUSIVE).map(drop),
    )?;
    expect(&[Errno::EINVAL], "open", victim, files.open(victim, OpenMode::APPEND).map(drop))?;

    let mut open: [Option<File>; DESCRIPTORS] = [const { None }; DESCRIPTORS];
    for place in &mut open {
        *place = Some(files.open(victim, OpenMode::UPDATE)?);
    }
    expect(&[Errno::EMFILE], "open", victim, files.open(victim, OpenMode::UPDATE).map(drop))?;
    let Some(mut file) = open[0].take() else { return Err(JobError::Other("no file")) };
    // One that is closed makes room for another.
    open[1] = None;
    files.open(victim, OpenMode::READ_ONLY)?.close()?;

    expect(&[Errno::ENOSPC], "write", victim, file.write_at(FAR, b"x").map(drop))?;
    expect(&[Errno::EFBIG], "write", victim, file.write_at(u64::MAX, b"x").map(drop))?;
    expect(&[Errno::EINVAL], "seek", victim, file.seek(SeekFrom::Current(-1)).map(drop))?;
    let reader = files.open(victim, OpenMode::READ_ONLY)?;
    expect(&[Errno::EBADF], "write", victim, reader.write_at(0, b"x").map(drop))?;
    if file.size()? != 0 {
        return Err(JobError::Other("a write that was refused was done"));
    }
    drop((open, file, reader));
    files.unlink(victim)?;
    expect(&[Errno::ENOENT], "unlink", victim, files.unlink(victim))?;
    defmt::println!("task {=u32}: {=u32} hostile calls were refused", task.number(), refused);
    Ok(())
}
