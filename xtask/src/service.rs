//! `cargo xtask service`: nodes stay, and jobs take turns on them (SPEC S-1).
//!
//! Jobs come in lines and start in their order, each as soon as enough nodes are free. One that waits for nodes holds up those behind
//! it, so that none waits for ever.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::BufRead;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use pami::topology::TorusShape;
use serde_json::{Value, json};

use crate::json;
use crate::progress::Voice;
use crate::run::{Outcome, Partition, Run};

/// How often Ctrl-C is looked at.
const TICK: Duration = Duration::from_millis(50);

/// What is done with how a run went.
pub type Then = Box<dyn FnOnce(&Outcome, &Voice) -> Result<()> + Send>;
/// Why a job that was stopped while it waited did not come to a run.
const NOT_ITS_TURN: &str = "stopped before its turn";
/// What makes a run of a job's words.
pub type Reader<'a> = dyn Fn(&str) -> Result<(Run, Then)> + 'a;

/// A job that waits for nodes.
struct Waiting {
    number: usize,
    words: String,
    run: Run,
    then: Then,
    nodes: u32,
}

/// A job at work.
struct Running {
    number: usize,
    interrupt: Arc<AtomicBool>,
    worker: Worker,
}

/// What the service hears of.
enum News {
    /// A line.
    Line(String),
    /// There are no more.
    NoMore,
    /// A job is over; its nodes come back.
    Over(usize, Partition, Box<Result<Outcome>>, Duration),
}

/// A thread that does what it is given, for as long as the service lives: an emulator ends with the thread that started it.
type Worker = Sender<Box<dyn FnOnce() + Send>>;

fn worker() -> Worker {
    let (give, take) = channel::<Box<dyn FnOnce() + Send>>();
    std::thread::spawn(move || take.iter().for_each(|work| work()));
    give
}

/// A job that is over.
struct Finished {
    number: usize,
    words: String,
    nodes: Vec<u32>,
    /// From its turn until its nodes were free again.
    took: Duration,
    /// Emulators that were started for it.
    started: u32,
    /// How it went, or why it did not come to a run.
    outcome: Result<Outcome, String>,
}

/// What became of all jobs.
pub struct Served(Vec<Finished>);

/// Runs the jobs of `lines` on `nodes` nodes that stay, or, `anew`, are started for each job. Returns when all are over, or
/// after Ctrl-C.
///
/// # Errors
/// There is no place for the nodes' sockets.
pub fn serve(
    nodes: u32,
    anew: bool,
    lines: Box<dyn BufRead + Send>,
    reader: &Reader<'_>,
    interrupt: &Arc<AtomicBool>,
    voice: &Voice,
) -> Result<Served> {
    let (tell, news) = channel();
    let line = tell.clone();
    std::thread::spawn(move || {
        // Who is told is there as long as this process.
        lines.lines().map_while(Result::ok).for_each(|text| _ = line.send(News::Line(text)));
        let _ = line.send(News::NoMore);
    });
    let queue = Queue {
        free: Partition::new(nodes)?,
        nodes,
        anew,
        waiting: VecDeque::new(),
        running: Vec::new(),
        idle: Vec::new(),
        over: Vec::new(),
        next: 1,
        tell,
        voice,
    };
    Ok(queue.serve(&news, reader, interrupt))
}

struct Queue<'a> {
    free: Partition,
    nodes: u32,
    anew: bool,
    waiting: VecDeque<Waiting>,
    running: Vec<Running>,
    idle: Vec<Worker>,
    over: Vec<Finished>,
    /// The number of the next job.
    next: usize,
    tell: Sender<News>,
    voice: &'a Voice,
}

