//! The life of a node: machine, personality, harts, message unit, job, end (SPEC N-1..N-6, N-11).

use crate::arch::Alone;
use crate::arena::Arena;
use crate::board::Found;
use crate::devicetree::{Machine, TreeError};
use crate::hardware::{self, Card, Hardware, Torus, Tree, Unit};
use crate::harts::{self, HartWork};
use crate::layout::{self, Free, PIECES, Region};
use crate::paging::PAGE;
use crate::personality::{BadPersonality, Division, Personality, Reason};
use crate::status::Exit;
use crate::task::Task;
use crate::{
    arch, board, clock, console, heap, job, kept, links, log, question, report, status, trace, wakeup,
};
use alloc::boxed::Box;
use alloc::vec::Vec;
use boot::HARTS;
use core::fmt;
use drivers::Either::{First, Second};
use drivers::Setup;
use drivers::gathering::{Identity, JobWords};
use drivers::lossless::Lossless;
use drivers::nic::{Nic, SmallMtu};
use drivers::reliable::Reliable;
use drivers::torus::TorusAdapter;
use drivers::tree_network::TreeAdapter;
use pami::affinity::HartPlace;
use pami::mapping::TaskLocation;
use pami::trace::Event;
use spin::Mutex;

/// Heap beside what the message unit says it needs, in bytes.
const HEAP_BYTES: usize = 1 << 20;
/// Every hart comes up within so many seconds.
const START_SECONDS: u64 = 10;
const NS_PER_S: u64 = 1_000_000_000;
/// The memory of a task.
type Memory = heapless::Vec<&'static mut [u8], PIECES>;

arch::entries! {
    primary: run,
    secondary: run_secondary,
    fault: report::faulted,
    interrupt: wakeup::interrupted,
}

/// Runs the node on its first hart, entered at `level`, with translation, console and everything else still to come.
fn run(machine: Result<Machine, TreeError>, level: usize) -> ! {
    let machine = match machine {
        Ok(machine) => arch::set_machine(machine),
        Err(error) => report::refused(Exit::Machine, error),
    };
    let mut free = free_memory(machine);
    give_stacks(machine, &mut free);
    if let Err(error) = arch::translate(machine, &free) {
        report::refused(Exit::Machine, format_args!("its memory cannot be mapped: {error:?}"));
    }
    if let Some((mut console, uart)) = board::console().zip(machine.uart) {
        if let Some(clock_hz) = uart.clock_hz {
            // A line that cannot be set up stays as the firmware left it.
            let _ = console.set_up(clock_hz);
        }
        console::start(console);
    }
    if level >= boot::FIRMWARE_LEVEL {
        report::refused(Exit::Machine, "it was entered at EL3, the firmware's level: EL2 or EL1 is wanted");
    }
    if let Some(problem) = machine.problem {
        report::refused(Exit::Machine, problem);
    }
    if arch::counter_hz() == 0 {
        report::refused(
            Exit::Machine,
            "neither the firmware nor the device tree's timer tells the counter's rate",
        );
    }
    clock::start();
    let words = match kept::personality(machine.bootargs) {
        Ok(words) => words,
        Err(problem) => report::refused(Exit::Personality, problem),
    };
    let personality = match Personality::parse(words) {
        Ok(personality) => personality,
        Err(error) => report::refused(Exit::Personality, error),
    };
    report::set_node(personality.node);
    if let Some(baud) = personality.baud {
        console::slow_down(baud);
    }
    log::start(personality.log);
    // Before memory is asked for events.
    if personality.trace.is_some() && !trace::KEEPS {
        report::refused(Exit::Personality, BadPersonality { word: "trace", reason: Reason::KeepsNoEvents });
    }
    let end = arch::mapped_end(machine);
    let beyond =
        machine.banks.iter().map(|bank| bank.region.end().saturating_sub(bank.region.start.max(end)));
    let beyond = beyond.sum::<usize>() >> 20;
    if beyond > 0 {
        defmt::warn!("{=usize} MiB of memory are left: harts do not reach beyond {=usize:#x}", beyond, end);
    }
    let checksum = arch::choose_checksum();
    defmt::debug!("checksums are made by {}", defmt::Display2Format(&checksum));
    let division = match personality.divide(machine.harts.len()) {
        Ok(division) => division,
        Err(error) => report::refused(Exit::Personality, error),
    };
    let (heap_memory, rest) = split_memory(machine, free, &division, &personality);
    arch::heap::start(heap_memory);
    if let Some(events) = personality.trace {
        trace::start(machine.harts.len(), events as usize);
    }
    start_harts(machine);
    let personality: &'static Personality = Box::leak(Box::new(personality));
    let mut cards = Cards::new(machine);
    let unit = start_unit(machine, &mut cards, personality, &division);
    if personality.tree {
        start_tree(&mut cards, personality);
    }
    let places = places(machine, personality);
    let answers = question::start(machine);
    let tasks = make_tasks(personality, &division, unit, rest, places, answers, &cards);
    let job = Job { tasks, agent: division.agent, unit, nodes: personality.shape.nodes() };
    board::unmask();
    match arch::hart() {
        0 => job.run(),
        booted => hand_over(job, booted),
    }
}

