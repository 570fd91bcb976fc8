//! The trees of nine boards, one board that no one has, and damaged ones.
//!
//! `aarch64-virt`, `aarch64-virt-secure`, `aarch64-virt-gicv2`, `aarch64-versal`, `riscv64-virt`, `riscv64-virt-aia`, `riscv64-virt-aplic` and
//! `riscv64-sifive_u` are QEMU 7.2's (`dumpdtb`), packed by `dtc`; of two APLICs `riscv64-virt-aia` has kept one. So are the
//! two `-gaps`, in which some harts are disabled. `aarch64-zcu102` is ours, as its `.dts`.

mod edited;
mod limits;
mod serial;

use super::*;
use edited::{cells, patched, with_copy, with_property};
use proptest::prelude::*;

const VIRT: &[u8] = include_bytes!("cpu_map/trees/aarch64-1x1x4x2.dtb");
const SECURE: &[u8] = include_bytes!("trees/aarch64-virt-secure.dtb");
const GICV2: &[u8] = include_bytes!("trees/aarch64-virt-gicv2.dtb");
const VERSAL: &[u8] = include_bytes!("trees/aarch64-versal.dtb");
const RISCV: &[u8] = include_bytes!("trees/riscv64-virt.dtb");
const SIFIVE_U: &[u8] = include_bytes!("trees/riscv64-sifive_u.dtb");
const AIA: &[u8] = include_bytes!("trees/riscv64-virt-aia.dtb");
const APLIC: &[u8] = include_bytes!("trees/riscv64-virt-aplic.dtb");
const ZCU102: &[u8] = include_bytes!("trees/aarch64-zcu102.dtb");
const GAPS: [&[u8]; 2] = [include_bytes!("trees/aarch64-gaps.dtb"), include_bytes!("trees/riscv64-gaps.dtb")];
const ODD: &[u8] = include_bytes!("trees/odd.dtb");
const ALL: [&[u8]; 12] =
    [VIRT, SECURE, GICV2, VERSAL, RISCV, AIA, APLIC, SIFIVE_U, ZCU102, GAPS[0], GAPS[1], ODD];

fn read(tree: &'static [u8], image: usize, booted: u64) -> Machine {
    Machine::read(sound::open(tree).unwrap(), image, booted)
}

fn region(start: usize, bytes: usize) -> Region {
    Region { start, bytes }
}

type Vec<T> = std::vec::Vec<T>;

#[test]
fn n3_the_machine_is_what_qemu_virt_says() {
    let machine = read(VIRT, 0x4020_0000, 0);
    assert_eq!(machine.problem, None);
    assert_eq!((machine.harts.len(), machine.slots.len()), (8, 32));
    assert_eq!(machine.uart.unwrap().registers, region(0x0900_0000, 0x1000));
    assert_eq!(machine.uart.unwrap().clock_hz, Some(24_000_000));
    assert_eq!(machine.uart.unwrap().interrupt, Some(Interrupt { number: 32 + 1, edge: false }));
    assert_eq!(machine.timer_interrupt, Some(16 + 11));
    assert_eq!(machine.slots[0].registers, region(0x0a00_0000, 0x200));
    assert_eq!(machine.slots[0].interrupt, Interrupt { number: 32 + 16, edge: true });
    assert_eq!(machine.firmware, Firmware::PsciHvc);

    let machine = read(RISCV, 0x8020_0000, 3);
    assert_eq!(machine.problem, None);
    assert_eq!(machine.booted, 3);
    let contexts: Vec<_> = machine.harts.iter().map(|hart| hart.at_controller).collect();
    assert_eq!(contexts, [Some(1), Some(3), Some(5), Some(7)]);
    assert_eq!(machine.counter_hz, Some(10_000_000));
    assert!(machine.finisher.is_some());
}