impl Queue<'_> {
    fn serve(mut self, news: &Receiver<News>, reader: &Reader<'_>, interrupt: &AtomicBool) -> Served {
        let mut more = true;
        while more || !self.waiting.is_empty() || !self.running.is_empty() {
            match news.recv_timeout(TICK) {
                Ok(News::Line(line)) => self.hear(&line, reader),
                Ok(News::Over(number, partition, outcome, took)) => {
                    self.end(number, partition, *outcome, took)
                }
                Ok(News::NoMore) | Err(RecvTimeoutError::Disconnected) => more = false,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if interrupt.load(Ordering::Relaxed) {
                more = false;
                for job in std::mem::take(&mut self.waiting) {
                    self.over.push(Finished::unbegun(job.number, job.words, NOT_ITS_TURN.into()));
                }
                self.running.iter().for_each(|job| job.interrupt.store(true, Ordering::Relaxed));
            }
            self.start();
        }
        self.over.sort_by_key(|job| job.number);
        Served(self.over)
    }

    fn hear(&mut self, line: &str, reader: &Reader<'_>) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            return;
        }
        if let Some(which) = line.strip_prefix("stop ") {
            return self.stop(which.trim());
        }
        let (number, words) = (self.next, line.to_owned());
        self.next += 1;
        let read = reader(line).and_then(|(run, then)| {
            let shape: TorusShape = run.shape()?;
            if shape.nodes() > self.nodes {
                bail!("the torus {shape} has {} nodes, the service {}", shape.nodes(), self.nodes);
            }
            Ok((run, then, shape.nodes()))
        });
        match read {
            Ok((run, then, nodes)) => self.waiting.push_back(Waiting { number, words, run, then, nodes }),
            Err(error) => {
                self.voice.say(&format!("job {number}, {words}: {}", format!("{error:#}").trim()));
                self.over.push(Finished::unbegun(number, words, format!("{error:#}")));
            }
        }
    }

    fn stop(&mut self, which: &str) {
        let number = which.parse::<usize>().ok();
        let is_it = |other: usize| number == Some(other);
        if let Some(job) = self.running.iter().find(|job| is_it(job.number)) {
            job.interrupt.store(true, Ordering::Relaxed);
        } else if let Some(at) = self.waiting.iter().position(|job| is_it(job.number))
            && let Some(Waiting { number, words, .. }) = self.waiting.remove(at)
        {
            self.voice.say(&format!("job {number} is taken out of the queue"));
            self.over.push(Finished::unbegun(number, words, NOT_ITS_TURN.into()));
        } else {
            let known: Vec<_> = self.running.iter().map(|job| job.number).collect();
            let known = known.into_iter().chain(self.waiting.iter().map(|job| job.number));
            let known: Vec<_> = known.map(|number| number.to_string()).collect();
            self.voice.say(&format!("no job {which:?} runs or waits; these do: {}", known.join(" ")));
        }
    }

    /// Starts the first jobs, as far as there are nodes for them.
    fn start(&mut self) {
        while let Some(nodes) = self.waiting.front().map(|job| job.nodes)
            && let Some(mut partition) = self.free.take(nodes)
            && let Some(Waiting { number, words, run, then, .. }) = self.waiting.pop_front()
        {
            if self.anew {
                partition.end();
            }
            let interrupt = Arc::new(AtomicBool::new(false));
            let numbers: Vec<_> = partition.numbers().collect();
            self.voice.say(&format!("job {number}, {words}: on nodes {}", list(&numbers)));
            self.over.push(Finished {
                number,
                words,
                nodes: numbers,
                took: Duration::ZERO,
                started: 0,
                outcome: Err("it did not end".into()),
            });
            let (tell, voice) = (self.tell.clone(), self.voice.named(&format!("[{number}]")));
            let worker = self.idle.pop().unwrap_or_else(worker);
            let flag = Arc::clone(&interrupt);
            let work = move || {
                let began = Instant::now();
                let run = run.voice(voice.clone()).interrupt(flag);
                let outcome = run.run_on(&mut partition);
                let took = began.elapsed();
                let outcome = outcome.and_then(|outcome| then(&outcome, &voice).map(|()| outcome));
                // Who is told waits for it.
                let _ = tell.send(News::Over(number, partition, Box::new(outcome), took));
            };
            // A worker lives as long as this end of its channel.
            let _ = worker.send(Box::new(work));
            self.running.push(Running { number, interrupt, worker });
        }
    }

    fn end(&mut self, number: usize, partition: Partition, outcome: Result<Outcome>, took: Duration) {
        let ended = self.running.extract_if(.., |job| job.number == number);
        self.idle.extend(ended.map(|job| job.worker));
        if let Some(job) = self.over.iter_mut().find(|job| job.number == number) {
            job.took = took;
            job.started = partition.started();
            job.outcome = outcome.map_err(|error| format!("{error:#}"));
            self.voice.say(&format!("job {number}, {}: {}", job.words, job.verdict()));
            // A service lives long: what each node has said is in the logs.
            if let Ok(outcome) = &mut job.outcome {
                outcome.nodes.iter_mut().for_each(|node| (node.lines, node.timeline) = Default::default());
                outcome.dump = None;
            }
        }
        self.free.give_back(partition);
    }
}

impl Finished {
    /// One that did not come to a run.
    fn unbegun(number: usize, words: String, why: String) -> Self {
        Self { number, words, nodes: Vec::new(), took: Duration::ZERO, started: 0, outcome: Err(why) }
    }

    fn success(&self) -> bool {
        self.outcome.as_ref().is_ok_and(Outcome::success)
    }

    /// How it went, on one line or more.
    fn verdict(&self) -> String {
        let outcome = match &self.outcome {
            Ok(outcome) => outcome,
            Err(why) => return why.clone(),
        };
        let took = format!("{:.2} s", self.took.as_secs_f64());
        if outcome.success() {
            return format!("ended well in {took}");
        }
        let why = outcome.grouped().into_iter().chain(outcome.fabric.complaints.iter().cloned());
        let mut text = format!("failed after {took} ({:?})", outcome.ending);
        why.for_each(|why| _ = write!(text, "\n  {why}"));
        let _ = write!(text, "\n  logs: {}", outcome.logs.path().display());
        text
    }
}

impl Served {
    /// Whether every job ended well.
    pub fn success(&self) -> bool {
        self.0.iter().all(Finished::success)
    }

