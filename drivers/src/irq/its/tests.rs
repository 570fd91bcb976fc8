//! A service that carries out what it is told when it is told, and what becomes of messages by that.

use super::*;
use core::sync::atomic::Ordering;
use proptest::prelude::*;
use spin::Mutex;
use std::boxed::Box;
use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec as List;

const ADDRESS: u64 = 0x808_0000;
const REDISTRIBUTORS: u64 = 0x80a_0000;
const PRIORITY: u8 = 0xe0;

/// What a service of these tests is.
#[derive(Clone, Copy, Debug)]
struct Make {
    /// What its type says.
    kind: u64,
    /// Kind and bytes of an entry less one, by table.
    tables: [(u64, u64); 3],
    /// The one size of pages that it knows, if it does not know all.
    page: Option<u64>,
    /// It sees the harts' caches.
    shares: bool,
    /// It carries nothing out: with an error, or without.
    stuck: Option<bool>,
    /// Harts' LPIs can be turned on.
    turns_on: bool,
    turns_off: bool,
    /// The tree does not say that it sees no caches.
    coherent: bool,
}

/// LPIs of harts, 16 bits of devices, 8 bytes for a message: as QEMU's, whose third table is not used.
const PLAIN: Make = Make {
    kind: PHYSICAL | 7 << 4 | 15 << 8 | 15 << 13,
    tables: [(OF_DEVICES, 7), (OF_COLLECTIONS, 7), (0, 0)],
    page: None,
    shares: true,
    stuck: None,
    turns_on: true,
    turns_off: true,
    coherent: true,
};

#[derive(Default)]
struct Model {
    registers: BTreeMap<usize, u32>,
    hart_registers: BTreeMap<usize, u32>,
    carried: u64,
    /// Tables of messages that devices have.
    devices: BTreeMap<u64, u64>,
    /// Devices' LPIs, and their collections.
    messages: BTreeMap<u64, (u64, u64)>,
    /// What harts of collections are called.
    collections: BTreeMap<u64, u64>,
    /// Hart and LPI.
    pending: BTreeSet<(u64, u64)>,
    /// Devices whose LPI's byte was read anew since it changed, and that byte.
    bytes: BTreeMap<u64, u8>,
    synchronised: List<u64>,
    kinds: List<u64>,
    /// See [`Make`].
    stuck: Option<bool>,
    /// How often registers were read.
    looks: usize,
    /// Addresses that were brought to memory since the last commands, and by parts of 64 KiB those that ever were.
    brought: List<core::ops::Range<u64>>,
    parts: BTreeSet<u64>,
    /// How many words that were.
    words: usize,
    /// Memory and devices are in order.
    ordered: bool,
}

impl Model {
    /// What it was told of memory, it finds there: all that is zero at first is, before it may read that.
    fn expect_memory(&self, apart: bool) {
        assert!(self.ordered, "it is turned on before it is certain to see what it was told");
        let long = |registers: &BTreeMap<usize, u32>, at| {
            let word = |at| u64::from(registers.get(&at).copied().unwrap_or(0));
            (word(at) | word(at + 4) << 32) & 0xffff_ffff_0000
        };
        let of_hart = |&at: &usize| [BYTES_AT, PENDING_AT].contains(&(at % REDISTRIBUTOR_BYTES));
        let harts = self.hart_registers.keys().filter(|at| of_hart(at));
        let told = harts.map(|&at| long(&self.hart_registers, at));
        let mut told: List<_> = told.chain([long(&self.registers, COMMANDS_AT)]).collect();
        told.extend((TABLES_AT..TABLES_AT + 24).step_by(8).map(|at| long(&self.registers, at)));
        assert!(told.iter().filter(|&&memory| memory != 0).count() >= 4, "it is told of no memory");
        let is_there = |memory: &u64| *memory == 0 || self.parts.contains(memory);
        assert!(!apart || told.iter().all(is_there), "not all is in memory");
    }
}

