//! Files: all tasks write, read and check what the I/O nodes keep for them, and the rates of that; hostile calls.
//!
//! SPEC S-2.
//!
//! Each task makes data for the next one and sends it there over the torus; who got it writes it, to a file that all share and to
//! one of its own, in transfers of up to 1 MiB and of 4 KiB. What a task reads and checks is what another wrote, in the
//! shared file, or its own. A second shared file is MPI's: each call of all tasks writes strips of 4 KiB of each in turn, through a view,
//! and reads another's through its view. `--size MIB` (8) is of all tasks together in each file. `--keep` leaves the files.
//! With `--hostile` calls that must fail are made instead, with `--read NAME` each task reads a file that is there.
#![no_std]
#![no_main]

mod data;
mod hostile;
mod rates;

use data::Block;
use kernel::file_calls::{Kind, OpenMode};
use kernel::{File, JobError, JobFiles, Task};
use mpi::{Amode, Basic, Communicator, Datatype, Mpi};
use rates::Rates;

kernel::entry!(main, jobs::USAGE);

/// The file that all share.
pub const SHARED: &str = "io.shared";
/// That of MPI's.
const STRIPS: &str = "io.strips";
/// The longest transfer.
const TRANSFER: u64 = 1 << 20;
/// The short ones, and how many of them a task does.
const SHORT: u64 = 4096;
const SHORTS: u64 = 64;
/// How often a task opens and closes a file.
const OPENS: u64 = 64;

const WRONG: JobError = JobError::Other("what was read is not what was written");

/// A task at work.
struct Worker {
    task: &'static Task,
    world: Communicator<Task>,
    files: JobFiles,
    /// What is written, and what is read or sent.
    out: Block,
    other: Block,
    own: u64,
    tasks: u64,
}

fn main(task: &'static Task) -> Result<(), JobError> {
    let mpi = Mpi::init(task)?;
    let arguments = task.arguments();
    let size = arguments.get::<u64>("--size")?.unwrap_or(8) << 20;
    let tasks = u64::from(task.tasks());
    // Whole short transfers, as many bytes for each task.
    let each = (size / tasks / SHORT).max(1) * SHORT;
    let blocks = each.div_ceil(TRANSFER);
    let transfer = each / blocks / SHORT * SHORT;
    let block = || Block::new(task, transfer as usize);
    let (out, other) = (block()?, block()?);
    let own = task.number().into();
    let mut worker = Worker { task, world: mpi.world(), files: task.files()?, out, other, own, tasks };
    if let Some(name) = arguments.word("--read") {
        worker.read_whole(name)?;
    } else if arguments.has("--hostile") {
        worker.in_turn(|worker| hostile::try_all(worker.task, &worker.files))?;
    } else {
        worker.work(blocks, transfer, arguments.has("--keep"))?;
    }
    mpi.finalize()?;
    Ok(())
}