#[test]
fn b5_a_host_bridge_of_pci_is_what_the_trees_say() {
    // As QEMU wires them: devices 0 to 3, pins 1 to 4, turned on by one for each device.
    let lines = |host: &PciHost| {
        let of = |device| [1, 2, 3, 4].map(|pin| host.interrupts.find(device, pin).unwrap().number);
        [of(0), of(1), of(3), of(4)]
    };
    let host = read(VIRT, 0x4020_0000, 0).pci.unwrap();
    assert_eq!(host.configuration, region(0x40_1000_0000, 1 << 20));
    assert_eq!((host.window, host.on_bus), (region(0x1000_0000, 2 << 20), 0x1000_0000));
    assert_eq!(lines(&host), [[35, 36, 37, 38], [36, 37, 38, 35], [38, 35, 36, 37], [35, 36, 37, 38]]);
    assert!(!host.interrupts.find(1, 1).unwrap().edge);

    let host = read(RISCV, 0x8020_0000, 3).pci.unwrap();
    assert_eq!(host.configuration, region(0x3000_0000, 1 << 20));
    assert_eq!((host.window, host.on_bus), (region(0x4000_0000, 2 << 20), 0x4000_0000));
    assert_eq!(lines(&host), [[32, 33, 34, 35], [33, 34, 35, 32], [35, 32, 33, 34], [32, 33, 34, 35]]);
    assert_eq!([0, 5].map(|pin| host.interrupts.find(0, pin)), [None; 2]);
    // Boards without, and one whose only memory is of 64 bits.
    assert!([VERSAL, SIFIVE_U, ODD].iter().all(|tree| read(tree, 0x8020_0000, 2).pci.is_none()));
    let memory = cells([0x200_0000, 0, 0x4000_0000]);
    let other = cells([0x300_0000, 0, 0x4000_0000]);
    assert!(read(patched(RISCV, &memory, &other), 0x8020_0000, 3).pci.is_none());
    // Memory that devices call otherwise.
    let moved = read(patched(RISCV, &memory, &cells([0x200_0000, 0, 0x8000_0000])), 0x8020_0000, 3);
    let moved = moved.pci.unwrap();
    assert_eq!((moved.window.start, moved.on_bus), (0x4000_0000, 0x8000_0000));
    // Interrupts that go to another controller.
    let line = cells([0, 0, 0, 1, 9, 32]);
    let elsewhere = read(patched(RISCV, &line, &cells([0, 0, 0, 1, 8, 32])), 0x8020_0000, 3).pci.unwrap();
    assert_eq!(elsewhere.interrupts.find(0, 1), None);
    assert!(elsewhere.interrupts.find(0, 2).is_some());
}

#[test]
fn b3_places_for_cards_that_no_hart_reaches_are_left_out_and_refuse_no_machine() {
    let far = |tree| {
        let machine = read(tree, 0x8020_0000, 3);
        assert_eq!(machine.problem, None);
        (
            machine.pci.is_some(),
            machine.slots.len(),
            machine.left_out.map(|left_out| left_out.node),
            machine.end(),
        )
    };
    let memory_end = 0x8000_0000 + (128 << 20);
    assert_eq!(far(RISCV), (true, 8, None, memory_end));
    // Configuration space, and then a slot, from half of what Sv39 numbers on: that is the upper half.
    let bridge = patched(RISCV, &cells([0, 0x3000_0000, 0, 0x1000_0000]), &cells([0x40, 0, 0, 0x1000_0000]));
    let slot = patched(RISCV, &cells([0, 0x1000_8000, 0, 0x1000]), &cells([0x40, 0, 0, 0x1000]));
    assert_eq!(far(bridge), (true, 8, None, (1 << 38) + (1 << 20)));
    assert_eq!(far(slot), (true, 8, None, (1 << 38) + 0x1000));
    let sv39 = |tree| patched(tree, b"riscv,sv48\0", b"riscv,sv39\0");
    assert_eq!(far(sv39(bridge)), (false, 8, Some("pci@30000000"), memory_end));
    assert_eq!(far(sv39(slot)), (true, 7, Some("virtio_mmio@10008000"), memory_end));
    let beyond =
        patched(RISCV, &cells([0, 0x3000_0000, 0, 0x1000_0000]), &cells([0x8000, 0, 0, 0x1000_0000]));
    assert_eq!(far(beyond), (false, 8, Some("pci@30000000"), memory_end));
}

#[test]
fn b5_interrupts_behind_pci_are_told_apart_by_the_bus_too() {
    let buses = |tree: &[u8], first| with_property(tree, "pci@30000000", "bus-range", &cells([first, 0x7f]));
    let whole = with_property(RISCV, "pci@30000000", "interrupt-map-mask", &cells([0xff_1800, 0, 0, 7]));
    let find = |tree| read(tree, 0x8020_0000, 3).pci.unwrap().interrupts.find(1, 1).map(|line| line.number);
    assert_eq!([find(buses(RISCV, 4)), find(buses(whole, 0))], [Some(33); 2]);
    assert_eq!(find(buses(whole, 4)), None, "the map has those of bus 0");
    let moved = patched(whole, &cells([1 << 11, 0, 0, 1]), &cells([4 << 16 | 1 << 11, 0, 0, 1]));
    assert_eq!([find(buses(moved, 4)), find(buses(moved, 0))], [Some(33), None]);
}