#[derive(Clone, Copy)]
struct Fake {
    make: Make,
    model: &'static Mutex<Model>,
    is_hart: bool,
}

impl Fake {
    fn new(make: Make) -> Self {
        let mut model = Model::default();
        model.registers.extend([
            (TYPE, make.kind as u32),
            (TYPE + 4, (make.kind >> 32) as u32),
            (CONTROL, QUIET),
        ]);
        for (table, (kind, entry)) in make.tables.into_iter().enumerate() {
            model.registers.insert(TABLES_AT + 8 * table + 4, (kind << 24 | entry << 16) as u32);
        }
        for frame in 0..64 {
            // Numbered from the other end.
            let kind = PHYSICAL as u32 | (100 - frame) << 8;
            model.stuck = make.stuck;
            model.hart_registers.insert(frame as usize * REDISTRIBUTOR_BYTES + REDISTRIBUTOR_TYPE, kind);
        }
        Self { make, model: Box::leak(Box::new(Mutex::new(model))), is_hart: false }
    }

    fn its(self) -> Its<Self> {
        let redistributors = Self { is_hart: true, ..self };
        Its::new((self, ADDRESS), (redistributors, REDISTRIBUTORS), self.make.coherent)
    }

    fn long(&self, at: usize) -> u64 {
        let model = self.model.lock();
        let word = |at: usize| u64::from(model.registers.get(&at).copied().unwrap_or(0));
        word(at) | word(at + 4) << 32
    }

    /// Entries of the table of this kind that the service was given.
    fn entries(&self, wanted: u64) -> u64 {
        let table = self.make.tables.iter().position(|(kind, _)| *kind == wanted);
        let Some(told) = table.map(|table| self.long(TABLES_AT + 8 * table)) else { return 0 };
        let bytes = ((told & 0xff) + 1) << (12 + 2 * (told >> 8 & 3));
        assert!(told & VALID != 0 && bytes <= 64 << 10, "{told:#x}");
        bytes / ((told >> 48 & 31) + 1)
    }

    /// The words of a command, as the memory that it was told of has them.
    fn command(&self, at: u64) -> [u64; 4] {
        let queue = self.long(COMMANDS_AT) & 0xf_ffff_ffff_0000;
        let first = core::ptr::with_exposed_provenance::<AtomicU64>((queue + at) as usize);
        self.expect_brought(queue + at..queue + at + 32);
        // SAFETY: the driver gave this memory, which is never freed, and accesses it by atomics alone.
        [0, 1, 2, 3].map(|word| unsafe { (*first.add(word)).load(Ordering::Relaxed) })
    }

    /// It sees memory without the harts' caches: where it says that it would, the tree may know better.
    fn is_apart(&self) -> bool {
        !self.make.shares || !self.make.coherent
    }

    /// What these addresses have is in memory, if that is where it is read.
    fn expect_brought(&self, wanted: core::ops::Range<u64>) {
        let brought = &self.model.lock().brought;
        let is_in = |it: &core::ops::Range<u64>| it.start <= wanted.start && wanted.end <= it.end;
        assert!(!self.is_apart() || brought.iter().any(is_in), "not in memory: {wanted:x?}");
    }

    /// The byte of an LPI, as the first hart's memory has it.
    fn byte(&self, lpi: u64) -> u8 {
        let model = self.model.lock();
        let word = |at| u64::from(model.hart_registers[&at]);
        let first = (word(BYTES_AT) | word(BYTES_AT + 4) << 32) & 0xf_ffff_ffff_f000;
        drop(model);
        self.expect_brought(first..first + 8);
        let byte = core::ptr::with_exposed_provenance::<AtomicU64>(first as usize);
        // SAFETY: as above; LPIs are few, so that all bytes lie in one word.
        unsafe { (*byte).load(Ordering::Relaxed) }.to_ne_bytes()[lpi as usize - FIRST as usize]
    }

