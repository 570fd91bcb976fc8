//! The boards that nodes are emulated on, and what each needs of the emulator (SPEC B-6).

use std::ops::RangeInclusive;

use anyhow::{Result, ensure};
use clap::ValueEnum;
use dtoolkit::{fdt::Fdt, model::DeviceTree};

use crate::arch::Arch;

/// A board.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, ValueEnum)]
pub enum Board {
    /// QEMU's own, of either instruction set: GICv3 and PL011, or PLIC, 16550 and OpenSBI; network cards by virtio.
    Virt,
    /// The same, with its network cards behind PCI.
    VirtPci,
    /// The same, and the cards are Intel's 82574L (e1000e).
    VirtE1000e,
    /// Riscv64's with an APLIC and IMSICs in place of the PLIC.
    VirtAia,
    /// Xilinx Versal (aarch64): two cores, memory at address 0, GICv3, PL011, two GEMs; its emulation has slots of
    /// virtio beside.
    Versal,
    /// SiFive's HiFive Unleashed (riscv64): a monitor core and four others, PLIC, SiFive's UART, a GEM,
    /// OpenSBI.
    SifiveU,
    /// Xilinx Zynq UltraScale+ (aarch64): four cores, memory at address 0, GICv2, Cadence's UART, four GEMs of which two are used; its
    /// emulation makes no device tree.
    Zcu102,
    /// This machine's Linux: a node is a process, its harts are threads; `cargo xtask host`.
    Linux,
}

/// The network cards that a board's emulation gives a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cards {
    /// As many as are asked for, in slots of virtio over MMIO.
    Virtio,
    /// The same of virtio over PCI.
    VirtioPci,
    /// The same of Intel's 82574L.
    E1000e,
    /// So many controllers on the board.
    OnBoard(usize),
    /// As many as are asked for: streams to the fabric.
    Streams,
}

