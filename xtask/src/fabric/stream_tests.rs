//! Framing under partial reads and writes, and under bytes that are no frames.

use super::*;
use proptest::prelude::*;
use std::io;

/// A stream that takes and gives at most a few bytes at a time and blocks in between.
struct Choppy {
    incoming: Vec<u8>,
    at: usize,
    outgoing: Vec<u8>,
    chunks: Vec<usize>,
    calls: usize,
}

impl Choppy {
    fn new(incoming: Vec<u8>, chunks: Vec<usize>) -> Self {
        Self { incoming, at: 0, outgoing: Vec::new(), chunks, calls: 0 }
    }

    fn chunk(&mut self) -> io::Result<usize> {
        self.calls += 1;
        match self.chunks[self.calls % self.chunks.len()] {
            0 => Err(ErrorKind::WouldBlock.into()),
            chunk => Ok(chunk),
        }
    }
}

impl Read for Choppy {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.chunk()?.min(buffer.len()).min(self.incoming.len() - self.at);
        buffer[..bytes].copy_from_slice(&self.incoming[self.at..self.at + bytes]);
        self.at += bytes;
        Ok(bytes)
    }
}

impl Write for Choppy {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let bytes = self.chunk()?.min(buffer.len());
        self.outgoing.extend(&buffer[..bytes]);
        Ok(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn chunks() -> impl Strategy<Value = Vec<usize>> {
    let chunk = prop_oneof![Just(0usize), 1usize..6, 1usize..5000, Just(1 << 20)];
    proptest::collection::vec(chunk, 1..12).prop_map(|mut chunks| {
        chunks.push(3000);
        chunks
    })
}

fn lengths() -> impl Strategy<Value = Vec<usize>> {
    let length = prop_oneof![
        6 => MIN_FRAME..=MAX_FRAME,
        2 => MIN_FRAME..=MIN_FRAME + 4,
        1 => 0..MIN_FRAME,
        1 => MAX_FRAME + 1..=MAX_ANNOUNCED
    ];
    proptest::collection::vec(length, 0..40)
}

/// Reads to the end; returns the frames, what was skipped, and why it ended.
fn read_all(incoming: Vec<u8>, chunks: Vec<usize>) -> (Vec<Vec<u8>>, Skipped, String) {
    let mut stream = FrameStream::new(Choppy::new(incoming, chunks));
    let mut frames = Vec::new();
    let mut skipped = Skipped::default();
    loop {
        stream.ready(true, true);
        stream.fill();
        while let Some(frame) = stream.frame() {
            frames.push(frame.to_vec());
            stream.consume();
        }
        let passed = stream.take_skipped();
        skipped = Skipped { short: skipped.short + passed.short, long: skipped.long + passed.long };
        if let Some(why) = stream.ended() {
            return (frames, skipped, why);
        }
    }
}

fn wire(lengths: &[usize]) -> (Vec<u8>, Vec<Vec<u8>>) {
    let frames: Vec<Vec<u8>> = lengths.iter().enumerate().map(|(i, &length)| vec![i as u8; length]).collect();
    let bytes = frames.iter().flat_map(|frame| [&(frame.len() as u32).to_be_bytes()[..], frame].concat());
    (bytes.collect(), frames)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn x4_frames_are_found_however_the_stream_is_cut(lengths in lengths(), chunks in chunks()) {
        let (bytes, mut frames) = wire(&lengths);
        let (read, skipped, why) = read_all(bytes, chunks);
        let short = lengths.iter().filter(|&&length| length < MIN_FRAME).count() as u64;
        let long = lengths.iter().filter(|&&length| length > MAX_FRAME).count() as u64;
        frames.retain(|frame| (MIN_FRAME..=MAX_FRAME).contains(&frame.len()));
        prop_assert_eq!(read, frames);
        prop_assert_eq!(skipped, Skipped { short, long });
        prop_assert_eq!(why, "it closed its connection");
    }

    #[test]
    fn x4_a_stream_cut_within_a_frame_says_so(
        lengths in lengths(), chunks in chunks(), cut in 1usize..MIN_FRAME
    ) {
        let (mut bytes, _) = wire(&lengths);
        bytes.extend(wire(&[MIN_FRAME]).0);
        bytes.truncate(bytes.len() - cut);
        prop_assert!(read_all(bytes, chunks).2.ends_with("in the middle of a frame"));
    }

    #[test]
    fn d9_any_bytes_are_frames_or_an_end(
        bytes in proptest::collection::vec(any::<u8>(), 0..3000), chunks in chunks()
    ) {
        read_all(bytes, chunks);
    }

    #[test]
    fn x4_frames_are_written_however_little_the_stream_takes(
        lengths in proptest::collection::vec(MIN_FRAME..=MAX_FRAME, 0..40), chunks in chunks()
    ) {
        let (bytes, frames) = wire(&lengths);
        let mut stream = FrameStream::new(Choppy::new(Vec::new(), chunks));
        let mut frames = frames.iter().peekable();
        while frames.peek().is_some() || stream.backlog().1 > 0 {
            while stream.has_room() && let Some(frame) = frames.next() {
                prop_assert!(stream.send(frame));
            }
            prop_assert!(stream.backlog().1 <= BUFFER_BYTES);
            stream.ready(true, true);
            stream.flush();
        }
        prop_assert_eq!(stream.into_stream().outgoing, bytes);
    }
}

#[test]
fn x4_a_length_no_frame_has_ends_the_stream_with_a_reason() {
    let (mut bytes, frames) = wire(&[100]);
    bytes.extend(70_000u32.to_be_bytes());
    bytes.extend([0; 1000]);
    let (read, _, why) = read_all(bytes, vec![1 << 20]);
    assert_eq!((read, why.as_str()), (frames, "it announced a frame of 70000 bytes"));
}