    fn carry_out(&self, words: [u64; 4]) {
        let (kind, device) = (words[0] & 0xff, words[0] >> 32);
        let mut bytes = None;
        if kind == 0x0c {
            let (lpi, _) = self.model.lock().messages[&device];
            bytes = Some(self.byte(lpi));
        }
        let (devices, collections) = (self.entries(OF_DEVICES), self.entries(OF_COLLECTIONS));
        let mut model = self.model.lock();
        model.kinds.push(kind);
        match kind {
            0x08 => {
                assert!(device < devices, "it has no entry for device {device}");
                assert!(words[2] & VALID != 0 && words[2] & 0xff == 0 && words[1] == 0);
                model.devices.insert(device, words[2] & !VALID);
            }
            0x09 => {
                let collection = words[2] & 0xffff;
                assert!(collection < collections || collection < self.make.kind >> 24 & 0xff);
                model.collections.insert(collection, words[2] & !VALID & !0xffff);
            }
            0x0a => {
                assert!(model.devices.contains_key(&device) && words[1] as u32 == EVENT);
                model.messages.insert(device, (words[1] >> 32, words[2]));
            }
            0x01 => {
                let (lpi, before) = model.messages[&device];
                model.messages.insert(device, (lpi, words[2]));
                let [from, to] = [before, words[2]].map(|collection| model.collections[&collection]);
                if model.pending.remove(&(from, lpi)) {
                    model.pending.insert((to, lpi));
                }
            }
            0x0c => _ = bytes.map(|byte| model.bytes.insert(device, byte)),
            0x05 => model.synchronised.push(words[2]),
            other => panic!("command {other:#x}"),
        }
    }

    /// A device sends its message.
    fn send(&self, device: u64) {
        let mut model = self.model.lock();
        let (lpi, collection) = model.messages[&device];
        let hart = model.collections[&collection];
        model.pending.insert((hart, lpi));
    }

    /// What comes to a hart now.
    fn take(&self, hart: u64) -> List<u64> {
        let mut model = self.model.lock();
        let on: List<u64> = model
            .messages
            .iter()
            .filter(|(device, _)| model.bytes[device] & ON != 0)
            .map(|(_, it)| it.0)
            .collect();
        let taken: List<_> =
            model.pending.iter().copied().filter(|(to, lpi)| *to == hart && on.contains(lpi)).collect();
        taken.iter().for_each(|it| _ = model.pending.remove(it));
        taken.into_iter().map(|(_, lpi)| lpi).collect()
    }
}

impl Block for Fake {
    fn read(&self, offset: usize) -> u32 {
        let mut model = self.model.lock();
        model.looks += 1;
        let registers = if self.is_hart { &model.hart_registers } else { &model.registers };
        registers.get(&offset).copied().unwrap_or(0)
    }

    fn write(&self, offset: usize, value: u32) {
        let mut model = self.model.lock();
        let shares = |value: u32| if self.make.shares { value } else { value & !(SHARED as u32) };
        if self.is_hart {
            let is_memory = offset % REDISTRIBUTOR_BYTES >= BYTES_AT && offset.is_multiple_of(8);
            if offset % REDISTRIBUTOR_BYTES == LPIS_ON && value & ENABLED != 0 {
                model.expect_memory(self.is_apart());
                model.hart_registers.insert(offset, if self.make.turns_on { value } else { 0 });
                return;
            }
            model.ordered = false;
            if offset % REDISTRIBUTOR_BYTES == LPIS_ON && !self.make.turns_off {
                return;
            }
            model.hart_registers.insert(offset, if is_memory { shares(value) } else { value });
            return;
        }
        match offset {
            CONTROL if value & ENABLED != 0 => model.expect_memory(self.is_apart()),
            COMMANDS_AT => (model.ordered, model.carried) = (false, 0),
            TABLES_AT.. => model.ordered = false,
            _ => {}
        }
        let told = match offset {
            CONTROL => value | QUIET,
            COMMANDS_AT => shares(value),
            TABLES_AT.. if offset.is_multiple_of(8) => {
                let page = self.make.page.map_or(value, |page| value & !0x300 | (page as u32) << 8);
                shares(page)
            }
            // Kind and entry's size stay.
            TABLES_AT.. => {
                let fixed = model.registers.get(&offset).copied().unwrap_or(0) & 0x071f_0000;
                value & !0x071f_0000 | fixed
            }
            _ => value,
        };
        model.registers.insert(offset, told);
        if offset != WRITTEN || model.registers[&CONTROL] & ENABLED == 0 {
            return;
        }
        assert!(model.ordered, "it may not see the commands yet");
        if let Some(with_error) = model.stuck {
            let read = model.carried as u32 | u32::from(with_error);
            model.registers.insert(READ, read);
            return;
        }
        let (mut at, end) = (model.carried, u64::from(value));
        drop(model);
        while at != end {
            self.carry_out(self.command(at));
            at = (at + 32) % 4096;
        }
        let mut model = self.model.lock();
        model.brought.clear();
        model.carried = at;
        model.registers.insert(READ, at as u32);
    }
}