impl Board {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Virt,
        Self::VirtPci,
        Self::VirtE1000e,
        Self::VirtAia,
        Self::Versal,
        Self::SifiveU,
        Self::Zcu102,
        Self::Linux,
    ];

    /// Whether its nodes are emulated; else they are processes of this machine.
    pub fn is_emulated(self) -> bool {
        self != Self::Linux
    }

    /// The name used on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Virt => "virt",
            Self::VirtPci => "virt-pci",
            Self::VirtE1000e => "virt-e1000e",
            Self::VirtAia => "virt-aia",
            Self::Versal => "versal",
            Self::SifiveU => "sifive-u",
            Self::Zcu102 => "zcu102",
            Self::Linux => "linux",
        }
    }

    /// The instruction sets that it comes with, the usual one first.
    pub fn archs(self) -> &'static [Arch] {
        match self {
            Self::Virt | Self::VirtPci | Self::VirtE1000e => &Arch::ALL,
            Self::Versal | Self::Zcu102 => &[Arch::Aarch64],
            Self::VirtAia | Self::SifiveU => &[Arch::Riscv64],
            Self::Linux => Arch::of_processes(),
        }
    }

    /// Refuses an instruction set that it does not come with.
    ///
    /// # Errors
    /// With those that it does.
    pub fn check(self, arch: Arch) -> Result<()> {
        ensure!(
            self != Self::Linux || arch.is_of_processes(),
            "nodes of board linux are processes: `cargo xtask host`, with --arch {arch} for another processor's"
        );
        let archs: Vec<_> = self.archs().iter().map(|arch| arch.name()).collect();
        ensure!(self.archs().contains(&arch), "board {self} is not {arch}: it is {}", archs.join(" or "));
        Ok(())
    }

    /// QEMU's options that choose the board and its processor.
    pub fn options(self, arch: Arch) -> &'static [&'static str] {
        const SEMIHOSTING: &str = "enable=on,target=native";
        match (self, arch) {
            (Self::Virt | Self::VirtPci | Self::VirtE1000e, Arch::Aarch64) => {
                &["-machine", "virt,gic-version=3", "-cpu", "cortex-a72", "-semihosting-config", SEMIHOSTING]
            }
            (Self::Linux, _) | (_, Arch::Native | Arch::LinuxAarch64) => &[],
            (Self::Virt | Self::VirtPci | Self::VirtE1000e, Arch::Riscv64) => {
                &["-machine", "virt", "-cpu", "rv64", "-bios", "default"]
            }
            (Self::VirtAia, _) => &["-machine", "virt,aia=aplic-imsic", "-cpu", "rv64", "-bios", "default"],
            (Self::Versal, _) => &["-machine", "xlnx-versal-virt", "-semihosting-config", SEMIHOSTING],
            (Self::SifiveU, _) => {
                &["-machine", "sifive_u", "-bios", "default", "-semihosting-config", SEMIHOSTING]
            }
            // Entered at EL2, as on silicon.
            (Self::Zcu102, _) => {
                &["-machine", "xlnx-zcu102,virtualization=on", "-semihosting-config", SEMIHOSTING]
            }
        }
    }

    /// How many harts a node may have.
    pub fn harts(self) -> RangeInclusive<u8> {
        match self {
            Self::Virt | Self::VirtPci | Self::VirtE1000e | Self::VirtAia | Self::Linux => 1..=64,
            Self::Versal => 2..=2,
            Self::SifiveU | Self::Zcu102 => 1..=4,
        }
    }

    /// How many cores the emulator is to make for a node of `harts` harts: some are not for a kernel.
    pub fn cores(self, harts: u8) -> u8 {
        match self {
            Self::Virt | Self::VirtPci | Self::VirtE1000e | Self::VirtAia | Self::Zcu102 | Self::Linux => {
                harts
            }
            // Two Cortex-R5 beside.
            Self::Versal => harts + 2,
            // The monitor core.
            Self::SifiveU => harts + 1,
        }
    }

    /// Where the emulator puts a flat image, if that is what it is to be given; else it is given ELF, which says so itself.
    pub fn flat_at(self) -> Option<u64> {
        match self {
            // An ELF would be entered at EL3, without a tree.
            Self::Versal | Self::Zcu102 => Some(0x20_0000),
            Self::Virt | Self::VirtPci | Self::VirtE1000e | Self::VirtAia | Self::SifiveU | Self::Linux => {
                None
            }
        }
    }

    /// The network cards of a node.
    pub fn cards(self) -> Cards {
        match self {
            Self::Virt | Self::VirtAia => Cards::Virtio,
            Self::VirtPci => Cards::VirtioPci,
            Self::VirtE1000e => Cards::E1000e,
            Self::Versal | Self::Zcu102 => Cards::OnBoard(2),
            Self::SifiveU => Cards::OnBoard(1),
            Self::Linux => Cards::Streams,
        }
    }

    /// The device tree of a node of `harts` harts, if the emulator makes none.
    pub fn tree(self, harts: u8) -> Option<Vec<u8>> {
        const ZCU102: &[u8] = include_bytes!("../../kernel/src/devicetree/trees/aarch64-zcu102.dtb");
        let tree = Fdt::new(ZCU102).ok().filter(|_| self == Self::Zcu102)?;
        let mut tree = DeviceTree::from_fdt(&tree);
        let cpus = tree.root.child_mut("cpus")?;
        (harts..*self.harts().end()).for_each(|cpu| _ = cpus.remove_child(&format!("cpu@{cpu}")));
        Some(tree.to_dtb())
    }

    /// Whether a node has a card for the collective (tree) network beside that for the torus.
    pub fn has_tree(self) -> bool {
        match self.cards() {
            Cards::Virtio | Cards::VirtioPci | Cards::E1000e | Cards::Streams => true,
            Cards::OnBoard(cards) => cards > 1,
        }
    }

    /// What it is made of, where it is real, and how it was tried: the columns of [`list`] behind its instruction sets.
    fn facts(self) -> [&'static str; 4] {
        match self {
            Self::Virt => [
                "1 to 64",
                "PL011 or 16550; GICv3, GICv2 or PLIC; virtio",
                "none",
                "QEMU 7.2, U-Boot 2023.01",
            ],
            Self::VirtPci => ["1 to 64", "as virt; virtio over PCI", "none", "QEMU 7.2"],
            Self::VirtE1000e => {
                ["1 to 64", "as virt; Intel 82574L over PCI", "82574L cards", "QEMU 7.2; not on silicon"]
            }
            Self::VirtAia => ["1 to 64", "16550; APLIC and IMSICs; virtio", "none", "QEMU 7.2"],
            Self::Versal => ["2", "PL011; GICv3; GEM, virtio", "Versal VCK190", "QEMU 7.2; not on silicon"],
            Self::SifiveU => {
                ["1 to 4", "SiFive UART; PLIC; GEM", "HiFive Unleashed", "QEMU 7.2; not on silicon"]
            }
            Self::Zcu102 => ["1 to 4", "Cadence UART; GICv2; GEM", "ZCU102", "QEMU 7.2; not on silicon"],
            Self::Linux => {
                ["1 to 64", "the host's threads, descriptors, sockets", "this machine", "as processes"]
            }
        }
    }

    /// Whether the device tree says how many sockets, clusters, cores and threads the emulator was given. Riscv64's
    /// `virt` has one cluster of cores always (QEMU 7.2 makes clusters of NUMA nodes only), the others are as they are.
    pub fn tree_tells_topology(self, arch: Arch) -> bool {
        matches!((self, arch), (Self::Virt | Self::VirtPci | Self::VirtE1000e, Arch::Aarch64))
    }
}

