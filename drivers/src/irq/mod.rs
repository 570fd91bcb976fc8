//! Interrupt controllers (SPEC B-1, D-10). All interrupts but one are never taken: they end a hart's sleep, and the hart then
//! claims and completes them.
//!
//! [`Controller`] is what each of them has to do. A controller's names of harts are: an MPIDR's affinity at the GICs, a
//! context at the PLIC, the number of its registers at an APLIC, of its file at IMSICs. Interrupts have the numbers that the
//! controller reports them by: at the GICs those between harts are below 16, private ones below 32.

pub mod aplic;
pub mod gicv2;
pub mod gicv2m;
pub mod gicv3;
pub mod imsic;
pub mod its;
pub mod plic;
mod registers;

/// Why the controller refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IrqError {
    /// It has no part for the hart.
    NoHart,
    /// It has no such interrupt, or it is of the wrong kind.
    NoInterrupt,
    /// Its registers are kept from the kernel by a level above.
    NotOurs,
    /// It does not carry out what it is told.
    Stuck,
}

impl IrqError {
    /// It in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::NoHart => "a hart has no part of it",
            Self::NoInterrupt => "it has no such interrupt",
            Self::NotOurs => "its registers are not for the kernel's level",
            Self::Stuck => "it does not carry out what it is told",
        }
    }
}

/// How a device's interrupt comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// Signalled by an edge, not by a level.
    pub edge: bool,
    /// Reaches harts that accept nothing else.
    pub urgent: bool,
}

/// What a hart lets reach it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Accept {
    /// Every interrupt.
    All,
    /// Urgent ones of devices.
    Urgent,
}

/// What a device sends as its interrupt: a store of `data`, of 32 bits, to an address as devices call it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// Where to.
    pub address: u64,
    /// What.
    pub data: u32,
}

/// A device's place for the message that it interrupts by. One hart at a time changes it.
pub trait Sender: Sync {
    /// Has the device send `message` from now on, or keep what it would send until there is one again. On return, whatever it sent
    /// before has arrived.
    fn aim(&self, message: Option<Message>);
}

/// An interrupt controller. Any hart may call any of it; `here` is the name of the one that calls.
pub trait Controller: Sync {
    /// Starts the calling hart's part, and lets its `private` interrupts through. Called once by each.
    ///
    /// # Errors
    /// [`IrqError`]
    fn start_hart(&self, here: u64, private: &[u32]) -> Result<(), IrqError>;

    /// Sets how a device's interrupt comes, before the device may raise it: a level that is there by then may be forgotten. It goes
    /// to no hart yet.
    ///
    /// # Errors
    /// [`IrqError`]
    fn configure(&self, interrupt: u32, kind: Delivery) -> Result<(), IrqError>;

    /// Takes a device that sends messages, and says the number of its interrupt, which is still to be configured as an edge. What
    /// the device is called where its messages go, `device` is: some controllers know by that whose they are. All harts
    /// have started.
    ///
    /// # Errors
    /// [`IrqError::NoInterrupt`] if it takes no messages, no more, or none of such a device.
    fn add_sender(&self, _sender: &'static dyn Sender, _device: u32) -> Result<u32, IrqError> {
        Err(IrqError::NoInterrupt)
    }

    /// Sends devices' interrupts, which are configured, to the hart `to` or to none; so far they go to `from`, or to none.
    /// They never come to `from` once this returns.
    ///
    /// # Errors
    /// [`IrqError`]
    fn route(
        &self,
        here: u64,
        interrupts: &[u32],
        from: Option<u64>,
        to: Option<u64>,
    ) -> Result<(), IrqError>;

    /// Has it use no memory any more, so that it can be started again with other memory. False if it goes on.
    fn rest(&self) -> bool {
        true
    }

    /// Lets that much reach the calling hart.
    fn accept(&self, here: u64, what: Accept);

    /// Whether an interrupt waits to be claimed by the calling hart that may not end its sleep.
    fn is_pending(&self, _here: u64) -> bool {
        false
    }

    /// Takes the calling hart's most urgent pending interrupt, if it has one.
    fn claim(&self, here: u64) -> Option<u32>;

    /// Ends what [`claim`](Self::claim) began: the interrupt may come again.
    fn complete(&self, here: u64, claimed: u32);

    /// Interrupts a hart, the calling one too, by a private interrupt that was let through. False if the controller cannot.
    fn call(&self, hart: u64) -> bool;
}

/// The number of the interrupt by which harts call each other at a GIC.
pub const CALL: u32 = 0;