fn free_memory(machine: &Machine) -> Free {
    let mut taken: heapless::Vec<Region, { crate::devicetree::MAX_RESERVED + 2 }> =
        machine.reserved.iter().copied().collect();
    // There is room for two more than are reserved.
    let _ = taken.push(arch::image());
    let _ = taken.push(machine.tree.grown_to_pages());
    layout::free(&machine.banks, &taken, arch::mapped_end(machine))
}

/// Finds memory for the stacks of all harts but this one, near to each.
fn give_stacks(machine: &Machine, free: &mut Free) {
    let mut stacks = heapless::Vec::<Region, HARTS>::new();
    // `boot` calls this hart 0, and the one that is 0 to the kernel what this one is to it.
    for number in 1..machine.harts.len() {
        let domain = machine.harts.get(arch::boot_number(number)).and_then(|hart| hart.domain);
        let Some(region) = layout::take(free, arch::memory::STACKS, domain) else { break };
        // There is room for those of all harts.
        let _ = stacks.push(region);
    }
    arch::memory::give_stacks(&stacks);
}

/// The heap's memory, in one piece, and that of each task, near to its harts.
fn split_memory(
    machine: &Machine,
    mut free: Free,
    division: &Division,
    personality: &Personality,
) -> (&'static mut [u8], heapless::Vec<Memory, HARTS>) {
    let near = arch::near().map_or(0, |near| near.desks.len());
    let unit = drivers::heap_bytes(division.tasks, usize::from(personality.contexts), near);
    let tree = if personality.tree { TreeAdapter::<Card>::HEAP_BYTES } else { 0 };
    let trace = personality.trace.map_or(0, |events| trace::heap_bytes(machine.harts.len(), events as usize));
    let wanted = HEAP_BYTES + unit + unit / 4 + tree + trace + board::heap_bytes(machine);
    let wanted = wanted.next_multiple_of(PAGE);
    let (have, left) = (layout::bytes(&machine.banks), layout::bytes(&free));
    let domain = |hart: usize| machine.harts.get(hart).and_then(|hart| hart.domain);
    let heap = layout::take(&mut free, wanted, domain(0)).filter(|_| left >= 2 * wanted);
    let near = (0..division.tasks).map(|task| domain(task * division.harts_per_task()));
    let shares = layout::shares(free, &near.collect::<heapless::Vec<_, HARTS>>());
    let regions: heapless::Vec<Region, { arch::memory::REGIONS }> =
        heap.into_iter().chain(shares.iter().flatten().copied()).collect();
    let mut memory = arch::memory::all(&regions).unwrap_or_default().into_iter();
    let (Some(_), Some(heap)) = (heap, memory.next()) else {
        // The firmware may align the device tree, at the memory's end, to 2 MiB.
        let enough = have - left + 2 * wanted + (2 << 20);
        let also = if trace > 0 { ", or --trace-events for fewer" } else { "" };
        report::refused(
            Exit::Machine,
            format_args!(
                "{} MiB of memory are too few: {} are enough (see --memory{also})",
                have >> 20,
                enough.div_ceil(1 << 20)
            ),
        );
    };
    (heap, shares.iter().map(|share| memory.by_ref().take(share.len()).collect()).collect())
}

