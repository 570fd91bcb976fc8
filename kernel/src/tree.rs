//! What the device tree says of the machine: the only source of hardware addresses (SPEC N-3).

use boot::HARTS;
use core::fmt;
use flat_device_tree::Fdt;
use flat_device_tree::node::FdtNode;
use heapless::Vec;

use crate::cpu_map::{self, MapError};
use crate::layout::Region;
use pami::affinity::HartPlace;

/// Most virtio slots that are looked at.
pub const MAX_SLOTS: usize = 32;
/// Most reserved areas of memory.
pub const MAX_RESERVED: usize = 16;

/// A hart as the hardware knows it.
#[derive(Clone, Copy, Debug)]
pub struct Hart {
    /// MPIDR affinity or hart id.
    pub id: u64,
    /// Its context at a PLIC.
    #[allow(dead_code, reason = "one architecture has no use for it")]
    pub plic_context: u32,
    /// Where it is in the node: one core of a chip each, if the tree does not tell.
    pub place: HartPlace,
}

/// The kind of serial line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UartKind {
    /// Arm's PL011.
    Pl011,
    /// A 16550 with its registers so many bytes apart.
    Ns16550 {
        /// Bytes from one register to the next.
        stride: u8,
    },
}

/// The serial line to the host.
#[derive(Clone, Copy, Debug)]
pub struct Uart {
    /// Which kind.
    pub kind: UartKind,
    /// Its registers.
    pub registers: Region,
    /// Its clock, if the tree tells.
    pub clock_hz: Option<u32>,
}

/// The interrupt controller.
#[derive(Clone, Copy, Debug)]
pub enum Controller {
    /// A GICv3.
    Gic {
        /// Registers of the distributor.
        distributor: Region,
        /// Registers of the redistributors.
        redistributors: Region,
    },
    /// A PLIC.
    Plic {
        /// Its registers.
        registers: Region,
    },
}

/// A virtio-mmio slot.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// Its registers.
    pub registers: Region,
    /// Its interrupt.
    pub interrupt: Interrupt,
}

/// A device's interrupt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interrupt {
    /// Number at the controller.
    pub number: u32,
    /// Signalled by an edge, not by a level.
    pub edge: bool,
}

/// How the firmware is called to start harts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Firmware {
    /// PSCI by HVC.
    PsciHvc,
    /// PSCI by SMC.
    PsciSmc,
    /// SBI; the tree does not mention it.
    Sbi,
}

/// The machine.
#[derive(Debug)]
pub struct Machine {
    /// The RAM that holds the image.
    pub memory: Region,
    /// The tree itself.
    pub tree: Region,
    /// Parts of RAM that are not for us.
    pub reserved: Vec<Region, MAX_RESERVED>,
    /// The harts by number, which goes by place, or as the tree lists them where it has no map of them. So harts of
    /// equal numbers have equal places in all nodes.
    pub harts: Vec<Hart, HARTS>,
    /// The number of the one that booted.
    pub booted: usize,
    /// Why the tree's map of the harts is not used, if so.
    pub map_problem: Option<MapError>,
    /// The serial line.
    pub uart: Uart,
    /// The interrupt controller, if the kernel knows it.
    pub controller: Option<Controller>,
    /// The timer's private interrupt, where it goes through the controller.
    #[allow(dead_code, reason = "one architecture has no use for it")]
    pub timer_interrupt: Option<u32>,
    /// Rate of the counter, if the tree tells.
    #[allow(dead_code, reason = "one architecture has no use for it")]
    pub counter_hz: Option<u64>,
    /// The virtio slots, by rising address.
    pub slots: Vec<Slot, MAX_SLOTS>,
    /// How to call the firmware.
    #[allow(dead_code, reason = "one architecture has no use for it")]
    pub firmware: Firmware,
    /// The sifive_test device, which ends the emulation.
    pub finisher: Option<Region>,
    /// `/chosen/bootargs`.
    pub bootargs: &'static str,
    /// Why no node can run on this machine, if so. There is a console to say it on.
    pub problem: Option<TreeError>,
}

/// What is missing from a tree or wrong in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TreeError(pub &'static str);

impl fmt::Display for TreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the device tree has {}", self.0)
    }
}

/// Bits of an MPIDR that are the affinity. Hart ids have none of the others.
const AFFINITY: u64 = 0xff_00ff_ffff;

impl Machine {
    /// Reads `tree`. `image` is any address of the kernel's image, `booted` the id of the hart that runs this.
    ///
    /// # Errors
    /// The tree names no console. Any other trouble is the machine's [`problem`](Self::problem).
    pub fn read(tree: &Fdt<'static>, image: usize, booted: u64) -> Result<Self, TreeError> {
        let controller = tree.find_compatible(&["arm,gic-v3", "riscv,plic0", "sifive,plic-1.0.0"]);
        let interrupt_cells = controller.and_then(|node| node.interrupt_cells()).unwrap_or(1).max(1);
        let mut builder = Builder { booted: booted & AFFINITY, interrupt_cells, ..Builder::default() };
        for node in tree.all_nodes() {
            let visited = builder.visit(tree, node, image);
            builder.note(visited);
        }
        for area in tree.memory_reservations() {
            let area = Region { start: area.address() as usize, bytes: area.size() };
            let reserved = builder.reserve(area);
            builder.note(reserved);
        }
        builder.finish(tree)
    }
}