#[test]
fn b4_cards_that_do_not_see_memory_as_harts_do_are_known_by_their_nodes() {
    let problems = |tree| {
        let machine = read(tree, 0x8020_0000, 0);
        let slots = machine.slots.iter().filter_map(|slot| slot.problem);
        let all = slots.chain(machine.pci.and_then(|host| host.problem));
        all.map(|problem| (problem.what.split(' ').nth(3).unwrap(), problem.node)).collect::<Vec<_>>()
    };
    // Arm's say that they see the caches; RISC-V's that they do not, if they do not; of ZCU102 there are none but GEMs.
    for tree in ALL {
        assert_eq!(problems(tree), []);
    }
    let silent = patched(GICV2, b"dma-coherent\0", b"dma-coherenz\0");
    assert_eq!((problems(silent).len(), problems(silent)[32]), (33, ("that", "pcie@10000000")));
    assert_eq!(problems(silent)[0], ("that", "virtio_mmio@a000000"));
    let apart = with_property(RISCV, "virtio_mmio@10003000", "dma-noncoherent", &[]);
    assert_eq!(problems(apart), [("that", "virtio_mmio@10003000")]);
    let soc = with_property(SIFIVE_U, "soc", "dma-noncoherent", &[]);
    assert_eq!(problems(soc), [], "GEMs can do without");

    // Of the bus around slots and bridge: nothing said, one to one, of memory's first half, moved; below 4 GiB and all from there on.
    let [start, half] = [0x8000_0000, 64 << 20];
    let tell = |cells: &[u32]| {
        let bytes: Vec<u8> = cells.iter().flat_map(|cell| cell.to_be_bytes()).collect();
        problems(with_property(RISCV, "soc", "dma-ranges", &bytes)).len()
    };
    assert_eq!(tell(&[]), 0);
    assert_eq!(tell(&[0, start, 0, start, 0, 2 * half]), 0);
    assert_eq!(tell(&[0, start, 0, start, 0, half]), 9);
    assert_eq!(tell(&[0, 0, 0, start, 0, 2 * half]), 9);
    assert_eq!(tell(&[0, 0, 0, 0, 1, 0, 1, 0, 1, 0, 0xff, 0]), 0);
    // Of the bridge itself: its addresses have three cells.
    let bridge = |on_bus| {
        let ranges = cells([0x4200_0000, 0, on_bus, 0, start, 0, 2 * half]);
        problems(with_property(RISCV, "pci@30000000", "dma-ranges", &ranges))
    };
    assert_eq!((bridge(start), bridge(0)), (vec![], vec![("on", "pci@30000000")]));
    // A GEM is on a bus too.
    let gem = with_property(SIFIVE_U, "soc", "dma-ranges", &cells([0, 0, 0, start, 1, 0]));
    assert_eq!(problems(gem), [("on", "ethernet@10090000")]);
}

#[test]
fn b5_messages_of_what_is_behind_pci_are_known_to_be_the_controllers() {
    let sender = |tree| read(tree, 0x8020_0000, 0).pci.unwrap().sender(2);
    let messages = |tree| sender(tree).is_some();
    // To a GICv3's ITS; to the frame of a GICv2; to harts' files; a PLIC, and an APLIC alone, take none.
    assert_eq!([VIRT, GICV2, AIA, RISCV, APLIC].map(messages), [true, true, true, false, false]);
    let frame = |tree| match read(tree, 0x4020_0000, 0).controller {
        Some(Controller::GicV2 { frame, .. }) => frame,
        other => panic!("{other:?}"),
    };
    assert_eq!(frame(GICV2), Some(region(0x0802_0000, 0x1000)));
    // To somebody else; of devices before this one only; of those behind it.
    for map in [[0, 0x8003, 0, 0x10000], [0, 0x8004, 0, 0x10], [0x11, 0x8004, 0, 0x10000]] {
        let tree = patched(GICV2, &cells([0, 0x8004, 0, 0x10000]), &cells(map));
        assert!(!messages(tree), "{map:x?}");
        // What a map leaves out is nobody's, whoever takes the rest.
        assert!(!messages(with_property(tree, "pcie@10000000", "msi-parent", &cells([0x8004]))), "{map:x?}");
    }
    let none = patched(GICV2, b"arm,gic-v2m-frame", b"arm,gic-v9m-frame");
    assert!(!messages(none) && frame(none).is_none());
    let elsewhere = patched(AIA, b"msi-parent\0", b"msi-orphan\0");
    assert!(read(elsewhere, 0x8020_0000, 0).pci.is_none_or(|pci| pci.sender(2).is_none()));
}