fn start_harts(machine: &'static Machine) {
    if let Err(error) = board::start_interrupts(machine) {
        report::refused(Exit::Machine, format_args!("its interrupt controller does not work: {error}"));
    }
    arch::rest_monitors(machine);
    arch::set_up_copies();
    let others = || (0..machine.harts.len()).filter(|&hart| hart != arch::hart());
    for hart in others() {
        if let Err(error) = arch::start_hart(machine, hart) {
            report::refused(Exit::Machine, format_args!("the firmware did not start hart {hart}: {error}"));
        }
    }
    let deadline_ns = clock::now_ns() + START_SECONDS * NS_PER_S;
    for hart in others() {
        if !harts::wait_until_up(hart, deadline_ns) {
            report::refused(
                Exit::Machine,
                format_args!("hart {hart} did not come up in {START_SECONDS} seconds"),
            );
        }
        defmt::debug!("hart {=usize} is up", hart);
    }
}

/// A hart other than the first, fresh from its firmware.
fn run_secondary(hart: usize) -> ! {
    if let Err(error) = arch::machine().map_or(Err("there is no machine"), board::start_interrupts_here) {
        report::refused(Exit::Machine, format_args!("its interrupt controller does not work: {error}"));
    }
    harts::serve(hart)
}

/// The machine's network cards: the first is on the torus, the second on the tree.
struct Cards {
    found: board::Cards,
    /// How each that is used interrupts.
    ways: heapless::Vec<&'static str, { board::ADAPTERS }>,
}

impl fmt::Display for Cards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((first, others)) = self.ways.split_first() else { return f.write_str("none") };
        f.write_str(first)?;
        others.iter().try_for_each(|way| write!(f, ",{way}"))
    }
}

impl Cards {
    fn new(machine: &'static Machine) -> Self {
        Self { found: board::Cards::new(machine), ways: heapless::Vec::new() }
    }

    /// The next card as what `make` makes of it; nobody is interrupted by it yet.
    fn next<A>(&mut self, make: impl FnOnce(Card) -> Result<A, SmallMtu>) -> Option<A> {
        let Found { card, interrupt: line, way } = self.found.next()?.unwrap_or_else(|error| unusable(error));
        let interrupt = card.interrupt();
        // Before the card starts: some controllers forget a level that was there when they heard of it.
        if let Err(error) = board::add_adapter_interrupt(line) {
            report::refused(Exit::Machine, format_args!("the network card's interrupt: {error}"));
        }
        // There is room for as many as have interrupts.
        let _ = self.ways.push(way);
        let adapter = make(card).unwrap_or_else(|error| unusable(error));
        links::add(interrupt);
        defmt::debug!("network card with interrupt {=u32}, by {=str}", line.number, way);
        Some(adapter)
    }
}

fn unusable(error: impl fmt::Display) -> ! {
    report::refused(Exit::Machine, format_args!("the network card cannot be used: {error}"))
}

/// Puts the node on the tree.
fn start_tree(cards: &mut Cards, personality: &Personality) {
    let nodes = personality.shape.nodes();
    let Some(adapter) = cards.next(|card| TreeAdapter::new(card, personality.node, nodes)) else {
        report::refused(Exit::Machine, "it has no second network card, for the tree");
    };
    hardware::start_tree(Tree::new(adapter)).join();
}

/// The torus on `card`, whose network may lose frames.
fn reliable<N: Nic>(card: N, personality: &Personality) -> Result<drivers::Torus<Hardware, N>, SmallMtu> {
    let (node, nodes) = (personality.node, personality.shape.nodes());
    let peers = personality.peers.unwrap_or(u32::MAX);
    let torus = TorusAdapter::new(card, node)?;
    let torus = Reliable::with_peers(torus, node, nodes, peers).with_life(personality.life);
    Ok(if personality.fabric { torus } else { torus.without_fabric() })
}

/// The same, if it loses none.
fn lossless<N: Nic>(
    card: N,
    personality: &Personality,
) -> Result<drivers::LosslessTorus<Hardware, N>, SmallMtu> {
    let (node, nodes) = (personality.node, personality.shape.nodes());
    Ok(Lossless::new(TorusAdapter::new(card, node)?, node, nodes).with_life(personality.life))
}

