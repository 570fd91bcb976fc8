//! The instruction sets that nodes have, and what each needs from the host.

use clap::ValueEnum;

/// An instruction set.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, ValueEnum)]
pub enum Arch {
    /// 64-bit Arm.
    Aarch64,
    /// 64-bit RISC-V.
    Riscv64,
    /// This machine's own, of processes that are nodes: nothing is emulated.
    #[value(skip)]
    Native,
    /// 64-bit Arm, of processes that are nodes on a machine of another kind: QEMU stands in for the processor, and the system
    /// is this machine's.
    #[value(skip)]
    LinuxAarch64,
}

impl Arch {
    /// Those of emulated machines, in the order in which they are built and tested.
    pub const ALL: [Self; 2] = [Self::Aarch64, Self::Riscv64];
    /// Those of processes, this machine's own first.
    pub fn of_processes() -> &'static [Self] {
        if std::env::consts::ARCH == "aarch64" {
            &[Self::Native]
        } else {
            &[Self::Native, Self::LinuxAarch64]
        }
    }

    /// Whether its nodes are processes.
    pub fn is_of_processes(self) -> bool {
        matches!(self, Self::Native | Self::LinuxAarch64)
    }

    /// The name used on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aarch64 | Self::LinuxAarch64 => "aarch64",
            Self::Riscv64 => "riscv64",
            Self::Native => std::env::consts::ARCH,
        }
    }

    /// rustc's name of the target.
    pub fn target(self) -> &'static str {
        match self {
            Self::Aarch64 => "aarch64-unknown-none",
            Self::Riscv64 => "riscv64gc-unknown-none-elf",
            Self::LinuxAarch64 => "aarch64-unknown-linux-gnu",
            Self::Native if std::env::consts::ARCH == "aarch64" => "aarch64-unknown-linux-gnu",
            Self::Native => "x86_64-unknown-linux-gnu",
        }
    }

    /// QEMU's program; empty where nothing is emulated, as are the next two.
    pub fn emulator(self) -> &'static str {
        match self {
            Self::Aarch64 => "qemu-system-aarch64",
            Self::Riscv64 => "qemu-system-riscv64",
            Self::LinuxAarch64 => "qemu-aarch64",
            Self::Native => "",
        }
    }

    /// The Debian package that holds [`emulator`](Self::emulator).
    pub fn emulator_package(self) -> &'static str {
        match self {
            Self::Aarch64 => "qemu-system-arm",
            Self::Riscv64 => "qemu-system-misc",
            Self::LinuxAarch64 => "qemu-user",
            Self::Native => "",
        }
    }

    /// Where among Debian's builds of U-Boot that for QEMU's `virt` lies.
    pub fn u_boot(self) -> &'static str {
        match self {
            Self::Aarch64 => "qemu_arm64/u-boot.bin",
            Self::Riscv64 => "qemu-riscv64_smode/u-boot.bin",
            Self::Native | Self::LinuxAarch64 => "",
        }
    }

    /// Whether `image` is an ELF file for this machine.
    pub fn runs(self, image: &[u8]) -> bool {
        let machine: u16 = match self {
            Self::Riscv64 => 243,
            Self::Native if std::env::consts::ARCH != "aarch64" => 62,
            Self::Aarch64 | Self::LinuxAarch64 | Self::Native => 183,
        };
        image.starts_with(b"\x7fELF") && image.get(18..20) == Some(&machine.to_le_bytes())
    }
}

impl std::fmt::Display for Arch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