#[test]
fn b5_a_gicv3s_service_of_messages_calls_devices_as_the_map_says() {
    let its = |tree| match read(tree, 0x4020_0000, 0) {
        Machine { controller: Some(Controller::GicV3 { its, .. }), pci: Some(pci), .. } => {
            (its, pci.sender(2))
        }
        other => panic!("{other:?}"),
    };
    let at = Some(region(0x0808_0000, 0x2_0000));
    assert_eq!(its(VIRT), (at, Some(2 << 3)));
    let map = |cells: [u32; 4]| self::cells(cells);
    let phandle = 0x800a;
    let told = |new| patched(VIRT, &map([0, phandle, 0, 0x1_0000]), &map(new));
    assert_eq!(its(told([0, phandle, 0x700, 0x100])), (at, Some(0x710)));
    assert_eq!(its(told([0, phandle, u32::MAX, 0x1_0000])), (at, None), "no number of 32 bits");
    assert_eq!(its(told([0, phandle + 1, 0, 0x1_0000])), (None, None));
    let masked = with_property(VIRT, "pcie@10000000", "msi-map-mask", &cells([0]));
    assert_eq!(its(masked), (at, Some(0)));
    // The number of the bus counts: configuration space begins at the first.
    let buses = |tree| with_property(tree, "pcie@10000000", "bus-range", &cells([4, 0x7f]));
    assert_eq!(its(buses(VIRT)), (at, Some(0x410)));
    assert_eq!(its(buses(told([0x400, phandle, 0x1_0000, 0x100]))), (at, Some(0x1_0010)));
    assert_eq!(its(buses(told([0, phandle, 0, 0x400]))), (at, None));
    let masked = with_property(buses(VIRT), "pcie@10000000", "msi-map-mask", &cells([0xff]));
    assert_eq!(its(masked), (at, Some(0x10)));
    let parent = patched(buses(VIRT), b"msi-map\0", b"msi-was\0");
    let parent = with_property(parent, "pcie@10000000", "msi-parent", &cells([phandle]));
    assert_eq!(its(parent), (at, Some(0x410)));
    // Several ranges, of which the device's is the second, and one that is not whole.
    let ranges = |cells: &[u32]| {
        let bytes: std::vec::Vec<u8> = cells.iter().flat_map(|cell| cell.to_be_bytes()).collect();
        with_property(VIRT, "pcie@10000000", "msi-map", &bytes)
    };
    assert_eq!(its(ranges(&[0, phandle, 0x50, 0x10, 0x10, phandle, 0x900, 8])), (at, Some(0x900)));
    assert_eq!(its(ranges(&[0, phandle + 1, 0, 0x10, 0x10, phandle, 0x900, 8])), (at, Some(0x900)));
    assert_eq!(its(ranges(&[0, phandle, 0, 0x10, 0x10, phandle + 1, 0x900, 8])), (at, None));
    assert_eq!(its(ranges(&[0, phandle, 0])), (None, None));
    // A service that cannot be read takes no messages, and refuses no machine.
    let unreadable = with_property(VIRT, "its@8080000", "reg", &[]);
    assert_eq!(its(unreadable), (None, None));
    assert_eq!(read(unreadable, 0x4020_0000, 0).problem, None);
    // It sees memory through harts' caches unless its node, or one around it, says otherwise.
    let coherent = |tree| match read(tree, 0x4020_0000, 0).controller {
        Some(Controller::GicV3 { coherent, .. }) => coherent,
        other => panic!("{other:?}"),
    };
    assert!(coherent(VIRT));
    let apart = |node| with_property(VIRT, node, "dma-noncoherent", &[]);
    assert!(!coherent(apart("its@8080000")));
    let redistributors = with_property(apart("intc@8000000"), "its@8080000", "dma-coherent", &[]);
    assert!(!coherent(redistributors), "they are not");
    // A frame is no service.
    assert_eq!(its(patched(VIRT, b"arm,gic-v3-its\0", b"arm,gic-v3-itt\0")), (None, None));
}

#[test]
fn b3_a_slot_whose_interrupt_goes_to_another_sockets_controller_is_left_out() {
    let machine = read(AIA, 0x8020_0000, 2);
    assert_eq!((machine.problem, machine.left_out, machine.slots.len()), (None, None, 8));
    let name = "virtio_mmio@10008000";
    let machine = read(with_property(AIA, name, "interrupt-parent", &cells([0x99])), 0x8020_0000, 2);
    assert_eq!((machine.problem, machine.slots.len()), (None, 7));
    let deaf = machine.left_out.unwrap();
    assert_eq!((deaf.what, deaf.node), ("an interrupt that does not go to the interrupt controller", name));
}

#[test]
fn b3_harts_that_are_disabled_leave_gaps_in_ids_and_none_in_numbers() {
    let machine = read(GAPS[0], 0x4020_0000, 0x101);
    assert_eq!((machine.problem, machine.map_problem), (None, None));
    let ids: Vec<_> = machine.harts.iter().map(|hart| hart.id).collect();
    let expected: Vec<u64> = (0..16).filter(|&id| id != 3).chain([0x100, 0x101, 0x103]).collect();
    assert_eq!(ids, expected);
    assert!(machine.harts.iter().all(|hart| hart.at_controller == Some(hart.id)));
    assert_eq!(machine.booted, 16);

    let machine = read(GAPS[1], 0x8020_0000, 9);
    assert_eq!((machine.problem, machine.map_problem), (None, None));
    let harts: Vec<_> = machine.harts.iter().map(|hart| (hart.id, hart.at_controller)).collect();
    let expected = [0, 3, 4, 5, 6, 7, 9].map(|id| (id, Some(2 * id + 1)));
    assert_eq!((&harts[..], machine.booted), (&expected[..], 6));
    // The hart that boots is one of ours.
    assert_eq!(
        read(GAPS[1], 0x8020_0000, 8).problem.unwrap().what,
        "no available cpu node for the hart that booted"
    );
}

#[test]
fn b3_harts_translate_48_bits_if_all_of_them_say_so() {
    for (kind, expected) in [("sv39", false), ("sv48", true), ("sv57", true)] {
        let tree = patched(RISCV, b"riscv,sv48\0", format!("riscv,{kind}\0").as_bytes());
        assert_eq!(read(tree, 0x8020_0000, 0).sv48, expected, "{kind}");
    }
    let bytes = b"riscv,sv48\0";
    let first = RISCV.windows(bytes.len()).position(|window| window == bytes).unwrap();
    let mut mixed = RISCV.to_vec();
    mixed[first..first + bytes.len()].copy_from_slice(b"riscv,sv39\0");
    assert!(!read(mixed.leak(), 0x8020_0000, 0).sv48, "one of four does not");
}

