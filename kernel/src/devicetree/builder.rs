//! Reads the nodes that matter and puts the machine together.

use super::aia::{self, Files, Whose};
use super::at::{At, Parent, cell, is_available, nonzero, text, value};
use super::cpu_map::{self, CpuMapError};
use super::pci::PciHost;
use super::{
    AFFINITY, CardSlot, Controller, Firmware, HARTS, Hart, MAX_BANKS, MAX_MONITORS, MAX_RESERVED, MAX_SLOTS,
    Machine, SlotKind, TreeError, Uart, UartKind, release_page,
};
use crate::layout::{Bank, Region};
use crate::paging::{AARCH64_END, SV39_END, SV48_END};
use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::{Node as _, standard::NodeStandard as _};
use heapless::Vec;
use pami::affinity::HartPlace;

/// A cpu node, with its phandle and its interrupt controller's.
#[derive(Clone, Copy)]
struct Cpu {
    id: u64,
    phandle: Option<u32>,
    intc: Option<u32>,
    domain: Option<u32>,
    release: Option<usize>,
    carryless: bool,
    sv48: bool,
    sstc: bool,
    name: &'static str,
}

/// The property that tells which part of a NUMA machine a cpu or memory is in.
const NUMA_NODE: &str = "numa-node-id";

/// Whether a hart of RISC-V has an extension, by the list of them or the older string.
fn has_extension(node: &FdtNode<'static>, extension: &str) -> bool {
    let listed = value(node, "riscv,isa-extensions").unwrap_or_default();
    let mut listed = listed.split(|&byte| byte == 0);
    let string = text(node, "riscv,isa").unwrap_or_default();
    listed.any(|name| name == extension.as_bytes()) || string.split('_').skip(1).any(|name| name == extension)
}

/// Whether a cpu is a monitor's: without supervisor mode.
fn is_monitor(node: &FdtNode<'static>) -> bool {
    let has_mmu = value(node, "mmu-type").is_some_and(|kind| kind != b"riscv,none\0");
    node.is_compatible("riscv") && !has_mmu
}

/// The id of a hart, in one or two cells, as `/cpus` has it.
fn hart_id(node: &FdtNode<'static>) -> Option<u64> {
    let id = match *value(node, "reg")? {
        [a, b, c, d] => u64::from(u32::from_be_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => u64::from_be_bytes([a, b, c, d, e, f, g, h]),
        _ => return None,
    };
    Some(id & AFFINITY)
}

/// What takes messages: what it is compatible with, what others call it, its registers, and whether it and what it is part of may see
/// the harts' caches.
struct Frame {
    name: &'static str,
    phandle: u32,
    registers: Region,
    coherent: bool,
}

pub(super) struct Builder {
    tree: Fdt<'static>,
    image: usize,
    booted: u64,
    /// The name of the node that the firmware talks through, where it lies in the tree.
    stdout: Option<*const u8>,
    parent: Parent,
    /// Whether harts are of RISC-V, where devices see their caches if nothing else is said.
    riscv: bool,
    banks: Vec<Bank, MAX_BANKS>,
    reserved: Vec<Region, MAX_RESERVED>,
    cpus: Vec<Cpu, HARTS>,
    monitors: Vec<u64, MAX_MONITORS>,
    uart: Option<Uart>,
    controller: Option<Controller>,
    controller_node: Option<FdtNode<'static>>,
    /// The node of harts' files of interrupts, and what it says.
    imsic: Option<FdtNode<'static>>,
    files: Option<Files>,
    /// What takes messages for a GIC.
    frames: Vec<Frame, MAX_FRAMES>,
    /// Pairs of phandle and interrupt, one for each of a controller's parts for harts, where it has such.
    contexts: &'static [[u8; 8]],
    timer_interrupt: Option<u32>,
    counter_hz: Option<u64>,
    slots: Vec<CardSlot, MAX_SLOTS>,
    left_out: Option<TreeError>,
    pci: Option<PciHost>,
    firmware: Option<Firmware>,
    finisher: Option<Region>,
    problem: Option<TreeError>,
}

/// Most of what takes messages for a GIC that is looked at; what each is compatible with.
const MAX_FRAMES: usize = 4;
const FRAME: &str = "arm,gic-v2m-frame";
const ITS: &str = "arm,gic-v3-its";

const CONTROLLERS: [&str; 5] =
    ["arm,gic-v3", "arm,gic-400", "arm,cortex-a15-gic", "riscv,plic0", "sifive,plic-1.0.0"];

/// Calls `each` for the node `at` and all within it, but for those that are not available; as long as it returns true.
fn walk(at: &At<'_>, each: &mut impl FnMut(&At<'_>) -> bool) -> bool {
    if !is_available(&at.node) {
        return true;
    }
    each(at) && at.node.children().all(|node| walk(&At { node, outer: Some(at) }, each))
}