impl Harts for Fake {
    fn barrier(&self) {
        self.model.lock().ordered = true;
    }
    fn write_back(&self, words: &[AtomicU64]) {
        let mut model = self.model.lock();
        model.ordered = false;
        model.words += words.len();
        model.brought.push(address(&words[0])..address(&words[words.len() - 1]) + 8);
        let parts = words.chunks_exact(PART).map(|part| address(&part[0]));
        model.parts.extend(parts);
    }
}

/// A device's place for its message: the last that it was told.
#[derive(Default)]
struct Card(Mutex<Option<Message>>);

impl Sender for Card {
    fn aim(&self, message: Option<Message>) {
        *self.0.lock() = message;
    }
}

/// Harts with these affinities, started in that order, at redistributors of other numbers.
const PLACES: [StartedHart; 3] = [
    StartedHart { hart: 0x100, frame: 2 },
    StartedHart { hart: 0, frame: 0 },
    StartedHart { hart: 1, frame: 1 },
];

fn add(its: &mut Its<Fake>, device: u32) -> (Result<u32, IrqError>, Option<Message>) {
    add_with(its, &PLACES, device)
}

fn add_with(
    its: &mut Its<Fake>,
    places: &[StartedHart],
    device: u32,
) -> (Result<u32, IrqError>, Option<Message>) {
    let (card, harts) = (Card::default(), its.registers);
    let number = its.add(&harts, places, device, PRIORITY, &card);
    let told = card.0.lock().take();
    (number, told)
}

/// So many harts.
fn places(count: usize) -> List<StartedHart> {
    (0..count).map(|frame| StartedHart { hart: frame as u64, frame }).collect()
}

#[test]
fn b5_a_service_gives_each_device_an_lpi_and_each_hart_a_collection() {
    let fake = Fake::new(PLAIN);
    let mut its = fake.its();
    assert!(!its.has(FIRST) && fake.long(CONTROL) as u32 & ENABLED == 0, "it is off until a device sends");
    let told = Some(Message { address: ADDRESS + 0x1_0040, data: 0 });
    assert_eq!(add(&mut its, 8), (Ok(FIRST), told));
    assert_eq!(add(&mut its, 16), (Ok(FIRST + 1), told));
    assert!(its.has(FIRST + 1) && !its.has(FIRST + 2) && !its.has(33));
    let model = fake.model.lock();
    // By the numbers of their redistributors.
    assert_eq!(model.collections, BTreeMap::from([(0, 98 << 16), (1, 100 << 16), (2, 99 << 16)]));
    assert_eq!(model.messages, BTreeMap::from([(8, (8192, 0)), (16, (8193, 0))]));
    assert_eq!(
        model.bytes,
        BTreeMap::from([(8, PRIORITY | GROUP_1), (16, PRIORITY | GROUP_1)]),
        "they are off"
    );
    let tables: BTreeSet<_> = model.devices.values().collect();
    assert_eq!(tables.len(), 2, "devices have one table");
    for StartedHart { frame, .. } in PLACES {
        let at = frame * REDISTRIBUTOR_BYTES;
        assert_eq!(model.hart_registers[&at], ENABLED);
        assert_eq!(model.hart_registers[&(at + BYTES_AT)] & 0xfff, 13 | 1 << 10 | 7 << 7);
        assert_eq!(model.hart_registers[&(at + PENDING_AT)] & 0xffff, 1 << 10 | 7 << 7);
    }
    assert_eq!(model.hart_registers.get(&(3 * REDISTRIBUTOR_BYTES)), None, "no such hart has started");
}