#[test]
fn b1_the_controllers_for_supervisors_are_told_from_those_for_machines() {
    let machine = read(APLIC, 0x8020_0000, 1);
    assert_eq!(machine.problem, None);
    let Some(Controller::Aplic { registers, sources }) = machine.controller else {
        panic!("{:?}", machine.controller)
    };
    assert_eq!((registers, sources), (region(0x0d00_0000, 0x8000), 96));
    assert_eq!(machine.uart.unwrap().interrupt, Some(Interrupt { number: 10, edge: false }));
    assert_eq!(machine.slots[0].interrupt, Interrupt { number: 1, edge: false });

    // Two groups of two harts, each with a guest.
    let machine = read(AIA, 0x8020_0000, 2);
    assert_eq!(machine.problem, None);
    let Some(Controller::Imsic { registers, sources, files }) = machine.controller else {
        panic!("{:?}", machine.controller)
    };
    assert_eq!((registers, sources), (region(0x0d00_0000, 0x8000), 96));
    let none = region(0, 0);
    assert_eq!(files.regions, [region(0x2800_0000, 0x4000), region(0x2900_0000, 0x4000), none, none]);
    assert_eq!((files.guest_bits, files.hart_bits, files.group_bits, files.group_shift), (1, 1, 1, 24));
    assert_eq!(files.identities, 255);
    let names: Vec<_> = machine.harts.iter().map(|hart| (hart.id, hart.at_controller)).collect();
    assert_eq!(names, [(0, Some(0)), (1, Some(1)), (2, Some(2)), (3, Some(3))]);

    // A low level is none that is driven.
    let low = patched(APLIC, &cells([0x0a, 4]), &cells([0x0a, 8]));
    assert_eq!(read(low, 0x8020_0000, 0).uart.unwrap().interrupt, None);
    let deaf = patched(AIA, b"riscv,num-sources\0", b"riscv,num-mourned\0");
    assert_eq!(read(deaf, 0x8020_0000, 0).problem.unwrap().what, "an APLIC without sources");
    let wrong = patched(AIA, b"riscv,hart-index-bits\0", b"riscv,group-index-wide");
    let counted = read(wrong, 0x8020_0000, 0);
    assert_eq!(counted.problem, None);
    let Some(Controller::Imsic { files, .. }) = counted.controller else {
        panic!("{:?}", counted.controller)
    };
    assert_eq!(files.hart_bits, 2, "it goes by the number of harts");
    let wide = patched(AIA, &cells([0x18, 3]), &cells([0x48, 3]));
    assert_eq!(read(wide, 0x8020_0000, 0).problem.unwrap().what, "numbers that no IMSIC has");
    // Files that the domain does not send to: it interrupts the harts itself, and takes no messages.
    let beside = patched(AIA, b"msi-parent\0", b"msi-orphan\0");
    let pairs = cells([8, 9, 6, 9, 4, 9, 2, 9]);
    let machine = read(with_property(beside, "aplic@d000000", "interrupts-extended", &pairs), 0x8020_0000, 2);
    assert_eq!(machine.problem, None);
    assert!(matches!(machine.controller, Some(Controller::Aplic { .. })), "{:?}", machine.controller);
    assert!(
        machine.harts.iter().all(|hart| hart.at_controller.is_some())
            && machine.pci.unwrap().sender(2).is_none()
    );
}

#[test]
fn b1_of_several_controllers_for_supervisors_ours_is_the_one_that_leads_to_all_our_harts() {
    // Files and a domain of somebody else's harts in front of ours; then a domain that sends to those files alone.
    let theirs = cells([0x88, 9, 0x86, 9, 0x84, 9, 0x82, 9]);
    let regions = cells([0, 0x2600_0000, 0, 0x4000, 0, 0x2700_0000, 0, 0x4000]);
    let told = [("phandle", cells([0x77])), ("interrupts-extended", theirs), ("reg", regions)];
    let both = with_copy(AIA, "imsics@28000000", "imsics@26000000", &told);
    let told = [
        ("phandle", cells([0x76])),
        ("msi-parent", cells([0x77])),
        ("reg", cells([0, 0xb00_0000, 0, 0x8000])),
    ];
    let both = with_copy(both, "aplic@d000000", "aplic@b000000", &told);
    for tree in [AIA, both] {
        let machine = read(tree, 0x8020_0000, 2);
        assert_eq!(machine.problem, None);
        let Some(Controller::Imsic { registers, files, .. }) = machine.controller else {
            panic!("{:?}", machine.controller)
        };
        assert_eq!((registers.start, files.regions[0].start), (0x0d00_0000, 0x2800_0000));
        assert!(machine.pci.unwrap().sender(2).is_some());
    }
    // A domain that interrupts one of our harts and another's, in front of that for both of ours.
    let some = cells([4, 9, 0x82, 9]);
    let told = [
        ("phandle", cells([0x66])),
        ("interrupts-extended", some.clone()),
        ("reg", cells([0, 0xb00_0000, 0, 0x8000])),
    ];
    let machine = read(with_copy(APLIC, "aplic@d000000", "aplic@b000000", &told), 0x8020_0000, 1);
    assert_eq!(machine.problem, None);
    let Some(Controller::Aplic { registers, .. }) = machine.controller else {
        panic!("{:?}", machine.controller)
    };
    assert_eq!(registers.start, 0x0d00_0000);
    // One for all of ours there is not: it is said which is left out.
    let none = read(patched(APLIC, &cells([4, 9, 2, 9]), &some), 0x8020_0000, 1).problem.unwrap();
    assert!(none.what.contains("interrupts-extended") && none.node == "cpu@1", "{none}");
}

