//! Why a call for a file failed, as POSIX numbers it on Linux.

use core::fmt;

/// An error number; those that have no name here are told as numbers.
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
