//! The capture file: classic pcap, Ethernet, microseconds, one file for the whole fabric.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const MAGIC_MICROSECONDS: u32 = 0xA1B2_C3D4;
const LINKTYPE_ETHERNET: u32 = 1;
/// No frame that the fabric carries is cut.
const SNAP_LENGTH: u32 = 65535;

/// Writes frames to a capture.
pub struct Capture<W: Write> {
    out: W,
    dirty: bool,
}

impl Capture<BufWriter<File>> {
    /// Creates the file, over an older one, and the folders on the way to it.
    ///
    /// # Errors
    /// The file cannot be made or written.
    pub fn create(path: &Path) -> io::Result<Self> {
        path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        Capture::new(BufWriter::new(File::create(path)?))
    }
}

impl<W: Write> Capture<W> {
    /// Writes the file's header.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(&MAGIC_MICROSECONDS.to_le_bytes())?;
        // Version 2.4, then time zone and accuracy, which nobody fills.
        out.write_all(&[2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0])?;
        out.write_all(&SNAP_LENGTH.to_le_bytes())?;
        out.write_all(&LINKTYPE_ETHERNET.to_le_bytes())?;
        Ok(Self { out, dirty: true })
    }

    /// Appends one frame with the time of now.
    ///
    /// # Errors
    /// Those of the file.
    pub fn record(&mut self, frame: &[u8]) -> io::Result<()> {
        self.record_at(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(), frame)
    }

    /// Appends one frame; `at` is the time since 1970.
    ///
    /// # Errors
    /// Those of the file.
    pub fn record_at(&mut self, at: Duration, frame: &[u8]) -> io::Result<()> {
        self.dirty = true;
        let length = frame.len() as u32;
        // The field wraps in 2106, as the format has it.
        for word in [at.as_secs() as u32, at.subsec_micros(), length, length] {
            self.out.write_all(&word.to_le_bytes())?;
        }
        self.out.write_all(frame)
    }

    /// Hands everything to the file, so that a capture is whole whenever the fabric is idle.
    ///
    /// # Errors
    /// Those of the file.
    pub fn flush(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.dirty) { self.out.flush() } else { Ok(()) }
    }
}

/// The frames of a capture, each with its time.
#[cfg(test)]
pub fn read(bytes: &[u8]) -> Option<Vec<(Duration, Vec<u8>)>> {
    let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    if (word(0)?, word(4)?, word(20)?) != (MAGIC_MICROSECONDS, 0x0004_0002, LINKTYPE_ETHERNET) {
        return None;
    }
    let (mut at, mut frames) = (24, Vec::new());
    while at < bytes.len() {
        let length = word(at + 8)?;
        if length != word(at + 12)? {
            return None;
        }
        let time = Duration::new(word(at)?.into(), word(at + 4)? * 1000);
        at += 16;
        frames.push((time, bytes.get(at..at + length as usize)?.to_vec()));
        at += length as usize;
    }
    Some(frames)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x4_a_capture_reads_back() {
        let mut bytes = Vec::new();
        let mut capture = Capture::new(&mut bytes).unwrap();
        let records = [(Duration::new(1_700_000_000, 123_456_000), vec![7; 60]), (Duration::ZERO, vec![])];
        for (at, frame) in &records {
            capture.record_at(*at, frame).unwrap();
        }
        assert_eq!(bytes[..4], [0xD4, 0xC3, 0xB2, 0xA1]);
        assert_eq!(read(&bytes).unwrap(), records);
    }
}