/// The first available node for which `is` holds.
fn find(tree: Fdt<'static>, mut is: impl FnMut(&FdtNode<'static>) -> bool) -> Option<FdtNode<'static>> {
    let mut found = None;
    walk(&At { node: tree.root(), outer: None }, &mut |at| {
        found = is(&at.node).then_some(at.node);
        found.is_none()
    });
    found
}

/// The node that `/chosen/stdout-path` means: a path or an alias, and maybe settings of the line.
fn stdout(tree: Fdt<'static>) -> Option<FdtNode<'static>> {
    let path = text(&tree.find_node("/chosen")?, "stdout-path")?;
    let path = path.split(':').next()?;
    let path = if path.starts_with('/') { path } else { text(&tree.find_node("/aliases")?, path)? };
    tree.find_node(path)
}

/// Whether the two are one node: no other has its name where this has.
fn is_same(node: &FdtNode<'static>, other: Option<FdtNode<'static>>) -> bool {
    other.is_some_and(|other| other.name().as_ptr() == node.name().as_ptr())
}

/// The nodes of the harts' files of interrupts and of the controller, and what is wrong with them.
fn controllers(
    tree: Fdt<'static>,
) -> (Option<FdtNode<'static>>, Option<FdtNode<'static>>, Option<TreeError>) {
    let mut harts: Vec<u32, HARTS> = Vec::new();
    walk(&At { node: tree.root(), outer: None }, &mut |At { node, .. }| {
        let is_ours = text(node, "device_type") == Some("cpu") && !is_monitor(node);
        let own = is_ours.then(|| own_controller(node)).flatten();
        // More than there is room for are refused later.
        own.is_none_or(|own| harts.push(own).is_ok())
    });
    let any_of = |whose: Whose<'_>| {
        let imsic = find(tree, |node| aia::is_imsic(node, whose));
        let controller = find(tree, |node| {
            CONTROLLERS.iter().any(|name| node.is_compatible(name)) || aia::is_aplic(node, imsic, whose)
        });
        controller.map(|controller| (imsic, controller))
    };
    let found = any_of(Whose::All(&harts)).or_else(|| any_of(Whose::Anybody));
    let (imsic, controller) = (found.and_then(|(imsic, _)| imsic), found.map(|(_, controller)| controller));
    // Files beside a domain that gives interrupts to harts itself are of no use.
    let imsic = imsic.filter(|&imsic| controller.is_some_and(|domain| aia::sends_to(&domain, Some(imsic))));
    let problem = imsic.or(controller).filter(|node| aia::is_partial(node, &harts)).and_then(|node| {
        let is_another = |other: &FdtNode<'static>| {
            aia::is_partial(other, &harts) && !is_same(other, Some(node))
        };
        let what = "interrupt controllers that each interrupt some of the harts only, as those of several sockets: \
                    one for all of them is wanted";
        find(tree, is_another).map(|_| TreeError { what, node: node.name() })
    });
    (imsic, controller, problem)
}

/// What a hart's own controller of interrupts is called.
fn own_controller(cpu: &FdtNode<'static>) -> Option<u32> {
    cpu.children().find_map(|child| cell(&child, "phandle"))
}

impl Builder {
    pub(super) fn new(tree: Fdt<'static>, image: usize, booted: u64) -> Self {
        let (imsic, controller, problem) = controllers(tree);
        let cells = controller.and_then(|node| cell(&node, "#interrupt-cells"));
        let address_cells = controller.and_then(|node| cell(&node, "#address-cells"));
        Self {
            tree,
            image,
            booted,
            stdout: stdout(tree).map(|node| node.name().as_ptr()),
            parent: Parent {
                phandle: controller.and_then(|node| cell(&node, "phandle")),
                cells: cells.unwrap_or(1).clamp(1, 4) as usize,
                address_cells: address_cells.unwrap_or(0).min(4) as usize,
            },
            riscv: find(tree, |node| node.is_compatible("riscv")).is_some(),
            banks: Vec::new(),
            reserved: Vec::new(),
            cpus: Vec::new(),
            monitors: Vec::new(),
            uart: None,
            controller: None,
            controller_node: controller,
            imsic,
            files: None,
            frames: Vec::new(),
            contexts: imsic.map_or(&[], |imsic| aia::pairs(&imsic)),
            timer_interrupt: None,
            counter_hz: None,
            slots: Vec::new(),
            left_out: None,
            pci: None,
            firmware: None,
            finisher: None,
            problem,
        }
    }

