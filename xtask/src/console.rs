//! The stream of a node's console: frames that end with a zero byte.
//!
//! `<kind><hart><payload>`, where the hart is a digit, or from 10 on its number with the upper bit set; whatever fits no kind is text of the board's firmware.

/// The longest frame that is kept; a longer one is cut into firmware text.
pub const LONGEST_FRAME: usize = 64 * 1024;
/// The largest number of harts of a node.
pub const MAX_HARTS: u8 = kernel::personality::MAX_HARTS as u8;

/// One frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Frame {
    /// A log frame of defmt, rzcobs-encoded.
    Log {
        /// The hart that logged.
        hart: u8,
        /// The encoded frame.
        payload: Vec<u8>,
    },
    /// A line of a report: a panic, an exception, a refused personality.
    Report {
        /// The hart that reports.
        hart: u8,
        /// The line, without its end.
        text: String,
    },
    /// What the kernel tells this tool.
    Status(Status),
    /// What a hart did: a payload of [`kernel::timeline`].
    Timeline(Vec<u8>),
    /// Anything else.
    Firmware(String),
}

/// What the kernel tells this tool: a word and named values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Status {
    /// The hart that says so.
    pub hart: u8,
    /// What it is about: `up`, `end`.
    pub word: String,
    /// The values, in their order.
    pub values: Vec<(String, String)>,
}

impl Status {
    fn parse(hart: u8, text: &str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        let word = words.next()?.to_owned();
        let values = words.filter_map(|word| word.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned()));
        Some(Self { hart, word, values: values.collect() })
    }

    /// The value called `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.values.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// The number called `key`, of any integer type.
    pub fn number<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        self.get(key)?.parse().ok()
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.word)?;
        self.values.iter().try_for_each(|(key, value)| write!(f, " {key}={value}"))
    }
}

/// A line of a report as logs have it, behind the rank of its node.
pub fn report_line(hart: u8, text: &str) -> String {
    format!(".{hart} REPORT {text}")
}

/// A status as logs have it, behind the rank of its node.
pub fn status_line(status: &Status) -> String {
    format!(".{} STATUS {status}", status.hart)
}

/// Cuts a console's bytes into frames, however they arrive.
#[derive(Default, Debug)]
pub struct Deframer {
    pending: Vec<u8>,
}

impl Deframer {
    /// Takes the next bytes and gives each frame that they complete to `each`.
    pub fn feed(&mut self, mut bytes: &[u8], mut each: impl FnMut(Frame)) {
        while let Some(end) = bytes.iter().position(|&byte| byte == 0) {
            self.pending.extend_from_slice(&bytes[..end]);
            bytes = &bytes[end + 1..];
            self.complete(&mut each);
        }
        self.pending.extend_from_slice(bytes);
        if self.pending.len() > LONGEST_FRAME {
            each(Frame::Firmware(String::from_utf8_lossy(&self.pending).into_owned()));
            self.pending.clear();
        }
    }

    /// The stream stands still: what waits is given if no frame begins like that, a boot loader's words.
    pub fn flush(&mut self, each: impl FnMut(Frame)) {
        let [kind, rest @ ..] = &self.pending[..] else { return };
        if !b"DRST".contains(kind) || rest.first().is_some_and(|&hart| hart_of(hart).is_none()) {
            self.finish(each);
        }
    }

    /// The stream is at its end: what is left counts as a frame.
    pub fn finish(&mut self, mut each: impl FnMut(Frame)) {
        self.complete(&mut each);
    }

    fn complete(&mut self, each: &mut impl FnMut(Frame)) {
        if !self.pending.is_empty() {
            each(parse(&self.pending));
            self.pending.clear();
        }
    }
}

/// The hart that a frame's second byte names.
fn hart_of(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        _ => Some(byte ^ 0x80).filter(|hart| (10..MAX_HARTS).contains(hart)),
    }
}

fn parse(bytes: &[u8]) -> Frame {
    let firmware = || Frame::Firmware(String::from_utf8_lossy(bytes).into_owned());
    let [kind, hart, payload @ ..] = bytes else { return firmware() };
    let Some(hart) = hart_of(*hart) else { return firmware() };
    match kind {
        b'D' => Frame::Log { hart, payload: payload.to_vec() },
        b'R' => Frame::Report { hart, text: String::from_utf8_lossy(payload).trim_end().to_owned() },
        b'T' => Frame::Timeline(payload.to_vec()),
        b'S' => Status::parse(hart, &String::from_utf8_lossy(payload)).map_or_else(firmware, Frame::Status),
        _ => firmware(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(chunks: &[&[u8]]) -> Vec<Frame> {
        let mut deframer = Deframer::default();
        let mut frames = Vec::new();
        for chunk in chunks {
            deframer.feed(chunk, |frame| frames.push(frame));
        }
        deframer.finish(|frame| frames.push(frame));
        frames
    }

    #[test]
    fn n12_frames_are_found_between_zeros_wherever_the_stream_is_cut() {
        let stream = b"OpenSBI v1.1\r\n\0S0up harts=4\0D3\x01\x02\0R1panicked at 0x40201234\0";
        let whole = frames(&[stream]);
        assert_eq!(whole.len(), 4);
        assert_eq!(whole[0], Frame::Firmware("OpenSBI v1.1\r\n".into()));
        assert!(
            matches!(&whole[1], Frame::Status(status) if status.word == "up" && status.number("harts") == Some(4))
        );
        assert_eq!(whole[2], Frame::Log { hart: 3, payload: vec![1, 2] });
        assert_eq!(whole[3], Frame::Report { hart: 1, text: "panicked at 0x40201234".into() });
        for cut in 0..stream.len() {
            assert_eq!(frames(&[&stream[..cut], &stream[cut..]]), whole);
        }
    }

    #[test]
    fn n12_bytes_of_any_kind_never_stop_the_decoder() {
        let mut seed = 1u32;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 24) as u8
        })
        .take(300_000)
        .collect();
        frames(&[&noise]);
        frames(&[b"D\0\0\0S\0S0\0S9up\0R8\0D"]);
        for text in [&b"SBI 3\0"[..], b"R\xc0\0", b"D\x89\0"] {
            assert!(matches!(frames(&[text])[..], [Frame::Firmware(_)]), "{text:?}");
        }
        let hart = |bytes: &[u8]| match &frames(&[bytes])[..] {
            [Frame::Report { hart, .. }] => *hart,
            other => panic!("{other:?}"),
        };
        assert_eq!([hart(b"R9x\0"), hart(b"R\x8ax\0"), hart(b"R\xbfx\0")], [9, 10, 63]);
        assert_eq!(frames(&[b"S0 \0"]), [Frame::Firmware("S0 ".into())]);
        let endless = vec![b'x'; 3 * LONGEST_FRAME];
        assert_eq!(frames(&[&endless, b"\0S0up\0"]).len(), 2);
    }
}
