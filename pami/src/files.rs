//! A job's files, as a node offers them to messaging libraries (SPEC S-2). None of PAMI uses them.

use core::fmt;

/// Most bytes of a file's name, with the folders before it.
pub const MOST_NAME: usize = 255;

bitflags::bitflags! {
    /// How a file is opened.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct OpenMode: u16 {
        /// To be read.
        const READ = 1;
        /// To be written.
        const WRITE = 2;
        /// Made if it is not there; to be written too.
        const CREATE = 4;
        /// With `CREATE`: it must not be there.
        const EXCLUSIVE = 8;
        /// What was in it is gone; to be written too.
        const TRUNCATE = 16;
        /// Each write goes to its end, whatever the offset; to be written too.
        const APPEND = 32;
    }
}

impl OpenMode {
    /// To be read from its start.
    pub const READ_ONLY: Self = Self::READ;
    /// Made anew, to be written.
    pub const NEW: Self = Self::WRITE.union(Self::CREATE).union(Self::TRUNCATE);
    /// To be read and written, made if it is not there.
    pub const UPDATE: Self = Self::READ.union(Self::WRITE).union(Self::CREATE);

    /// Whether a file can be opened so: to be read, or written, and nothing that wants writing without it.
    pub fn is_sound(self) -> bool {
        let writing = Self::CREATE.union(Self::TRUNCATE).union(Self::APPEND);
        let wants = self.intersects(writing);
        let exclusive = !self.contains(Self::EXCLUSIVE) || self.contains(Self::CREATE);
        self.intersects(Self::READ.union(Self::WRITE)) && (!wants || self.contains(Self::WRITE)) && exclusive
    }
}

/// Files by name. Any thread may call.
pub trait Files: Copy + Sync + Send + 'static {
    /// One that is open; it closes when dropped.
    type Open: OpenFile;

    /// Opens a file.
    ///
    /// # Errors
    /// What POSIX's `open` says.
    fn open_file(&self, name: &str, mode: OpenMode) -> Result<Self::Open, Errno>;

    /// Takes a file its name; who has it open keeps it.
    ///
    /// # Errors
    /// What POSIX's `unlink` says.
    fn remove(&self, name: &str) -> Result<(), Errno>;
}

/// An open file. Any thread may call; calls return when they are carried out.
pub trait OpenFile: Sync + Send {
    /// Reads `len` bytes from `offset` on, and hands them to `take` in pieces, each with its place among them, in order. Returns
    /// how many there were: fewer at the file's end only, or before a piece that could not be read.
    ///
    /// # Errors
    /// Not one byte could be read, and it is not the file's end.
    fn read_pieces(&self, offset: u64, len: usize, take: impl FnMut(usize, &[u8])) -> Result<usize, Errno>;

    /// Writes `len` bytes from `offset` on, which `fill` puts in their room, in pieces, each with its place among them, in order.
    /// Returns how many of the first ones were written: fewer only before one that could not be.
    ///
    /// # Errors
    /// Not one byte could be written.
    fn write_pieces(
        &self,
        offset: u64,
        len: usize,
        fill: impl FnMut(usize, &mut [u8]),
    ) -> Result<usize, Errno>;

    /// Its size in bytes.
    ///
    /// # Errors
    /// `EIO` among others.
    fn bytes(&self) -> Result<u64, Errno>;

    /// Returns when all that was written is where it outlives the machine.
    ///
    /// # Errors
    /// `EIO` among others.
    fn sync(&self) -> Result<(), Errno>;

    /// Closes it, and tells how that went.
    ///
    /// # Errors
    /// `EIO` among others; it counts as closed.
    fn close(self) -> Result<(), Errno>;
}

/// Why a call for a file failed, as POSIX numbers it on Linux; those that have no name here are told as numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub u16);

macro_rules! errors {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        impl Errno {
            $(#[doc = $text] pub const $name: Self = Self($number);)*

            fn words(self) -> Option<(&'static str, &'static str)> {
                match self {
                    $(Self::$name => Some((stringify!($name), $text)),)*
                    _ => None,
                }
            }
        }
    };
}

errors! {
    EPERM = 1, "not permitted";
    ENOENT = 2, "no such file or directory";
    EIO = 5, "the I/O node is lost, or its disk failed";
    EBADF = 9, "not open, or not so";
    EACCES = 13, "not allowed, or outside of the directory of the job's files";
    EBUSY = 16, "in use";
    EEXIST = 17, "exists";
    EXDEV = 18, "on another device";
    ENODEV = 19, "the job was given no files: start it with --files";
    ENOTDIR = 20, "no directory";
    EISDIR = 21, "a directory";
    EINVAL = 22, "cannot be";
    ENFILE = 23, "too many files are open on the host";
    EMFILE = 24, "too many files are open at this node";
    EFBIG = 27, "too large";
    ENOSPC = 28, "no space is left";
    EROFS = 30, "cannot be written there";
    ENAMETOOLONG = 36, "the name is too long";
    ENOTEMPTY = 39, "the directory is not empty";
    ELOOP = 40, "too many links";
    EPROTO = 71, "the I/O node's answer is none";
    ETIMEDOUT = 110, "the I/O node does not answer";
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.words() {
            Some((name, text)) => write!(f, "{name}, {text}"),
            None => write!(f, "error {}", self.0),
        }
    }
}