    /// Remembers the first problem.
    fn note(&mut self, result: Result<(), TreeError>) {
        self.problem = self.problem.or(result.err());
    }

    pub(super) fn read(mut self) -> Machine {
        // Devices are asked which memory they see, and harts whether they reach them.
        for visit in [Self::harts_and_memory, Self::visit] {
            walk(&At { node: self.tree.root(), outer: None }, &mut |at| {
                let visited = visit(&mut self, at);
                self.note(visited);
                true
            });
        }
        for area in self.tree.memory_reservations() {
            let reserved =
                self.reserve(Region { start: area.address() as usize, bytes: area.size() as usize });
            self.note(reserved);
        }
        self.finish()
    }

    fn reserve(&mut self, area: Region) -> Result<(), TreeError> {
        self.reserved.push(area).map_err(|_| TreeError::of("more reserved areas of memory than 64"))
    }

    fn harts_and_memory(&mut self, at: &At<'_>) -> Result<(), TreeError> {
        match text(&at.node, "device_type") {
            Some("memory") => {
                let domain = cell(&at.node, NUMA_NODE);
                at.each_region(usize::MAX, |region| {
                    let bank = Bank { region, domain };
                    self.banks.push(bank).map_err(|_| at.error("more banks of memory than 8"))
                })
            }
            Some("cpu") => self.cpu(at),
            _ => Ok(()),
        }
    }

    fn visit(&mut self, at: &At<'_>) -> Result<(), TreeError> {
        match at.node.name() {
            "cpus" => {
                let told = value(&at.node, "timebase-frequency").is_some();
                let hz = nonzero(&at.node, "timebase-frequency");
                if told && hz.is_none() {
                    return Err(at.error("a timebase-frequency that is none"));
                }
                self.counter_hz = self.counter_hz.or(hz);
                // OpenSBI has their status say that they are not for us. Those beyond stay as it left them.
                let monitors = at.node.children().filter(is_monitor).filter_map(|node| hart_id(&node));
                for id in monitors {
                    let _ = self.monitors.push(id);
                }
            }
            "reserved-memory" => {
                for node in at.node.children() {
                    At { node, outer: Some(at) }.each_region(usize::MAX, |area| {
                        self.reserve(area).map_err(|error| TreeError { node: node.name(), ..error })
                    })?;
                }
            }
            _ => {}
        }
        let node = at.node;
        let Some(compatible) = node.compatible() else { return Ok(()) };
        for name in compatible {
            self.device(at, name)?;
        }
        Ok(())
    }

    fn cpu(&mut self, at: &At<'_>) -> Result<(), TreeError> {
        if is_monitor(&at.node) {
            return Ok(());
        }
        let id = hart_id(&at.node).ok_or(at.error("a cpu without reg"))?;
        let intc = own_controller(&at.node);
        let phandle = cell(&at.node, "phandle");
        let [carryless, sstc] = ["zbc", "sstc"].map(|extension| has_extension(&at.node, extension));
        // Those that translate 57 bits translate 48 too.
        let sv48 = matches!(text(&at.node, "mmu-type"), Some("riscv,sv48" | "riscv,sv57"));
        let domain = cell(&at.node, NUMA_NODE);
        let release = at.release()?;
        // Nobody else is to have what others spin in.
        if let Some(page) = release.map(release_page).filter(|page| !self.reserved.contains(page)) {
            self.reserve(page).map_err(|error| at.error(error.what))?;
        }
        let name = at.node.name();
        let cpu = Cpu { id, phandle, intc, domain, release, carryless, sv48, sstc, name };
        self.cpus.push(cpu).map_err(|_| at.error("more than 64 harts; a node has 1 to 64"))
    }