/// The torus on `card`, of any kind.
#[cfg(target_os = "none")]
fn torus(card: Card, personality: &Personality) -> Result<Torus, SmallMtu> {
    match (card, personality.lossless) {
        (First(virtio), false) => reliable(virtio, personality).map(First),
        (Second(First(gem)), false) => reliable(gem, personality).map(|torus| Second(First(First(torus)))),
        (Second(Second(e1000e)), false) => {
            reliable(e1000e, personality).map(|torus| Second(First(Second(torus))))
        }
        (First(virtio), true) => lossless(virtio, personality).map(|torus| Second(Second(First(torus)))),
        (Second(other), true) => lossless(other, personality).map(|torus| Second(Second(Second(torus)))),
    }
}

/// The torus on `card`.
#[cfg(hosted)]
fn torus(card: Card, personality: &Personality) -> Result<Torus, SmallMtu> {
    match personality.lossless {
        false => reliable(card, personality).map(First),
        true => lossless(card, personality).map(Second),
    }
}

fn start_unit(
    machine: &'static Machine,
    cards: &mut Cards,
    personality: &Personality,
    division: &Division,
) -> &'static Unit {
    // A node by itself on a plain Ethernet has nobody at its card's other end, and a cable there need not be.
    let is_alone = personality.shape.nodes() == 1 && !personality.fabric;
    let adapter: Option<Torus> = if is_alone { None } else { cards.next(|card| torus(card, personality)) };
    if adapter.is_none() && personality.shape.nodes() > 1 {
        let what = "it has no network card, and the torus has other nodes";
        match machine.left_out {
            Some(why) => report::refused(Exit::Machine, format_args!("{what}; {why}")),
            None => report::refused(Exit::Machine, what),
        }
    }
    let setup = Setup {
        adapter,
        node: personality.node,
        map: division.map,
        contexts: personality.contexts,
        harts: machine.harts.len(),
        agent: division.agent,
        near: arch::near(),
        plain: (!personality.fabric).then(|| identity(personality, division)),
    };
    match Unit::start(setup) {
        Ok(unit) => unit,
        Err(error) => report::refused(Exit::Personality, error),
    }
}

/// What node 0 is to know of this one. A counter that starts with the node is read at another moment each time, most likely.
fn identity(personality: &Personality, division: &Division) -> Identity {
    let Personality { shape, map, contexts, job, .. } = personality;
    let tasks = division.tasks;
    let words = format_args!("torus={shape} tasks={tasks} map={map} contexts={contexts} job={job}");
    Identity { incarnation: (arch::counter() as u32).max(1), words: JobWords::new(words) }
}

/// The node's tasks, each with its share of the memory.
fn make_tasks(
    personality: &'static Personality<'static>,
    division: &Division,
    unit: &'static Unit,
    memory: heapless::Vec<Memory, HARTS>,
    places: &'static [HartPlace],
    answers: bool,
    cards: &Cards,
) -> &'static [Task] {
    let share = memory.first().map_or(0, |pieces| pieces.iter().map(|piece| piece.len()).sum::<usize>());
    let tasks: Vec<Task> = memory
        .into_iter()
        .zip(0..)
        .filter_map(|(memory, local)| {
            defmt::debug!("the memory of its task {=u32} is in {=usize} pieces", local, memory.len());
            Some(Task {
                personality,
                map: division.map,
                number: division.map.task(TaskLocation { node: personality.node, local })?,
                local,
                coord: personality.shape.coord(personality.node)?,
                harts: division.harts_per_task(),
                places,
                memory: Arena::new(memory),
                unit,
                clients: Mutex::default(),
            })
        })
        .collect();
    wakeup::start(division.harts_per_task());
    let harts = division.application + usize::from(division.agent.is_some());
    let tasks: &'static [Task] = tasks.leak();
    let count = tasks.len();
    defmt::info!(
        "node {=u32} of {}: {=usize} harts, {=usize} tasks with {=usize} MiB each",
        personality.node,
        defmt::Display2Format(&personality.shape),
        harts,
        count,
        share >> 20
    );
    let answers = u8::from(answers);
    console::status(format_args!(
        "up harts={harts} tasks={count} memory={share} answers={answers} interrupts={cards}"
    ));
    tasks
}

