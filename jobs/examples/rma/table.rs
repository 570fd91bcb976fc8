//! The table of one-sided operations.

use super::ways::{Way, Ways};
use super::{LONGEST, SPAN, pattern, say};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use kernel::{
    Active, Completion, Done, Fetched, Get, JobError, Layout, OnFetched, Payload, Put, Rmw, RmwOp, Shared,
    Task, Update, Width,
};

const SIZES: [usize; 6] = [8, 64, 512, 4096, 1 << 16, LONGEST];
/// Operations that are timed one by one, where none says how many.
const ROUNDS: u32 = 100;
/// From this size on there are fewer.
const LONG: usize = 4096;
/// Places in a region: the word for updates, what is put, the pattern.
const WORD: u32 = 0;
const PLACE: u32 = 64;
const PATTERN: u32 = PLACE + LONGEST as u32;

/// What callbacks share.
struct State {
    ended: AtomicU64,
    wrong: AtomicU64,
    /// What the word must be when it is fetched next.
    word: AtomicU64,
}

struct Bench {
    ways: Ways,
    state: &'static State,
    pattern: &'static [u8],
    landing: Shared,
    on_ended: Done,
    /// Of an update that makes the word 0.
    on_begun: OnFetched,
    on_fetched: OnFetched,
    begun: u64,
    row: usize,
    rounds: u32,
}

/// Nanoseconds of one operation alone, and of one among many.
#[derive(Clone, Copy)]
struct Times {
    alone: u64,
    among: u64,
}

pub fn run(task: &'static Task, rounds: Option<u32>) -> Result<(), JobError> {
    let pattern = pattern(task)?;
    let mut ways = Ways::new(task, PATTERN as usize + SPAN, |_, builder| builder)?;
    for region in &ways.regions {
        let _ = region.memory().write(PATTERN as usize, pattern);
    }
    ways.meet()?;
    if task.number() > 0 {
        return ways.serve();
    }
    let mut bench = Bench::new(ways, pattern, rounds.unwrap_or(ROUNDS))?;
    bench.ways.await_silence()?;
    let list = bench.ways.list()?;
    say(format_args!("path             bytes      put us      MB/s      get us      MB/s"));
    for way in &list {
        for size in SIZES {
            let before = bench.sent_bytes();
            let (put, get) = (bench.puts(way, size)?, bench.gets(way, size)?);
            let [put_us, get_us] = [put, get].map(|times| Microseconds(times.alone));
            let [put_rate, get_rate] = [put, get].map(|times| 1000 * size as u64 / times.among.max(1));
            say(format_args!(
                "{:<14} {size:>7} {put_us:>11} {put_rate:>9} {get_us:>11} {get_rate:>9}",
                way.name
            ));
            bench.count_wrong((bench.sent_bytes() > before) != way.network);
        }
    }
    say(format_args!("path             bytes   update us  updates/s"));
    for way in &list {
        let times = bench.updates(way)?;
        let (us, rate) = (Microseconds(times.alone), 1_000_000_000 / times.among.max(1));
        say(format_args!("{:<14} {:>7} {us:>11} {rate:>10}", way.name, size_of::<u64>()));
    }
    bench.ways.end()?;
    let wrong = bench.state.wrong.load(Relaxed);
    say(format_args!("{} rows, {wrong} wrong", bench.row));
    if wrong == 0 { Ok(()) } else { Err(JobError::Other("data came wrong")) }
}

/// Nanoseconds, shown in microseconds.
pub struct Microseconds(pub u64);

impl core::fmt::Display for Microseconds {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut text = heapless::String::<24>::new();
        let _ = core::fmt::Write::write_fmt(
            &mut text,
            format_args!("{}.{:02}", self.0 / 1000, self.0 % 1000 / 10),
        );
        f.pad(&text)
    }
}