#[test]
fn b5_a_message_comes_to_the_hart_that_its_lpi_is_routed_to_and_to_no_other() {
    let fake = Fake::new(Make { kind: PLAIN.kind | BY_ADDRESS, ..PLAIN });
    let mut its = fake.its();
    let [first, second] = [8, 16].map(|device| add(&mut its, device).0.unwrap());
    let name = |hart| REDISTRIBUTORS + (PLACES.iter().find(|it| it.hart == hart).unwrap().frame << 17) as u64;
    let come = || [0x100, 0, 1].map(|hart| fake.take(name(hart)));
    let nothing: [List<u64>; 3] = Default::default();
    let mut route = |numbers: &[u32], to| its.route(&fake, numbers.iter().copied(), to);
    // Nowhere so far: it waits.
    fake.send(8);
    assert_eq!(come(), nothing);
    route(&[first, second], Some(0)).unwrap();
    assert_eq!(come(), [&[][..], &[8192], &[]]);
    fake.send(16);
    // One hart in another's place takes over what has come, too.
    route(&[first, second], Some(1)).unwrap();
    assert_eq!(come(), [&[][..], &[], &[8193]]);
    assert!(fake.model.lock().synchronised.ends_with(&[name(0), name(1)]), "the one before has heard of it");
    route(&[first, second], None).unwrap();
    fake.send(8);
    fake.send(16);
    assert_eq!(come(), nothing);
    route(&[second], Some(0x100)).unwrap();
    assert_eq!(come(), [&[8193][..], &[], &[]]);
    let told = fake.model.lock().kinds.len();
    route(&[second], Some(0x100)).unwrap();
    assert_eq!(fake.model.lock().kinds.len(), told, "nothing has changed");
    assert_eq!(route(&[first], Some(7)), Err(IrqError::NoHart));
    assert_eq!(route(&[second + 1], Some(0)), Err(IrqError::NoInterrupt));
    // As many as there are commands, and more: they go round.
    for round in 0..100 {
        route(&[first, second], Some(round % 2)).unwrap();
        fake.send(8);
        assert_eq!(fake.take(name(round % 2)), [8192]);
    }
    // One that is told of twice is one.
    route(&[first, first], None).unwrap();
    fake.send(8);
    assert_eq!(come(), nothing);
    assert_eq!(fake.model.lock().words, 0, "it sees the harts' caches");
}

#[test]
fn b4_a_service_that_does_not_see_the_harts_caches_has_all_that_it_reads_in_memory() {
    for make in [Make { shares: false, ..PLAIN }, Make { coherent: false, ..PLAIN }] {
        let fake = Fake::new(make);
        let mut its = fake.its();
        let number = add(&mut its, 8).0.unwrap();
        let written = fake.model.lock().words;
        assert!(written >= 6 * PART, "{written} words");
        its.route(&fake, [number].into_iter(), Some(0)).unwrap();
        // Four commands and the LPI's word.
        assert_eq!(fake.model.lock().words, written + 4 * COMMAND + 1);
        assert_eq!(fake.long(COMMANDS_AT) >> 59 & 7, NO_CACHES);
        let model = fake.model.lock();
        assert_eq!(model.registers[&COMMANDS_AT] & SHARED as u32, 0);
        assert_eq!(model.hart_registers[&PENDING_AT] & 0xfff, (NO_CACHES as u32) << 7);
    }
}