impl Worker {
    fn work(&mut self, blocks: u64, transfer: u64, keep: bool) -> Result<(), JobError> {
        let mut rates = Rates::new(self.task);
        let mut name = heapless::String::<32>::new();
        core::fmt::write(&mut name, format_args!("io.task-{}", self.own))?;
        self.barrier()?;
        let (own, tasks) = (self.own, self.tasks);
        // Blocks of all tasks lie in turn in the shared file, and what is read there another has written.
        let in_turn = |task: u64| move |block: u64| (block * tasks + task) * transfer;
        let apart = |block: u64| block * transfer;
        let file = self.files.open(SHARED, OpenMode::UPDATE)?;
        self.barrier()?;
        if own == 0 {
            defmt::println!("all tasks have opened {=str}", file.name());
        }
        let row = rates.row("shared file", transfer, blocks);
        row.written = self.timed(|it| it.write(&file, 0, blocks, transfer, in_turn(own)))?;
        row.read = self.timed(|it| it.read(&file, 0, blocks, transfer, in_turn((own + 1) % tasks)))?;
        // Behind these, short ones.
        let behind = blocks * transfer * tasks;
        let in_turn = |task: u64| move |block: u64| behind + (block * tasks + task) * SHORT;
        let row = rates.row("shared file", SHORT, SHORTS);
        row.written = self.timed(|it| it.write(&file, 0, SHORTS, SHORT, in_turn(own)))?;
        row.read = self.timed(|it| it.read(&file, 0, SHORTS, SHORT, in_turn((own + 1) % tasks)))?;
        file.close()?;

        let tag = own + 1;
        let file = self.files.open(&name, OpenMode::UPDATE | OpenMode::TRUNCATE)?;
        let row = rates.row("file per task", transfer, blocks);
        row.written = self.timed(|it| it.write(&file, tag, blocks, transfer, apart))?;
        row.read = self.timed(|it| it.read(&file, tag, blocks, transfer, apart))?;
        let behind = blocks * transfer;
        let row = rates.row("file per task", SHORT, SHORTS);
        row.written = self.timed(|it| it.write(&file, tag, SHORTS, SHORT, |block| behind + block * SHORT))?;
        row.read = self.timed(|it| it.read(&file, tag, SHORTS, SHORT, |block| behind + block * SHORT))?;
        file.close()?;

        self.strips(&mut rates, blocks, transfer)?;
        let files = self.files;
        rates.opens = self
            .timed(|_| (0..OPENS).try_for_each(|_| Ok(files.open(&name, OpenMode::READ_ONLY)?.close()?)))?;
        self.names(&name, behind + SHORTS * SHORT)?;
        if own == 0 {
            rates.tell(OPENS);
        }
        if !keep {
            self.files.unlink(&name)?;
            if own == 0 {
                self.files.unlink(SHARED)?;
                self.files.unlink(STRIPS)?;
            }
        }
        Ok(())
    }

    /// Transfers of all tasks to strips that lie in turn.
    fn strips(&mut self, rates: &mut Rates, blocks: u64, transfer: u64) -> Result<(), JobError> {
        let (own, tasks, tag, len) = (self.own, self.tasks, self.tasks + 1, transfer as usize);
        let (byte, types) = (Datatype::from(Basic::Byte), self.world.library().types());
        let strip = types.contiguous(SHORT as usize, &byte)?;
        let in_turn = types.resized(&strip, 0, (SHORT * tasks) as isize)?;
        in_turn.commit();
        let place = |task: u64, block: u64| {
            move |strip: u64| ((block * (transfer / SHORT) + strip) * tasks + task) * SHORT
        };
        let file = mpi::File::open(&self.world, self.files, STRIPS, Amode::RDWR | Amode::CREATE)?;
        let row = rates.row("shared by MPI", transfer, blocks);
        file.set_view(own * SHORT, &byte, &in_turn)?;
        row.written = self.timed(|it| {
            (0..blocks).try_for_each(|block| {
                it.out.fill(len, tag, SHORT as usize, place(own, block));
                it.out.lend(len, |data| Ok(file.write_all(data)?)).map(drop)
            })
        })?;
        file.sync()?;
        let other = (own + 1) % tasks;
        file.set_view(other * SHORT, &byte, &in_turn)?;
        row.read = self.timed(|it| {
            (0..blocks).try_for_each(|block| {
                let read = it.other.lend(len, |data| Ok(file.read_all(data)?))?.len;
                let right = read == len && it.other.is_right(len, tag, SHORT as usize, place(other, block));
                if right { Ok(()) } else { Err(WRONG) }
            })
        })?;
        Ok(file.close()?)
    }

    /// Reads a file to its end, and says how long it is.
    fn read_whole(&mut self, name: &str) -> Result<(), JobError> {
        let mut file = self.files.open(name, OpenMode::READ_ONLY)?;
        let mut bytes = 0;
        while let read @ 1.. = file.read(self.other.bytes_mut(TRANSFER as usize))? {
            bytes += read;
        }
        defmt::println!("task {=u64} read {=usize} bytes of {=str}", self.own, bytes, name);
        Ok(file.close()?)
    }