impl Bench {
    fn new(ways: Ways, pattern: &'static [u8], rounds: u32) -> Result<Self, JobError> {
        let memory = ways.task.memory();
        let state: &'static State = memory.place(State {
            ended: AtomicU64::new(0),
            wrong: AtomicU64::new(0),
            word: AtomicU64::new(0),
        })?;
        let ended = memory.place(move |_: &mut Active, completion: Completion| {
            state.wrong.fetch_add(completion.result.is_err().into(), Relaxed);
            state.ended.fetch_add(1, Relaxed);
        })?;
        let fetched = memory.place(move |_: &mut Active, fetched: Fetched| {
            let expected = state.word.fetch_add(1, Relaxed);
            state.wrong.fetch_add((fetched.result != Ok(expected)).into(), Relaxed);
            state.ended.fetch_add(1, Relaxed);
        })?;
        let begun = memory.place(move |_: &mut Active, fetched: Fetched| {
            state.wrong.fetch_add(fetched.result.is_err().into(), Relaxed);
            state.word.store(0, Relaxed);
            state.ended.fetch_add(1, Relaxed);
        })?;
        Ok(Self {
            landing: memory.buffer(LONGEST)?.share(),
            ways,
            state,
            pattern,
            on_ended: Done { call: ended, cookie: 0 },
            on_begun: OnFetched { call: begun, cookie: 0 },
            on_fetched: OnFetched { call: fetched, cookie: 0 },
            begun: 0,
            row: 0,
            rounds,
        })
    }

    /// Times an operation that calls back.
    fn time(
        &mut self,
        size: usize,
        mut begin: impl FnMut(&mut Self) -> Result<(), JobError>,
    ) -> Result<Times, JobError> {
        let rounds = if size < LONG { self.rounds } else { self.rounds.div_ceil(10) };
        for _ in 0..rounds.div_ceil(10) {
            begin(self)?;
        }
        self.wait()?;
        let start = self.now();
        for _ in 0..rounds {
            begin(self)?;
            self.wait()?;
        }
        let middle = self.now();
        for _ in 0..rounds {
            begin(self)?;
        }
        self.wait()?;
        let end = self.now();
        Ok(Times { alone: (middle - start) / u64::from(rounds), among: (end - middle) / u64::from(rounds) })
    }

    fn sent_bytes(&self) -> u64 {
        self.ways.task.unit().statistics().sent_bytes
    }

    fn count_wrong(&self, wrong: bool) {
        self.state.wrong.fetch_add(wrong.into(), Relaxed);
    }

    fn now(&self) -> u64 {
        self.ways.task.now_ns()
    }

    /// Waits until all that was begun has ended.
    fn wait(&mut self) -> Result<(), JobError> {
        let (state, begun) = (self.state, self.begun);
        self.ways.wait(|| state.ended.load(Relaxed) >= begun)
    }

    /// Where in the pattern the data of this row starts.
    fn start(&self) -> usize {
        self.row % (SPAN - LONGEST)
    }

    fn puts(&mut self, way: &Way, size: usize) -> Result<Times, JobError> {
        self.row += 1;
        let times = self.time(size, |bench| bench.put(way, size))?;
        self.clear_landing();
        self.get(way, PLACE, size)?;
        self.check_landing(size)?;
        Ok(times)
    }

    fn gets(&mut self, way: &Way, size: usize) -> Result<Times, JobError> {
        self.row += 1;
        self.clear_landing();
        let start = PATTERN + self.start() as u32;
        let times = self.time(size, |bench| bench.get(way, start, size))?;
        self.check_landing(size)?;
        Ok(times)
    }

    fn updates(&mut self, way: &Way) -> Result<Times, JobError> {
        self.row += 1;
        // Ways may end in the same region.
        let first = RmwOp { width: Width::Eight, update: Update::Swap(0) };
        self.update(way, first, self.on_begun)?;
        self.wait()?;
        let next = RmwOp { width: Width::Eight, update: Update::Add(1) };
        self.time(size_of::<u64>(), |bench| bench.update(way, next, bench.on_fetched))
    }

    fn put(&mut self, way: &Way, size: usize) -> Result<(), JobError> {
        let &Way { target, region, .. } = way;
        let (start, done) = (self.start(), self.on_ended);
        let payload = &self.pattern[start..start + size];
        self.begun += 1;
        self.ways.attempt(way.context, |active| {
            let put = Put {
                target,
                region,
                offset: PLACE,
                layout: Layout::Contiguous,
                payload: Payload::Static(payload),
                payload_layout: Layout::Contiguous,
                local_done: None,
                remote_done: Some(done),
            };
            active.put(put).map_err(|(error, _)| error)
        })
    }

    fn get(&mut self, way: &Way, offset: u32, size: usize) -> Result<(), JobError> {
        let &Way { target, region, .. } = way;
        let (into, done) = (self.landing.clone(), Some(self.on_ended));
        self.begun += 1;
        self.ways.attempt(way.context, |active| {
            active.get(Get {
                target,
                region,
                offset,
                layout: Layout::Contiguous,
                into: into.clone(),
                at: 0,
                into_layout: Layout::Contiguous,
                len: size as u32,
                done,
            })
        })
    }

    fn update(&mut self, way: &Way, op: RmwOp, done: OnFetched) -> Result<(), JobError> {
        let &Way { target, region, .. } = way;
        self.begun += 1;
        self.ways.attempt(way.context, |active| {
            active.rmw(Rmw { target, region, offset: WORD, op, done: Some(done) })
        })
    }

    fn clear_landing(&mut self) {
        for at in (0..LONGEST).step_by(512) {
            let _ = self.landing.write(at, &[0; 512]);
        }
    }

    /// Counts the row as wrong if what has landed is not its data, or is more.
    fn check_landing(&mut self, size: usize) -> Result<(), JobError> {
        self.wait()?;
        let start = self.start();
        let mut good = true;
        for at in (0..LONGEST).step_by(512) {
            let mut bytes = [0; 512];
            good &= self.landing.read(at, &mut bytes).is_ok();
            let (data, rest) = bytes.split_at(size.saturating_sub(at).min(512));
            good &= data == &self.pattern[start + at.min(size)..][..data.len()]
                && rest.iter().all(|&byte| byte == 0);
        }
        self.count_wrong(!good);
        Ok(())
    }
}