/// All boards, a line each: `cargo xtask boards`.
pub fn list() -> String {
    const HEAD: [&str; 6] =
        ["board", "instruction set", "harts", "devices that are driven", "silicon", "tried"];
    let row = |board: Board| {
        let archs: Vec<_> = board.archs().iter().map(|arch| arch.name()).collect();
        let [harts, devices, silicon, tried] = board.facts().map(str::to_owned);
        [board.name().to_owned(), archs.join(", "), harts, devices, silicon, tried]
    };
    let rows: Vec<_> = std::iter::once(HEAD.map(str::to_owned)).chain(Board::ALL.map(row)).collect();
    let widths: [usize; 6] =
        std::array::from_fn(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0));
    let line = |row: &[String; 6]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

impl std::fmt::Display for Board {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h1_an_emulated_machines_instruction_set_is_none_of_processes() {
        for arch in Arch::ALL {
            let error = Board::Linux.check(arch).unwrap_err().to_string();
            assert!(error.contains("`cargo xtask host`"), "{error}");
        }
        assert!(Arch::of_processes().iter().all(|&arch| Board::Linux.check(arch).is_ok()));
        let error = Board::Virt.check(Arch::Native).unwrap_err().to_string();
        assert!(error.ends_with("it is aarch64 or riscv64"), "{error}");
    }

    #[test]
    fn b6_the_list_has_every_board_and_says_of_harts_what_a_run_allows() {
        let list = list();
        for board in Board::ALL {
            let line = list.lines().find(|line| line.starts_with(board.name())).expect("its line");
            let harts = match (*board.harts().start(), *board.harts().end()) {
                (least, most) if least == most => format!("  {least}  "),
                (least, most) => format!("  {least} to {most}  "),
            };
            assert!(line.contains(&harts), "{line}");
            assert!(board.archs().iter().all(|arch| line.contains(arch.name())), "{line}");
        }
        assert_eq!(list.lines().count(), Board::ALL.len() + 1);
    }

    #[test]
    fn b6_a_tree_that_the_emulator_does_not_make_has_the_harts_of_the_node() {
        use dtoolkit::Node as _;
        assert!(Board::ALL.iter().all(|board| board.tree(2).is_some() == (*board == Board::Zcu102)));
        for harts in Board::Zcu102.harts() {
            let tree = Board::Zcu102.tree(harts).unwrap();
            let tree = Fdt::new(&tree).unwrap();
            let names: Vec<_> = tree.find_node("/cpus").unwrap().children().map(|cpu| cpu.name()).collect();
            assert_eq!(names, ["cpu@0", "cpu@1", "cpu@2", "cpu@3"][..harts.into()]);
        }
    }
}