#[test]
fn b5_all_harts_of_a_node_that_has_most_have_a_collection() {
    let fake = Fake::new(PLAIN);
    let (mut its, places) = (fake.its(), places(HARTS));
    let number = add_with(&mut its, &places, 8).0.unwrap();
    assert_eq!(fake.model.lock().collections.len(), HARTS);
    let last = HARTS as u64 - 1;
    its.route(&fake, [number].into_iter(), Some(last)).unwrap();
    fake.send(8);
    assert_eq!(fake.take((100 - last) << 16), [u64::from(number)]);
}

#[test]
fn r5_a_service_that_gets_stuck_while_it_works_is_not_waited_for_again() {
    for with_error in [true, false] {
        let fake = Fake::new(PLAIN);
        let mut its = fake.its();
        let number = add(&mut its, 8).0.unwrap();
        its.route(&fake, [number].into_iter(), Some(0)).unwrap();
        fake.model.lock().stuck = Some(with_error);
        let mut route = |to| its.route(&fake, [number].into_iter(), to);
        assert_eq!(route(Some(1)), Err(IrqError::Stuck));
        let looks = fake.model.lock().looks;
        // It would carry out the next: what is lost stays lost.
        fake.model.lock().stuck = None;
        assert_eq!(route(Some(1)), Err(IrqError::Stuck));
        assert_eq!(route(None), Err(IrqError::Stuck));
        assert_eq!(add(&mut its, 16), (Err(IrqError::Stuck), None));
        assert_eq!(fake.model.lock().looks, looks, "it was asked again");
    }
    // One that gets stuck at a device gives its LPI to no other.
    let fake = Fake::new(PLAIN);
    let mut its = fake.its();
    let number = add(&mut its, 8).0.unwrap();
    fake.model.lock().stuck = Some(true);
    assert_eq!(add(&mut its, 16), (Err(IrqError::Stuck), None));
    fake.model.lock().stuck = None;
    assert_eq!(add(&mut its, 24), (Err(IrqError::Stuck), None));
    assert_eq!(its.route(&fake, [number].into_iter(), Some(0)), Err(IrqError::Stuck));
}

#[test]
fn r5_a_service_that_cannot_do_it_is_refused_and_the_device_keeps_its_pin() {
    let refused = |make| {
        let (number, told) = add(&mut Fake::new(make).its(), 8);
        assert_eq!(told, None, "it was told to send");
        number.unwrap_err()
    };
    assert_eq!(refused(Make { kind: 0, ..PLAIN }), IrqError::NoInterrupt);
    assert_eq!(
        refused(Make { tables: [(0, 0), (OF_COLLECTIONS, 7), (0, 0)], ..PLAIN }),
        IrqError::NoInterrupt
    );
    let none = [(OF_DEVICES, 7), (0, 0), (0, 0)];
    assert_eq!(refused(Make { tables: none, ..PLAIN }), IrqError::NoHart);
    assert_eq!(refused(Make { stuck: Some(true), ..PLAIN }), IrqError::Stuck);
    assert_eq!(refused(Make { stuck: Some(false), ..PLAIN }), IrqError::Stuck);
    // Room of its own for collections, and pages of 4 KiB alone, do as well.
    let own = Make { kind: PLAIN.kind | 3 << 24, tables: none, page: Some(0), ..PLAIN };
    assert!(add(&mut Fake::new(own).its(), 8).0.is_ok());
    // Bits of devices: one less than the type says.
    let few = Make { kind: PHYSICAL | 2 << 13, ..PLAIN };
    assert_eq!(add(&mut Fake::new(few).its(), 7).0, Ok(FIRST));
    assert_eq!(add(&mut Fake::new(few).its(), 8), (Err(IrqError::NoInterrupt), None));
    // The table's end, two devices of one number, and more than are given.
    let mut its = Fake::new(PLAIN).its();
    assert_eq!(add(&mut its, 8192), (Err(IrqError::NoInterrupt), None));
    for device in 0..MOST as u32 {
        assert_eq!(add(&mut its, 8191 - device).0, Ok(FIRST + device));
        assert_eq!(add(&mut its, 8191 - device), (Err(IrqError::NoInterrupt), None));
    }
    assert_eq!(add(&mut its, 0), (Err(IrqError::NoInterrupt), None));
    // One whose memory somebody has chosen already, and one that has no LPIs.
    for (at, word, error) in [(0, ENABLED, IrqError::NotOurs), (REDISTRIBUTOR_TYPE, 0, IrqError::NoInterrupt)]
    {
        let fake = Fake::new(PLAIN);
        fake.model.lock().hart_registers.insert(REDISTRIBUTOR_BYTES + at, word);
        let mut its = fake.its();
        assert_eq!(add(&mut its, 8), (Err(error), None));
        assert_eq!(add(&mut its, 9), (Err(error), None), "it is not tried again");
        assert_eq!(fake.long(COMMANDS_AT), 0, "it was told before all harts were looked at");
    }
    // One whose harts keep their LPIs off.
    let fake = Fake::new(Make { turns_on: false, ..PLAIN });
    assert_eq!(add(&mut fake.its(), 8), (Err(IrqError::NotOurs), None));
    assert_eq!(fake.long(CONTROL) as u32 & ENABLED, 0);
}