/// Where the harts are that run tasks and their threads, by number.
fn places(machine: &Machine, personality: &Personality) -> &'static [HartPlace] {
    if let Some(problem) = machine.map_problem {
        defmt::warn!("all harts count as cores of one chip: {}", defmt::Display2Format(&problem));
    }
    let told = |hart: usize| personality.topology.map(|topology| topology.place(hart as u16));
    let places = machine.harts.iter().enumerate().map(|(number, hart)| told(number).unwrap_or(hart.place));
    places.collect::<Vec<_>>().leak()
}

/// The job, ready to start.
struct Job {
    tasks: &'static [Task],
    agent: Option<usize>,
    unit: &'static Unit,
    /// Nodes of the torus.
    nodes: u32,
}

impl Job {
    /// Runs it, which hart 0 is to do, and ends the node.
    fn run(&self) -> ! {
        let &Self { tasks, agent, unit, nodes } = self;
        let given = agent.map_or(Ok(()), |agent| harts::give(agent, own_work(move || unit.run_agent())));
        unit.join(nodes);
        trace::note(Event::Joined);
        defmt::info!("all {=u32} nodes are there; the job starts", nodes);
        heap::seal();
        let others = || tasks.iter().enumerate().skip(1);
        let given = others().fold(given, |given, (hart, task)| {
            given.and(harts::give(hart, HartWork::Thread(task, &job::run_main)))
        });
        if given.is_err() {
            report::refused(Exit::Machine, "a hart has work before the job starts");
        }
        if let Some(task) = tasks.first() {
            harts::run(HartWork::Thread(task, &job::run_main));
        }
        for (hart, _) in others() {
            harts::join(hart);
        }
        defmt::info!("the tasks of this node have ended; its network is drained");
        if let Some(tree) = hardware::tree() {
            tree.drain();
        }
        unit.drain();
        let alone = if kept::stays() { turn_others_off() } else { None };
        status::end_job(job::status(), Counters(unit), alone)
    }
}

/// Turns the other harts off, which have no work. `None` if one has, as an agent has for ever, or does not go.
fn turn_others_off() -> Option<Alone> {
    let machine = arch::machine()?;
    let others = || (0..machine.harts.len()).filter(|&hart| hart != arch::hart());
    for hart in others() {
        harts::give(hart, HartWork::Kernel(&arch::turn_off)).ok()?;
    }
    let deadline_ns = clock::now_ns() + NS_PER_S;
    loop {
        let alone = Alone::look(machine);
        if alone.is_some() || clock::now_ns() >= deadline_ns {
            return alone;
        }
        arch::relax();
    }
}

/// Work of the kernel's own.
fn own_work(work: impl Fn() + Sync + 'static) -> HartWork {
    HartWork::Kernel(Box::leak(Box::new(work)))
}

/// Leaves the job to hart 0; this hart, which booted, is like any other from now on.
fn hand_over(job: Job, booted: usize) -> ! {
    if harts::give(0, own_work(move || job.run())).is_err() {
        report::refused(Exit::Machine, "hart 0 has work before the job starts");
    }
    harts::serve(booted)
}

/// What the message unit and the tree counted, for the end status.
struct Counters(&'static Unit);

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.0.statistics();
        let (sent, received, bytes) = (all.sent_packets, all.received_packets, all.sent_bytes);
        let (local, dropped) = (all.local_packets, all.dropped.total());
        write!(f, "sent={sent} received={received} bytes={bytes} local={local} dropped={dropped} ")?;
        let wire = all.reliability;
        let (resent, doubled, corrupt) = (wire.retransmitted, wire.duplicates, wire.corrupt);
        let (acks, stalls, dead) = (wire.acks, wire.stalls, wire.dead_peers);
        write!(f, "resent={resent} doubled={doubled} corrupt={corrupt} disordered={} ", wire.out_of_order)?;
        write!(f, "acks={acks} stalls={stalls} dead={dead} failed={} ", all.failed_packets)?;
        write!(
            f,
            "stale={} waits={} released={} refused={} ",
            wire.stale, wire.waits, wire.released, wire.refused
        )?;
        let Some(tree) = hardware::tree() else { return Ok(()) };
        let (counters, faults) = tree.statistics();
        let (sent, received, dropped) = (counters.sent, counters.received, faults.total());
        write!(f, "tree_sent={sent} tree_received={received} tree_dropped={dropped} ")
    }
}