    fn device(&mut self, at: &At<'_>, name: &str) -> Result<(), TreeError> {
        match name {
            "arm,pl011" => self.uart(at, UartKind::Pl011)?,
            "ns16550a" | "ns16550" | "snps,dw-apb-uart" => {
                self.uart(at, at.ns16550(name == "snps,dw-apb-uart")?)?;
            }
            "sifive,uart0" => self.uart(at, UartKind::SiFive)?,
            "cdns,uart-r1p8" | "cdns,uart-r1p12" | "xlnx,xuartps" => self.uart(at, UartKind::Cadence)?,
            "arm,gic-v3" if self.controller.is_none() => {
                let [distributor, redistributors, ..] = at.regions()?[..] else {
                    return Err(at.error("a GIC without distributor or redistributors"));
                };
                self.controller =
                    Some(Controller::GicV3 { distributor, redistributors, its: None, coherent: true });
            }
            "arm,gic-400" | "arm,cortex-a15-gic" if self.controller.is_none() => {
                let [distributor, interface, ..] = at.regions()?[..] else {
                    return Err(at.error("a GIC without distributor or interfaces"));
                };
                self.controller = Some(Controller::GicV2 { distributor, interface, frame: None });
            }
            FRAME | ITS => {
                let name = if name == ITS { ITS } else { FRAME };
                // The tree says so of what is not; what may be finds it out.
                let coherent = at.is_coherent(true) && at.outer.is_none_or(|gic| gic.is_coherent(true));
                // One that cannot be read, or that there is no room for, takes no messages: cards have pins.
                if let Some((phandle, registers)) = cell(&at.node, "phandle").zip(at.registers().ok()) {
                    let _ = self.frames.push(Frame { name, phandle, registers, coherent });
                }
            }
            "riscv,plic0" | "sifive,plic-1.0.0" if self.controller.is_none() => {
                self.controller = Some(Controller::Plic { registers: at.registers()? });
                self.contexts = aia::pairs(&at.node);
            }
            "riscv,aplic" if is_same(&at.node, self.controller_node) => {
                self.controller = Some(aia::domain(at)?);
                if self.imsic.is_none() {
                    self.contexts = aia::pairs(&at.node);
                }
            }
            "riscv,imsics" if is_same(&at.node, self.imsic) => self.files = Some(aia::files(at)?),
            // The third interrupt is the virtual timer's.
            "arm,armv8-timer" => {
                self.timer_interrupt = at.interrupts(self.parent)?.get(2).map(|timer| timer.number);
                self.counter_hz = nonzero(&at.node, "clock-frequency");
            }
            "arm,psci-1.0" | "arm,psci-0.2" => {
                self.firmware = Some(match text(&at.node, "method") {
                    Some("hvc") => Firmware::PsciHvc,
                    Some("smc") => Firmware::PsciSmc,
                    _ => return Err(at.error("a psci node whose method is neither hvc nor smc")),
                });
            }
            "sifive,test0" => self.finisher = Some(at.registers()?),
            "pci-host-ecam-generic" if self.pci.is_none() => {
                let problem = self.apart(at, Some(at)).or(self.incoherent(at));
                let host = PciHost::read(at, self.parent, problem)?;
                let regions = host.iter().flat_map(|host| [host.configuration, host.window]);
                if self.reach(at, regions) {
                    self.pci = host;
                }
            }
            "virtio,mmio" => self.slot(at, SlotKind::VirtioMmio)?,
            "cdns,gem"
            | "cdns,zynqmp-gem"
            | "cdns,versal-gem"
            | "xlnx,zynqmp-gem"
            | "xlnx,versal-gem"
            | "sifive,fu540-c000-gem" => {
                let mtu = cell(&at.node, "max-frame-size").and_then(|bytes| u16::try_from(bytes).ok());
                let coherent = at.is_coherent(self.riscv);
                self.slot(at, SlotKind::Gem { coherent, mtu, station: at.station()? })?;
            }
            _ => {}
        }
        Ok(())
    }

    /// What is wrong with all cards at a node if those on `bus` do not call memory as harts do.
    fn apart(&self, at: &At<'_>, bus: Option<&At<'_>>) -> Option<TreeError> {
        let what = "a network card on a bus whose dma-ranges do not have all memory where harts have it, one to one as is wanted";
        bus.is_some_and(|bus| !bus.is_one_to_one(&self.banks)).then_some(at.error(what))
    }