#[test]
fn n3_carryless_multiplication_is_what_every_hart_has_as_the_tree_says() {
    let has = |tree| read(tree, 0x8020_0000, 3).carryless;
    assert_eq!([has(RISCV), has(SIFIVE_U), has(VIRT)], [true, false, false]);
    assert!(!has(patched(RISCV, b"_zbc_", b"_zbq_")));
    // By the list that newer trees have; the disabled hart has none.
    assert!(has(ODD) && !has(patched(ODD, b"zbb\0zbc\0", b"zbb\0zbcq")));
}

#[test]
fn n8_timers_are_the_harts_own_if_every_hart_says_so() {
    let own = |tree| read(tree, 0x8020_0000, 3).sstc;
    assert_eq!([RISCV, AIA, APLIC, SIFIVE_U, ODD, VIRT].map(own), [true, true, true, false, false, false]);
    let other = RISCV.windows(5).rposition(|bytes| bytes == b"_sstc").unwrap();
    let mut mixed = RISCV.to_vec();
    mixed[other..other + 5].copy_from_slice(b"_sstx");
    assert!(!own(mixed.leak()), "one of four does not");
    // By the list that newer trees have.
    assert!(own(patched(ODD, b"zbb\0zbc\0", b"sstc\0zb\0")));
}

#[test]
fn r5_a_console_that_is_not_ours_is_left_alone() {
    let machine = read(SECURE, 0x4020_0000, 0);
    // The other one is the secure firmware's.
    assert_eq!(machine.uart.unwrap().registers.start, 0x0900_0000);
}

#[test]
fn n3_the_machine_is_what_versal_says() {
    let machine = read(VERSAL, 0x10_0000, 1);
    assert_eq!(machine.problem, None);
    let Some(Controller::GicV3 { distributor, redistributors, .. }) = machine.controller else { panic!() };
    assert_eq!((distributor.start, redistributors.start), (0xf900_0000, 0xf908_0000));
    assert_eq!(machine.uart.unwrap().registers.start, 0xff00_0000);
    assert_eq!(machine.uart.unwrap().clock_hz, Some(125_000_000));
    assert_eq!((machine.harts.len(), machine.booted, machine.slots.len()), (2, 1, 10));
    assert_eq!(machine.banks, [Bank { region: region(0, 0x800_0000), domain: None }]);
    // Linked for another place.
    assert!(read(VERSAL, 0x4020_0000, 0).problem.unwrap().what.contains("no memory"));
}

#[test]
fn n3_the_machine_is_what_zcu102_says() {
    let machine = read(ZCU102, 0x20_0000, 3);
    assert_eq!(machine.problem, None);
    let Some(Controller::GicV2 { distributor, interface, frame: None }) = machine.controller else {
        panic!()
    };
    assert_eq!((distributor.start, interface.start), (0xf901_0000, 0xf902_0000));
    let uart = machine.uart.unwrap();
    assert_eq!((uart.kind, uart.registers), (UartKind::Cadence, region(0xff00_0000, 0x1000)));
    // By a clock that the line names.
    assert_eq!(uart.clock_hz, Some(100_000_000));
    assert_eq!(uart.interrupt, Some(Interrupt { number: 32 + 21, edge: false }));
    assert_eq!((machine.timer_interrupt, machine.firmware), (Some(16 + 11), Firmware::PsciSmc));
    assert_eq!((machine.harts.len(), machine.booted), (4, 3));
    // The third is disabled.
    let gem = SlotKind::Gem { coherent: false, mtu: None, station: None };
    let line = |number: u32| Interrupt { number: 32 + number, edge: false };
    assert_eq!(slots(&machine, 0), [(gem, 0xff0b_0000, line(57)), (gem, 0xff0c_0000, line(59))]);
}

/// Kind, registers and interrupt of the slots from `first` on.
fn slots(machine: &Machine, first: usize) -> Vec<(SlotKind, usize, Interrupt)> {
    machine.slots[first..].iter().map(|slot| (slot.kind, slot.registers.start, slot.interrupt)).collect()
}

