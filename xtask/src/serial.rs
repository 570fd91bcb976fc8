//! `cargo xtask serial`: what a node says on its serial line, in words (SPEC B-8, N-12).
//!
//! A board's console is the stream that an emulated node's is: frames with zeros between them, defmt's among them. Whatever else
//! comes, a boot loader's words, is shown as it is.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::console::{self, Deframer, Frame};
use crate::log::Decoder;
use crate::progress::Voice;
use crate::symbols::Symbols;

/// What the tool itself ends with if the line is at its end before the node is.
const UNFINISHED: u8 = 1;

/// Shows what comes from `line`, a device or a file, or from the standard input, until the node tells its end. `words` are of the
/// image that it runs. Returns the node's status, or 1 if the line ended before it.
///
/// # Errors
/// The line cannot be read.
pub fn listen(words: &Words, line: Option<&Path>, voice: &Voice) -> Result<u8> {
    let (mut line, name): (Box<dyn Read>, _) = match line {
        Some(path) => {
            let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
            (Box::new(file), path.display().to_string())
        }
        None => (Box::new(std::io::stdin()), "the standard input".to_owned()),
    };
    let end = words.follow(&mut line, |text| voice.print(text)).with_context(|| format!("reading {name}"))?;
    if end.is_none() {
        voice.say(&format!("{name} is at its end, and the node has not told its own"));
    }
    Ok(end.unwrap_or(UNFINISHED))
}

/// What makes a node's frames readable.
pub struct Words {
    decoder: Decoder,
    symbols: Symbols,
}

impl Words {
    /// Those of the image `elf`, which a boot loader put to `at`, or where it says.
    ///
    /// # Errors
    /// It cannot be read, or is none of ours.
    pub fn load(elf: &Path, at: Option<u64>) -> Result<Self> {
        Ok(Self { decoder: Decoder::load(elf)?, symbols: Symbols::load(elf, at)? })
    }

    /// Reads to the node's end, or the line's; gives each line of text to `show`. Returns the node's status.
    ///
    /// # Errors
    /// Those of `line`.
    pub fn follow(&self, line: &mut dyn Read, mut show: impl FnMut(&str)) -> std::io::Result<Option<u8>> {
        let (mut deframer, mut bytes, mut end) = (Deframer::default(), [0; 4096], None);
        while end.is_none() {
            let mut take = |frame| {
                let (text, status) = self.say(frame);
                text.lines().filter(|line| !line.trim().is_empty()).for_each(&mut show);
                end = end.or(status);
            };
            match line.read(&mut bytes) {
                Ok(0) => {
                    deframer.finish(&mut take);
                    break;
                }
                Ok(length) => deframer.feed(&bytes[..length], &mut take),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(end)
    }

    /// A frame in words, and the node's status if it tells that.
    fn say(&self, frame: Frame) -> (String, Option<u8>) {
        match frame {
            Frame::Log { hart, payload } => {
                let line = self.decoder.decode(0, hart, &payload);
                (format!(".{hart} {:>11} {:<5} {}", line.time, line.level.to_uppercase(), line.text), None)
            }
            Frame::Report { hart, text } => (console::report_line(hart, &self.symbols.annotate(&text)), None),
            Frame::Status(status) => {
                let end = (status.word == "end").then(|| status.number("status").unwrap_or(UNFINISHED));
                (console::status_line(&status), end)
            }
            Frame::Timeline(_) => (String::new(), None),
            Frame::Firmware(text) => (text, None),
        }
    }
}