    /// What is wrong with all cards at a node, but GEMs, if they do not see the harts' caches.
    fn incoherent(&self, at: &At<'_>) -> Option<TreeError> {
        let what =
            "a network card that does not see the harts' caches, of a kind of which dma-coherent is wanted";
        (!at.is_coherent(self.riscv)).then_some(at.error(what))
    }

    /// Whether all harts reach these regions of a node; else it is left out.
    fn reach(&mut self, at: &At<'_>, regions: impl IntoIterator<Item = Region>) -> bool {
        let end = match (self.riscv, self.all(|cpu| cpu.sv48)) {
            (false, _) => AARCH64_END,
            (true, true) => SV48_END,
            (true, false) => SV39_END,
        };
        let reach = regions.into_iter().all(|region| region.end() <= end);
        if !reach {
            self.left_out.get_or_insert(at.error("a place for network cards beyond what harts reach"));
        }
        reach
    }

    /// Whether all harts can do something.
    fn all(&self, can: fn(&Cpu) -> bool) -> bool {
        !self.cpus.is_empty() && self.cpus.iter().all(can)
    }

    /// A network card may be here.
    fn slot(&mut self, at: &At<'_>, kind: SlotKind) -> Result<(), TreeError> {
        let registers = at.registers()?;
        if !self.reach(at, [registers]) {
            return Ok(());
        }
        if self.slots.iter().any(|slot| slot.registers == registers) {
            // It is compatible with more than one.
            return Ok(());
        }
        let interrupts = match at.interrupts(self.parent) {
            Ok(interrupts) => interrupts,
            // Another socket's, of those whose harts' files are one; there may be nothing in it, and cards behind PCI.
            Err(elsewhere) if self.imsic.is_some() => {
                self.left_out.get_or_insert(elsewhere);
                return Ok(());
            }
            Err(elsewhere) => return Err(elsewhere),
        };
        let interrupt = *interrupts.first().ok_or(at.error("a network card's slot without an interrupt"))?;
        let is_virtio = kind == SlotKind::VirtioMmio;
        let problem = self.apart(at, at.outer).or_else(|| is_virtio.then(|| self.incoherent(at))?);
        let slot = CardSlot { kind, registers, interrupt, problem };
        self.slots.push(slot).map_err(|_| at.error("too many slots for network cards"))
    }

    fn uart(&mut self, at: &At<'_>, kind: UartKind) -> Result<(), TreeError> {
        // The firmware's console; if it names none, the first.
        let is_stdout = self.stdout == Some(at.node.name().as_ptr());
        if self.uart.is_some() && !is_stdout {
            return Ok(());
        }
        let clock = nonzero(&at.node, "clock-frequency").or_else(|| {
            let clock = cell(&at.node, "clocks")?;
            let clock = find(self.tree, |node| cell(node, "phandle") == Some(clock))?;
            nonzero(&clock, "clock-frequency")
        });
        let clock_hz = clock.and_then(|hz| u32::try_from(hz).ok());
        let interrupts = at.interrupts(self.parent).ok();
        let interrupt = interrupts.and_then(|interrupts| interrupts.first().copied());
        self.uart = Some(Uart { kind, registers: at.registers()?, clock_hz, interrupt });
        Ok(())
    }