    /// What a name is, that it can be another and be found among all, and that its end is where it was written.
    fn names(&mut self, name: &str, size: u64) -> Result<(), JobError> {
        let mut moved = heapless::String::<32>::new();
        core::fmt::write(&mut moved, format_args!("{name}.moved"))?;
        self.files.rename(name, &moved)?;
        let stat = self.files.stat(&moved)?;
        let mut file = self.files.open(&moved, OpenMode::READ_ONLY)?;
        let end = file.seek(kernel::SeekFrom::End(0))?;
        if (stat.kind, stat.size, end) != (Kind::File, size, size) || file.read(&mut [0; 8])? != 0 {
            return Err(JobError::Other("a file has not the size that was written"));
        }
        file.close()?;
        self.barrier()?;
        let mut found = 0;
        let files = self.files;
        files.read_dir(".", |kind, name| {
            let moved = name.starts_with(b"io.task-") && name.ends_with(b".moved");
            // Who is told a name may call for it at once.
            let is_there = || core::str::from_utf8(name).is_ok_and(|name| files.stat(name).is_ok());
            found += u64::from(kind == Kind::File && moved && is_there());
        })?;
        if found < self.tasks {
            return Err(JobError::Other("a directory has not all names that were made in it"));
        }
        self.barrier()?;
        Ok(self.files.rename(&moved, name)?)
    }

    /// Writes so many transfers, each at its offset, of what the task before sent. `tag` says of which file the data is.
    fn write(
        &mut self,
        file: &File,
        tag: u64,
        count: u64,
        transfer: u64,
        at: impl Fn(u64) -> u64,
    ) -> Result<(), JobError> {
        let (next, before) = ((self.own + 1) % self.tasks, (self.own + self.tasks - 1) % self.tasks);
        for number in 0..count {
            let len = transfer as usize;
            let offset = at(number);
            if tag == 0 && transfer > SHORT {
                // The next one's place in the shared file is behind this one's.
                let there = offset - self.own * transfer + next * transfer;
                self.other.fill(len, tag, len, |_| there);
                self.other.shift(&mut self.out, len, &self.world, [next, before])?;
            } else {
                self.out.fill(len, tag, len, |_| offset);
            }
            file.write_all_at(offset, self.out.bytes(len))?;
        }
        Ok(())
    }

    /// Reads so many, and checks them.
    fn read(
        &mut self,
        file: &File,
        tag: u64,
        count: u64,
        transfer: u64,
        at: impl Fn(u64) -> u64,
    ) -> Result<(), JobError> {
        for number in 0..count {
            let len = transfer as usize;
            if file.read_at(at(number), self.other.bytes_mut(len))? != len {
                return Err(JobError::Other("a file is shorter than what was written"));
            }
            if !self.other.is_right(len, tag, len, |_| at(number)) {
                return Err(WRONG);
            }
        }
        Ok(())
    }

    /// How long `work` takes all tasks together, in nanoseconds.
    fn timed(&mut self, work: impl FnOnce(&mut Self) -> Result<(), JobError>) -> Result<u64, JobError> {
        self.barrier()?;
        let start = self.task.now_ns();
        work(self)?;
        self.barrier()?;
        Ok(self.task.now_ns() - start)
    }

    /// Each task in its turn.
    fn in_turn(&mut self, work: impl Fn(&Self) -> Result<(), JobError>) -> Result<(), JobError> {
        for turn in 0..self.tasks {
            if turn == self.own {
                work(self)?;
            }
            self.barrier()?;
        }
        Ok(())
    }

    fn barrier(&self) -> Result<(), JobError> {
        Ok(self.world.barrier()?)
    }
}
