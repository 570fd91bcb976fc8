//! Every pair of endpoints, two contexts a task: sends, puts, gets and updates in all sizes; content and order checked.
//!
//! Arguments: `--only sends|one-sided` leaves the others out; `--rendezvous-from N` sends messages of N bytes and more by
//! rendezvous; `--ways` sends by each of the ways that a send has besides; `--loop-back` sends what could stay in a node over the network; `--shared` has the contexts of a task share
//! their injection FIFO.
#![no_std]
#![no_main]

#[path = "../meeting/mod.rs"]
mod meeting;
mod one_sided;
mod pattern;
mod sends;
mod ways;

use kernel::{Client, Context, Endpoint, JobError, Pools, Sharing, Task};
use meeting::Meeting;
use one_sided::OneSided;
use sends::Sends;
use ways::Ways;

kernel::entry!(main, jobs::USAGE);

const CONTEXTS: u8 = 2;
const EACH: usize = CONTEXTS as usize;

/// One task's end of all pairs.
struct Pairs {
    task: &'static Task,
    client: Client,
    contexts: [Context; EACH],
    meeting: Meeting,
}

struct Settings {
    sends: bool,
    ways: bool,
    one_sided: bool,
    rendezvous_from: Option<usize>,
    local_paths: bool,
    sharing: Sharing,
}

fn main(task: &'static Task) -> Result<(), JobError> {
    let settings = settings(task)?;
    let sends = Sends::new(task)?;
    let builder =
        task.client("pairs").pools(Pools::LARGE).contexts(CONTEXTS).dispatch(sends::MESSAGE, sends.handler);
    let (meeting, builder) = Meeting::prepare(task, builder)?;
    let builder =
        builder.sharing(settings.sharing).local_paths(settings.local_paths).factories(Ways::FACTORIES);
    let mut client = match settings.rendezvous_from {
        Some(bytes) => builder.rendezvous_from(bytes),
        None => builder,
    }
    .create()?;
    let ways = settings.ways.then(|| Ways::register(&mut client)).transpose()?;
    let contexts = [kernel::context(&mut client, 0)?, kernel::context(&mut client, 1)?];
    let mut pairs = Pairs { task, client, contexts, meeting };
    let mut wrong = 0;
    if settings.sends {
        wrong += sends.exchange(&mut pairs, ways.as_ref())?;
    }
    if settings.one_sided {
        wrong += OneSided::new(&mut pairs)?.run()?;
    }
    if wrong > 0 {
        return Err(JobError::Other("data came wrong, doubled or out of order"));
    }
    Ok(())
}

fn settings(task: &Task) -> Result<Settings, JobError> {
    let arguments = task.arguments();
    let only = arguments.word("--only");
    Ok(Settings {
        sends: only != Some("one-sided"),
        ways: arguments.has("--ways"),
        one_sided: only != Some("sends"),
        rendezvous_from: arguments.get("--rendezvous-from")?,
        local_paths: !arguments.has("--loop-back"),
        sharing: if arguments.has("--shared") { Sharing::Shared } else { Sharing::Exclusive },
    })
}

impl Pairs {
    fn endpoints(&self) -> usize {
        endpoints(self.task)
    }

    /// Packets that came where they make no sense.
    fn protocol_errors(&self) -> u64 {
        self.contexts.iter().map(|context| context.counters().protocol_errors).sum()
    }
}

/// Endpoints of the job.
fn endpoints(task: &Task) -> usize {
    task.tasks() as usize * EACH
}

/// An endpoint's number among those of the job.
fn endpoint_number(endpoint: Endpoint) -> usize {
    endpoint.task() as usize * EACH + usize::from(endpoint.context().0)
}