    fn finish(mut self) -> Machine {
        if let Some((Controller::Aplic { registers, sources }, files)) = self.controller.zip(self.files) {
            self.controller = Some(Controller::Imsic { registers, sources, files });
        }
        self.find_messages();
        let (harts, map_problem) = self.harts();
        let booted = harts.iter().position(|hart| hart.id == self.booted);
        if booted.is_none() {
            self.note(Err(TreeError::of("no available cpu node for the hart that booted")));
        }
        if self.uart.is_none() {
            self.note(Err(TreeError::of(
                "no uart: no arm,pl011, ns16550a, snps,dw-apb-uart, sifive,uart0 or cdns,uart-r1p12",
            )));
        }
        self.banks.sort_unstable_by_key(|bank| bank.region.start);
        if !self.banks.iter().any(|bank| bank.region.contains(self.image)) {
            self.note(Err(TreeError::of("no memory node around the image")));
        }
        match self.controller {
            None => self.note(Err(TreeError::of("no interrupt controller: no GIC, PLIC or APLIC"))),
            Some(Controller::Plic { .. } | Controller::Aplic { .. } | Controller::Imsic { .. }) => {
                let deaf = self.cpus.iter().find(|cpu| self.context(cpu).is_none());
                let deaf = deaf.map(|cpu| cpu.name);
                self.note(deaf.map_or(Ok(()), |node| {
                    let what = "a cpu that the interrupt controller's interrupts-extended does not mention";
                    Err(TreeError { what, node })
                }));
                if self.counter_hz.is_none() {
                    let what = "no timebase-frequency";
                    self.note(Err(TreeError { what, node: "cpus" }));
                }
            }
            Some(Controller::GicV3 { .. } | Controller::GicV2 { .. } | Controller::Events) => {}
        }
        self.slots.sort_unstable_by_key(|slot| slot.registers.start);
        let tree = self.tree.data();
        let chosen = self.tree.find_node("/chosen");
        Machine {
            carryless: self.all(|cpu| cpu.carryless),
            sv48: self.all(|cpu| cpu.sv48),
            sstc: self.all(|cpu| cpu.sstc),
            banks: self.banks,
            tree: Region { start: tree.as_ptr() as usize, bytes: tree.len() },
            reserved: self.reserved,
            harts,
            booted: booted.unwrap_or(0),
            monitors: self.monitors,
            map_problem,
            uart: self.uart,
            controller: self.controller,
            timer_interrupt: self.timer_interrupt,
            counter_hz: self.counter_hz,
            slots: self.slots,
            left_out: self.left_out,
            pci: self.pci,
            firmware: self.firmware.unwrap_or(Firmware::Sbi),
            finisher: self.finisher,
            bootargs: chosen.and_then(|chosen| text(&chosen, "bootargs")).unwrap_or(""),
            problem: self.problem,
        }
    }

    /// Looks whether messages of what is behind PCI are for the controller.
    fn find_messages(&mut self) {
        let Some(host) = &mut self.pci else { return };
        let messages = &mut host.messages;
        let of = |wanted| {
            let named = |phandle: u32| {
                self.frames.iter().find(|frame| (frame.name, frame.phandle) == (wanted, phandle))
            };
            messages.named().find_map(named)
        };
        let taken = match &mut self.controller {
            Some(Controller::Imsic { .. }) => self.imsic.and_then(|imsic| cell(&imsic, "phandle")),
            Some(Controller::GicV2 { frame, .. }) => {
                let found = of(FRAME);
                *frame = found.map(|found| found.registers);
                found.map(|found| found.phandle)
            }
            Some(Controller::GicV3 { its, coherent, .. }) => {
                let found = of(ITS);
                *its = found.map(|found| found.registers);
                *coherent = found.is_none_or(|found| found.coherent);
                found.map(|found| found.phandle)
            }
            _ => None,
        };
        messages.take(taken);
    }

    /// The harts by their places.
    fn harts(&self) -> (Vec<Hart, HARTS>, Option<CpuMapError>) {
        let phandles: Vec<_, HARTS> = self.cpus.iter().map(|cpu| cpu.phandle).collect();
        let (places, problem) = match cpu_map::places(self.tree, &phandles) {
            Ok(places) => (places, None),
            Err(error) => {
                let flat =
                    (0..self.cpus.len()).map(|hart| HartPlace { core: hart as u16, ..HartPlace::default() });
                (flat.collect(), Some(error).filter(|&error| error != CpuMapError::Missing))
            }
        };
        let hart = |(cpu, place): (&Cpu, HartPlace)| Hart {
            id: cpu.id,
            at_controller: match self.controller {
                Some(Controller::GicV3 { .. } | Controller::GicV2 { .. }) | None => Some(cpu.id),
                _ => self.context(cpu).map(u64::from),
            },
            domain: cpu.domain,
            release: cpu.release,
            place,
        };
        let mut harts: Vec<_, HARTS> = self.cpus.iter().zip(places).map(hart).collect();
        harts.sort_unstable_by_key(|hart| hart.place);
        (harts, problem)
    }

    /// The controller's part that interrupts `cpu` in supervisor mode.
    fn context(&self, cpu: &Cpu) -> Option<u32> {
        let wanted = (cpu.intc?, aia::SUPERVISOR_EXTERNAL);
        let place = self.contexts.iter().position(|bytes| aia::pair(bytes) == wanted);
        place.map(|context| context as u32)
    }
}