#[test]
fn s1_a_service_that_rests_can_be_started_again_with_other_memory() {
    let fake = Fake::new(PLAIN);
    let mut its = fake.its();
    assert!(its.rest(&PLACES), "it was never started");
    assert_eq!(add(&mut its, 8).0, Ok(FIRST));
    assert_eq!(add(&mut fake.its(), 8).0, Err(IrqError::NotOurs));
    assert!(its.rest(&PLACES));
    assert_eq!(fake.long(CONTROL) as u32 & ENABLED, 0);
    let before = fake.long(COMMANDS_AT);
    assert_eq!(add(&mut fake.its(), 8).0, Ok(FIRST));
    assert_ne!(fake.long(COMMANDS_AT), before);
    // Harts whose LPIs stay on once they were keep their memory.
    let fake = Fake::new(Make { turns_off: false, ..PLAIN });
    let mut its = fake.its();
    assert_eq!(add(&mut its, 8).0, Ok(FIRST));
    assert!(!its.rest(&PLACES));
}

proptest! {
    /// Whatever a service says of itself: it is refused, or what it is told fits into what it was given, which the model checks.
    #[test]
    fn r5_whatever_sizes_a_service_has_it_is_told_what_it_has_room_for(
        kind in any::<u64>(),
        tables in prop::array::uniform3((0u64..8, 0u64..32)),
        page in prop::option::of(0u64..4),
        shares in any::<bool>(),
        coherent in any::<bool>(),
        harts in prop_oneof![4 => 2usize..4, 1 => 2..=HARTS],
        devices in prop::collection::vec(prop_oneof![0u32..0x300, any::<u32>()], 1..12),
    ) {
        let fake = Fake::new(Make { kind, tables, page, shares, stuck: None, turns_on: true, turns_off: true, coherent });
        let (mut its, places) = (fake.its(), places(harts));
        let mut given = 0;
        for device in devices {
            let (number, told) = add_with(&mut its, &places, device);
            prop_assert_eq!(number.is_ok(), told.is_some());
            if let Ok(number) = number {
                prop_assert_eq!(number, FIRST + given);
                given += 1;
                its.route(&fake, [number].into_iter(), Some(harts as u64 - 1)).unwrap();
                fake.send(device.into());
                // As that hart's collection is named.
                let hart = fake.model.lock().collections[&(harts as u64 - 1)];
                prop_assert_eq!(fake.take(hart), [u64::from(number)]);
            }
        }
    }
}