/// A cpu node, with its phandle and its interrupt controller's.
#[derive(Clone, Copy)]
struct Cpu {
    id: u64,
    phandle: Option<u32>,
    intc: Option<u32>,
}

#[derive(Default)]
struct Builder {
    booted: u64,
    interrupt_cells: usize,
    memory: Option<Region>,
    reserved: Vec<Region, MAX_RESERVED>,
    cpus: Vec<Cpu, HARTS>,
    uart: Option<Uart>,
    controller: Option<Controller>,
    /// The PLIC's (phandle, interrupt) pairs, one for each of its contexts.
    contexts: Option<&'static [u8]>,
    timer_interrupt: Option<u32>,
    counter_hz: Option<u64>,
    slots: Vec<Slot, MAX_SLOTS>,
    firmware: Option<Firmware>,
    finisher: Option<Region>,
    problem: Option<TreeError>,
}

impl Builder {
    /// Remembers the first problem.
    fn note(&mut self, result: Result<(), TreeError>) {
        self.problem = self.problem.or(result.err());
    }

    fn reserve(&mut self, area: Region) -> Result<(), TreeError> {
        self.reserved.push(area).map_err(|_| TreeError("too many reserved areas"))
    }

    fn visit(
        &mut self,
        tree: &Fdt<'static>,
        node: FdtNode<'_, 'static>,
        image: usize,
    ) -> Result<(), TreeError> {
        match text(node, "device_type") {
            Some("memory") => {
                let mut regions = regions(node);
                self.memory = self.memory.or_else(|| regions.find(|region| region.contains(image)));
            }
            Some("cpu") => self.cpu(node)?,
            _ => {}
        }
        match node.name {
            "cpus" => self.counter_hz = cell(node, "timebase-frequency").map(u64::from),
            "reserved-memory" => {
                for area in node.children().flat_map(regions) {
                    self.reserve(area)?;
                }
            }
            _ => {}
        }
        let Some(compatible) = node.compatible() else { return Ok(()) };
        for name in compatible.all() {
            self.device(tree, node, name)?;
        }
        Ok(())
    }

    fn cpu(&mut self, node: FdtNode<'_, 'static>) -> Result<(), TreeError> {
        // One or two cells, as `/cpus` has it.
        let id = node.property("reg").and_then(|reg| reg.as_usize()).ok_or(TreeError("a cpu without reg"))?;
        let intc = node.children().find_map(|child| cell(child, "phandle"));
        self.cpus
            .push(Cpu { id: id as u64 & AFFINITY, phandle: cell(node, "phandle"), intc })
            .map_err(|_| TreeError("more than 8 harts; a node has 1 to 8"))
    }

    fn device(
        &mut self,
        tree: &Fdt<'static>,
        node: FdtNode<'_, 'static>,
        name: &str,
    ) -> Result<(), TreeError> {
        let mut registers = regions(node);
        match name {
            "arm,pl011" => self.uart(tree, node, UartKind::Pl011),
            "ns16550a" | "ns16550" => {
                let shift = cell(node, "reg-shift").unwrap_or(0).min(4);
                self.uart(tree, node, UartKind::Ns16550 { stride: 1 << shift });
            }
            "arm,gic-v3" => {
                let (distributor, redistributors) = (registers.next(), registers.next());
                self.controller = distributor
                    .zip(redistributors)
                    .map(|(distributor, redistributors)| Controller::Gic { distributor, redistributors });
            }
            "riscv,plic0" | "sifive,plic-1.0.0" => {
                self.controller = registers.next().map(|registers| Controller::Plic { registers });
                self.contexts = node.property("interrupts-extended").map(|property| property.value);
            }
            // The third interrupt is the virtual timer's.
            "arm,armv8-timer" => {
                self.timer_interrupt = self.interrupts(node).nth(2).map(|timer| timer.number)
            }
            "arm,psci-1.0" | "arm,psci-0.2" => {
                self.firmware = Some(match text(node, "method") {
                    Some("hvc") => Firmware::PsciHvc,
                    Some("smc") => Firmware::PsciSmc,
                    _ => return Err(TreeError("a psci node whose method is neither hvc nor smc")),
                });
            }
            "sifive,test0" => self.finisher = registers.next(),
            "virtio,mmio" => {
                let slot = registers.next().zip(self.interrupts(node).next());
                let (registers, interrupt) =
                    slot.ok_or(TreeError("a virtio slot without registers or interrupt"))?;
                self.slots
                    .push(Slot { registers, interrupt })
                    .map_err(|_| TreeError("too many virtio slots"))?;
            }
            _ => {}
        }
        Ok(())
    }