#[test]
fn b5_cards_on_boards_are_found_once_each_and_say_whether_they_see_the_caches() {
    let line = |number| Interrupt { number, edge: false };
    let gem = |coherent| SlotKind::Gem { coherent, mtu: None, station: None };
    // Compatible with two names, after eight slots of virtio; nothing is said of caches, which on Arm means that it sees none.
    let machine = read(VERSAL, 0x10_0000, 1);
    let two = [(gem(false), 0xff0c_0000, line(32 + 0x38)), (gem(false), 0xff0d_0000, line(32 + 0x3a))];
    assert_eq!(slots(&machine, 8), two);
    assert_eq!(machine.slots[7].kind, SlotKind::VirtioMmio);
    // Likewise on RISC-V, where it means that it sees them.
    let machine = read(SIFIVE_U, 0x8020_0000, 1);
    let station = Some([0x52, 0x54, 0, 0x12, 0x34, 0x56]);
    let own = SlotKind::Gem { coherent: true, mtu: None, station };
    assert_eq!(slots(&machine, 0), [(own, 0x1009_0000, line(0x35))]);
    // What is said counts, also of a bus.
    let told = with_property(VERSAL, "ethernet@ff0d0000", "dma-coherent", &[]);
    let kinds = slots(&read(told, 0x10_0000, 1), 8).into_iter().map(|(kind, ..)| kind);
    assert_eq!(kinds.collect::<Vec<_>>(), [gem(false), gem(true)]);
    let told = with_property(SIFIVE_U, "soc", "dma-noncoherent", &[]);
    let told = with_property(told, "ethernet@10090000", "max-frame-size", &cells([9000]));
    let kind = SlotKind::Gem { coherent: false, mtu: Some(9000), station };
    assert_eq!(slots(&read(told, 0x8020_0000, 1), 0), [(kind, 0x1009_0000, line(0x35))]);
}

#[test]
fn b5_a_cards_address_is_the_one_that_firmware_used_and_none_that_is_no_stations_is_taken() {
    let told = |tree: &[u8], name, address: &[u8]| {
        read(with_property(tree, "ethernet@10090000", name, address), 0x8020_0000, 1)
    };
    let station = |machine: &Machine| match machine.slots[0].kind {
        SlotKind::Gem { station, .. } => station,
        other => panic!("{other:?}"),
    };
    // (The tree has the other name.)
    assert_eq!(station(&told(SIFIVE_U, "mac-address", &[2, 0, 0, 0, 0, 9])), Some([2, 0, 0, 0, 0, 9]));
    // Nobody has filled it in.
    let next = station(&told(SIFIVE_U, "mac-address", &[0; 6]));
    assert_eq!(next, Some([0x52, 0x54, 0, 0x12, 0x34, 0x56]));
    assert_eq!(station(&told(SIFIVE_U, "local-mac-address", &[0; 6])), None);
    let none: [&[u8]; 4] = [&[0xff; 6], &[3, 0, 0, 0, 0, 9], &[2, 0, 0, 0, 9], &[]];
    for name in ["mac-address", "local-mac-address"] {
        for address in none {
            let problem = told(SIFIVE_U, name, address).problem.expect("it is no station's");
            assert_eq!(
                problem.to_string(),
                "the device tree has a network card whose address is no station's (node ethernet@10090000)"
            );
        }
    }
}

#[test]
fn r5_b1_a_monitor_hart_is_left_out_and_no_context_is_guessed() {
    let machine = read(SIFIVE_U, 0x8020_0000, 1);
    let harts: Vec<_> = machine.harts.iter().map(|hart| (hart.id, hart.at_controller)).collect();
    // Not 2 * hart + 1: hart 0 has no supervisor mode.
    assert_eq!(harts, [(1, Some(2)), (2, Some(4)), (3, Some(6)), (4, Some(8))]);
    assert_eq!((&machine.monitors[..], machine.problem), (&[0][..], None));
    let uart = machine.uart.unwrap();
    assert_eq!((uart.kind, uart.registers), (UartKind::SiFive, region(0x1001_0000, 0x1000)));
    // Its clock comes from a controller of clocks, of which no rate is known: it stays as the firmware set it up.
    assert_eq!((uart.clock_hz, uart.interrupt), (None, Some(Interrupt { number: 4, edge: false })));
    let none = read(patched(SIFIVE_U, b"sifive,uart0\0", b"sifive,uart9\0"), 0x8020_0000, 1);
    assert!(none.problem.unwrap().what.contains("no uart"));
}

#[test]
fn r5_an_odd_board_is_read_as_it_is() {
    let machine = read(ODD, 0x8020_0000, 2);
    assert_eq!((machine.problem, machine.map_problem), (None, None));
    // By place: the disabled hart is in the map and in no place; context 0 is its.
    let harts: Vec<_> = machine.harts.iter().map(|hart| (hart.id, hart.at_controller)).collect();
    assert_eq!(harts, [(2, Some(4)), (1, Some(2))]);
    assert_eq!(machine.booted, 0);
    // The alias in stdout-path, through two buses.
    let uart = machine.uart.unwrap();
    assert_eq!(uart.registers, region(0x1_4010_3000, 0x100));
    assert_eq!(
        (uart.kind, uart.clock_hz),
        (UartKind::Ns16550 { stride: 4, width: 1, synopsys: false }, Some(1_843_200))
    );
    let slots: Vec<_> =
        machine.slots.iter().map(|slot| (slot.registers.start, slot.interrupt.number)).collect();
    assert_eq!(slots, [(0x1_4001_0000, 5), (0x1_4002_0000, 6)]);
    let Some(Controller::Plic { registers }) = machine.controller else { panic!() };
    assert_eq!(registers, region(0x1_4c00_0000, 0x400_0000));
}