    /// A line for each job.
    pub fn table(&self) -> String {
        let seconds =
            |time: Option<Duration>| time.map_or("-".into(), |time| format!("{:.3}", time.as_secs_f64()));
        let head = ["job", "nodes", "started", "took s", "image s", "boot s", "job s", "result", "words"]
            .map(str::to_owned);
        let rows = self.0.iter().map(|job| {
            let outcome = job.outcome.as_ref().ok();
            let result = match outcome {
                Some(outcome) if outcome.success() => "well".into(),
                Some(outcome) => format!("{:?}", outcome.ending),
                None => "no run".into(),
            };
            let [took, image, boot, own] = [
                Some(job.took),
                outcome.map(|it| it.image_time),
                outcome.and_then(|it| it.boot_time),
                outcome.and_then(|it| it.job_time),
            ]
            .map(seconds);
            let nodes = if job.nodes.is_empty() { "-".into() } else { list(&job.nodes) };
            [
                job.number.to_string(),
                nodes,
                job.started.to_string(),
                took,
                image,
                boot,
                own,
                result,
                job.words.clone(),
            ]
        });
        let rows: Vec<_> = std::iter::once(head).chain(rows).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
        let widths: Vec<_> = (0..rows[0].len()).map(width).collect();
        let mut text = String::new();
        for row in &rows {
            let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}"));
            text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
            text.push('\n');
        }
        text
    }

    /// The same for programs: `docs/results.md` has the schema.
    pub fn json(&self) -> Value {
        let job = |job: &Finished| {
            json!({
                "job": job.number,
                "words": job.words,
                "nodes": job.nodes,
                "started": job.started,
                "seconds": job.took.as_secs_f64(),
                "success": job.success(),
                "problem": job.outcome.as_ref().err(),
                "run": job.outcome.as_ref().ok().map(json::run),
            })
        };
        json!({ "jobs": self.0.iter().map(job).collect::<Vec<_>>() })
    }
}

/// Numbers in ascending order, as in `0-7,9`.
fn list(numbers: &[u32]) -> String {
    let mut text = String::new();
    let mut at = 0;
    while let Some(&first) = numbers.get(at) {
        let more =
            numbers[at..].iter().zip(first..).take_while(|&(&number, expected)| number == expected).count();
        let comma = if text.is_empty() { "" } else { "," };
        let _ = if more > 1 {
            write!(text, "{comma}{first}-{}", numbers[at + more - 1])
        } else {
            write!(text, "{comma}{first}")
        };
        at += more;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of `lines`, of which none is a job that can be.
    fn served(lines: &'static str) -> Served {
        let reader = |words: &str| -> Result<(Run, Then)> {
            let torus = words.strip_prefix("torus ");
            let Some(torus) = torus else { bail!("there is no job called {words}") };
            Ok((Run::new("hello").torus(torus), Box::new(|_, _| Ok(()))))
        };
        let interrupt = Arc::default();
        serve(4, false, Box::new(lines.as_bytes()), &reader, &interrupt, &Voice::quiet()).expect("a service")
    }

    #[test]
    fn s1_a_line_that_cannot_be_a_job_is_told_with_its_reason_and_the_next_is_read() {
        let served = served("# none\n\nblah # no job\nstop 7\nstop it\ntorus 2x2x2\ntorus 0");
        assert!(!served.success());
        let table = served.table();
        let problems: Vec<_> = served.0.iter().map(|job| job.outcome.as_ref().unwrap_err()).collect();
        assert_eq!(problems[0], "there is no job called blah");
        assert_eq!(problems[1], "the torus 2x2x2 has 8 nodes, the service 4");
        assert!(problems[2].starts_with("the torus \"0\" cannot be"), "{}", problems[2]);
        assert_eq!(problems.len(), 3);
        assert!(
            table.lines().nth(1).is_some_and(|row| row.starts_with("1 ") && row.ends_with(" blah")),
            "{table}"
        );
        assert_eq!(served.json()["jobs"][1]["problem"], *problems[1]);
    }

    #[test]
    fn s1_a_job_that_waits_when_all_is_over_is_told_too() {
        // It wants all nodes, and they are none of its yet.
        let reader =
            |_: &str| -> Result<(Run, Then)> { Ok((Run::new("hello").torus("2"), Box::new(|_, _| Ok(())))) };
        let (tell, news) = channel();
        let mut queue = Queue {
            free: Partition::new(2).expect("a partition"),
            nodes: 2,
            anew: false,
            waiting: VecDeque::new(),
            running: Vec::new(),
            idle: Vec::new(),
            over: Vec::new(),
            next: 1,
            tell,
            voice: &Voice::quiet(),
        };
        queue.hear("one", &reader);
        queue.hear("two", &reader);
        queue.hear("stop 2", &reader);
        let served = queue.serve(&news, &reader, &AtomicBool::new(true));
        let all: Vec<_> =
            served.0.iter().map(|job| (job.number, job.outcome.as_ref().err().cloned())).collect();
        assert_eq!(all, [1, 2].map(|number| (number, Some(NOT_ITS_TURN.to_owned()))));
    }

    #[test]
    fn s1_numbers_of_nodes_are_listed_in_runs() {
        assert_eq!([&[3][..], &[0, 1, 2], &[0, 2, 3, 7]].map(list), ["3", "0-2", "0,2-3,7"]);
    }
}