    fn uart(&mut self, tree: &Fdt<'static>, node: FdtNode<'_, 'static>, kind: UartKind) {
        let clock = cell(node, "clock-frequency").or_else(|| {
            let clock = cell(node, "clocks")?;
            cell(tree.find_phandle(clock)?, "clock-frequency")
        });
        // The first one is the console.
        self.uart = self
            .uart
            .or_else(|| regions(node).next().map(|registers| Uart { kind, registers, clock_hz: clock }));
    }

    fn finish(mut self, tree: &Fdt<'static>) -> Result<Machine, TreeError> {
        let (harts, map_problem) = self.harts(tree);
        let booted = harts.iter().position(|hart| hart.id == self.booted);
        if booted.is_none() {
            self.note(Err(TreeError("no cpu node for the hart that booted")));
        }
        if self.memory.is_none() {
            self.note(Err(TreeError("no memory node around the image")));
        }
        if self.controller.is_none() {
            self.note(Err(TreeError("no interrupt controller: neither GICv3 nor PLIC")));
        }
        self.slots.sort_unstable_by_key(|slot| slot.registers.start);
        let tree_bytes = tree.raw_data();
        Ok(Machine {
            memory: self.memory.unwrap_or_default(),
            tree: Region { start: tree_bytes.as_ptr() as usize, bytes: tree_bytes.len() },
            reserved: self.reserved,
            harts,
            booted: booted.unwrap_or(0),
            map_problem,
            uart: self.uart.ok_or(TreeError("no uart: neither arm,pl011 nor ns16550a"))?,
            controller: self.controller,
            timer_interrupt: self.timer_interrupt,
            counter_hz: self.counter_hz,
            slots: self.slots,
            firmware: self.firmware.unwrap_or(Firmware::Sbi),
            finisher: self.finisher,
            bootargs: tree.chosen().ok().and_then(|chosen| chosen.bootargs()).unwrap_or(""),
            problem: self.problem,
        })
    }

    /// The harts by their places.
    fn harts(&self, tree: &Fdt<'static>) -> (Vec<Hart, HARTS>, Option<MapError>) {
        let phandles: Vec<_, HARTS> = self.cpus.iter().map(|cpu| cpu.phandle).collect();
        let (places, problem) = match cpu_map::places(tree, &phandles) {
            Ok(places) => (places, None),
            Err(error) => {
                let flat =
                    (0..self.cpus.len()).map(|hart| HartPlace { core: hart as u16, ..HartPlace::default() });
                (flat.collect(), Some(error).filter(|&error| error != MapError::Missing))
            }
        };
        let hart = |(cpu, place): (&Cpu, HartPlace)| Hart {
            id: cpu.id,
            plic_context: self.plic_context(cpu),
            place,
        };
        let mut harts: Vec<_, HARTS> = self.cpus.iter().zip(places).map(hart).collect();
        harts.sort_unstable_by_key(|hart| hart.place);
        (harts, problem)
    }

    /// The node's interrupts. At a GIC each takes three cells, (shared or private, number, trigger), at a PLIC one.
    fn interrupts(&self, node: FdtNode<'_, 'static>) -> impl Iterator<Item = Interrupt> + use<> {
        const SHARED: u32 = 0;
        let value = node.property("interrupts").map_or(&[][..], |property| property.value);
        let (cells, _) = value.as_chunks::<4>();
        cells.chunks_exact(self.interrupt_cells).map(|cells| match *cells {
            [kind, number, trigger] => {
                let [kind, number, trigger] = [kind, number, trigger].map(u32::from_be_bytes);
                let first = if kind == SHARED { 32 } else { 16 };
                Interrupt { number: first + number, edge: trigger & 3 != 0 }
            }
            _ => Interrupt { number: cells.first().map_or(0, |cell| u32::from_be_bytes(*cell)), edge: false },
        })
    }

    /// The PLIC's context that interrupts `cpu` in supervisor mode.
    fn plic_context(&self, cpu: &Cpu) -> u32 {
        const SUPERVISOR_EXTERNAL: u32 = 9;
        let wanted = cpu.intc.map(|intc| (intc, SUPERVISOR_EXTERNAL));
        let (contexts, _) = self.contexts.unwrap_or(&[]).as_chunks::<8>();
        let pair = |bytes: &[u8; 8]| {
            let [a, b, c, d, e, f, g, h] = *bytes;
            (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]))
        };
        contexts.iter().position(|bytes| Some(pair(bytes)) == wanted).unwrap_or(0) as u32
    }
}

fn regions(node: FdtNode<'_, 'static>) -> impl Iterator<Item = Region> + use<> {
    node.reg().filter_map(|region| {
        Some(Region { start: region.starting_address as usize, bytes: region.size? })
            .filter(|region| region.bytes > 0)
    })
}

fn text(node: FdtNode<'_, 'static>, name: &str) -> Option<&'static str> {
    node.property(name)?.as_str()
}

fn cell(node: FdtNode<'_, 'static>, name: &str) -> Option<u32> {
    let property = node.property(name)?;
    property.value.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}