#[test]
fn r5_what_cannot_be_is_refused_with_the_nodes_name() {
    let refused = |tree, what: &str, node: &str| {
        let problem = read(tree, 0x8020_0000, 2).problem.unwrap_or_else(|| panic!("not refused: {what}"));
        assert!(problem.what.contains(what) && problem.node == node, "{problem} ({what}, {node})");
        assert!(std::format!("{problem}").contains(node));
    };
    let hz = cells([1_000_000]);
    refused(patched(ODD, &hz, &cells([0])), "timebase-frequency", "cpus");
    refused(patched(ODD, b"timebase-frequency", b"timebase-frequencz"), "timebase-frequency", "cpus");
    // A bus that does not reach its parent.
    refused(patched(ODD, b"ranges\0", b"rangez\0"), "ranges", "soc");
    let far = [cells([0x2_0000, 0x200]), cells([0xffff_0000, 0x200])];
    refused(patched(ODD, &far[0], &far[1]), "ranges", "soc");
    // The supervisor's interrupt of the first hart is the machine's instead: (its phandle, 11), (its phandle, 9).
    let is_first = |pairs: &&[u8]| pairs[4..8] == cells([11]) && pairs[12..] == cells([9]);
    let pairs = ODD.windows(16).find(is_first).unwrap();
    let other = [&pairs[..12], &cells([11])].concat();
    refused(patched(ODD, pairs, &other), "interrupts-extended", "cpu@1");
    // An interrupt of another controller: the last status that is "disabled" was never there.
    let is_disabled =
        |property: &[u8]| property[..8] == cells([3, 9]) && property[12..].starts_with(b"disabled\0");
    let at = ODD.windows(24).rposition(is_disabled).unwrap();
    let mut enabled = ODD.to_vec();
    enabled[at..at + 24].copy_from_slice(&cells([4; 6]));
    refused(enabled.leak(), "interrupt controller", "virtio@30000");
    // The hart that booted is not to be used.
    let problem = read(ODD, 0x8020_0000, 0).problem.unwrap();
    assert!(problem.what.contains("the hart that booted"), "{problem}");
    // What is of no use is not looked at: a clock of a console that is not ours.
    assert_eq!(
        read(patched(ODD, &cells([1_843_200]), &cells([0])), 0x8020_0000, 2).uart.unwrap().clock_hz,
        None
    );
}

#[test]
fn r5_bytes_that_are_no_tree_are_refused() {
    for tree in ALL {
        assert!(sound::open(tree).is_ok());
        // Behind it may be more.
        assert_eq!(sound::open(&[tree, &[7; 9]].concat()).unwrap().data().len(), tree.len());
        for cut in (0..tree.len()).step_by(61).chain([39, 40, tree.len() - 1]) {
            assert!(sound::open(&tree[..cut]).is_err(), "cut to {cut}");
        }
    }
    let nested = |depth: usize| {
        let nodes =
            [[0u8, 0, 0, 1].as_slice(), &[0; 4], &[0, 0, 0, 1, b'a', 0, 0, 0].repeat(depth - 1)].concat();
        let nodes = [nodes.as_slice(), &[0, 0, 0, 2].repeat(depth), &[0, 0, 0, 9]].concat();
        let (start, end) = (56, 56 + nodes.len() as u32);
        let head = cells([sound::MAGIC, end, start, end, 40, 17, 16, 0, 0, end - start]);
        sound::open(&[head.as_slice(), &[0; 16], &nodes].concat()).map(|_| ())
    };
    assert_eq!(nested(sound::MOST_DEPTH), Ok(()));
    assert!(nested(sound::MOST_DEPTH + 1).is_err());
    assert!(nested(10_000).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// Whatever bytes a tree has: it is refused, or read to an end.
    #[test]
    fn r5_a_damaged_tree_is_refused_or_read(
        board in 0usize..ALL.len(),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), 0usize..4, any::<u8>()), 1..12)
    ) {
        let mut tree = ALL[board].to_vec();
        for (at, how, byte) in edits {
            let at = at.index(tree.len());
            match how {
                0 => tree[at] = byte,
                1 => tree[at] ^= 1 << (byte % 8),
                // A token, or a number, in its place.
                2 => tree[at & !3..].iter_mut().zip([0, 0, 0, byte % 10]).for_each(|(at, byte)| *at = byte),
                // In the header.
                _ => tree[at % 40] = byte,
            }
        }
        if let Ok(tree) = sound::open(tree.leak()) {
            let machine = Machine::read(tree, 0x8020_0000, 0);
            prop_assert!(machine.harts.len() <= HARTS);
        }
    }
}
