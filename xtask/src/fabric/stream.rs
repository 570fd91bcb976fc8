//! The transport: frames over a byte stream, each behind its length (four bytes, big-endian), as QEMU's
//! `-netdev stream` speaks.
//!
//! A [`FrameStream`] never blocks and holds at most [`BUFFER_BYTES`] in either direction. Readiness is
//! edge-triggered: what was said by [`ready`](FrameStream::ready) holds until a call would have blocked.
//! Another transport offers the same few methods.

use super::{MAX_FRAME, MIN_FRAME};
use std::io::{ErrorKind, Read, Write};

/// Bytes of the input and of the output buffer.
pub const BUFFER_BYTES: usize = 256 * 1024;
/// The longest frame QEMU can send; a greater length means that the stream is no longer in step.
pub const MAX_ANNOUNCED: usize = 68 * 1024;
const LENGTH_BYTES: usize = 4;
/// The input is moved to the buffer's front when less than this is free behind it.
const LEAST_READ: usize = 2 * MAX_FRAME;

/// Frames passed over, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Skipped {
    /// Shorter than [`MIN_FRAME`].
    pub short: u64,
    /// Longer than [`MAX_FRAME`].
    pub long: u64,
}

/// Frames to and from one node.
pub struct FrameStream<S> {
    stream: S,
    readable: bool,
    writable: bool,
    input: Box<[u8]>,
    start: usize,
    end: usize,
    /// Bytes still to be passed over.
    skip: usize,
    skipped: Skipped,
    output: Vec<u8>,
    written: usize,
    output_lost: bool,
    ended: Option<String>,
}

impl<S: Read + Write> FrameStream<S> {
    /// Frames over `stream`, which is non-blocking and taken to be ready for both until it says otherwise.
    pub fn new(stream: S) -> Self {
        Self {
            stream,
            readable: true,
            writable: true,
            input: vec![0; BUFFER_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
            skip: 0,
            skipped: Skipped::default(),
            output: Vec::with_capacity(BUFFER_BYTES),
            written: 0,
            output_lost: false,
            ended: None,
        }
    }

    /// Notes what the stream has become ready for.
    pub fn ready(&mut self, readable: bool, writable: bool) {
        self.readable |= readable;
        self.writable |= writable;
    }

    /// Reads once, if there may be something and there is room; returns whether anything changed.
    pub fn fill(&mut self) -> bool {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.input.len() - self.end < LEAST_READ {
            self.input.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if !self.readable || self.ended.is_some() || self.end == self.input.len() {
            return false;
        }
        match self.stream.read(&mut self.input[self.end..]) {
            Ok(0) => self.ended = Some("it closed its connection".into()),
            Ok(bytes) => self.end += bytes,
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock => {
                    self.readable = false;
                    return false;
                }
                ErrorKind::Interrupted => {}
                _ => self.ended = Some(format!("reading from it failed: {error}")),
            },
        }
        true
    }

    /// The first whole frame read; frames of an unfit length are passed over and counted.
    pub fn frame(&mut self) -> Option<&[u8]> {
        let length = self.advance()?;
        let from = self.start + LENGTH_BYTES;
        self.input.get(from..from + length)
    }

    /// Forgets the frame that [`frame`](Self::frame) returned.
    pub fn consume(&mut self) {
        if let Some(length) = self.advance() {
            self.start += LENGTH_BYTES + length;
        }
    }

    /// Goes to the next whole fit frame and returns its length.
    fn advance(&mut self) -> Option<usize> {
        loop {
            let passed = self.skip.min(self.end - self.start);
            self.start += passed;
            self.skip -= passed;
            let input = &self.input[self.start..self.end];
            let length = u32::from_be_bytes(*input.first_chunk()?) as usize;
            if length > MAX_ANNOUNCED {
                self.ended = Some(format!("it announced a frame of {length} bytes"));
                (self.start, self.end) = (0, 0);
                return None;
            }
            if (MIN_FRAME..=MAX_FRAME).contains(&length) {
                return (input.len() >= LENGTH_BYTES + length).then_some(length);
            }
            if length < MIN_FRAME {
                self.skipped.short += 1;
            } else {
                self.skipped.long += 1;
            }
            self.skip = LENGTH_BYTES + length;
        }
    }

    /// Frames passed over since the last call.
    pub fn take_skipped(&mut self) -> Skipped {
        std::mem::take(&mut self.skipped)
    }

    /// Whether [`send`](Self::send) may be called for one frame of up to [`MAX_FRAME`] bytes.
    pub fn has_room(&self) -> bool {
        self.output.len() + LENGTH_BYTES + MAX_FRAME <= BUFFER_BYTES
    }

    /// Queues a frame; returns whether it can still arrive.
    pub fn send(&mut self, frame: &[u8]) -> bool {
        if self.output_lost {
            return false;
        }
        self.output.extend((frame.len() as u32).to_be_bytes());
        self.output.extend(frame);
        true
    }

    /// Writes what the stream takes; returns whether anything changed.
    pub fn flush(&mut self) -> bool {
        let mut changed = false;
        while self.writable && self.written < self.output.len() {
            match self.stream.write(&self.output[self.written..]) {
                Ok(0) => self.lose_output(),
                Ok(bytes) => self.written += bytes,
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => {
                        self.writable = false;
                        break;
                    }
                    ErrorKind::Interrupted => continue,
                    // What it sent before may still lie here: its end shows when that is read.
                    _ => self.lose_output(),
                },
            }
            changed = true;
        }
        if self.written == self.output.len() {
            self.output.clear();
            self.written = 0;
        }
        changed
    }

    fn lose_output(&mut self) {
        self.output_lost = true;
        self.written = self.output.len();
    }

    /// Why no more frames will come, once all that came were consumed.
    pub fn ended(&mut self) -> Option<String> {
        if self.ended.is_none() || self.advance().is_some() {
            return None;
        }
        let within = if self.start < self.end || self.skip > 0 { " in the middle of a frame" } else { "" };
        self.ended.as_ref().map(|why| format!("{why}{within}"))
    }

    /// Bytes read but not taken, and bytes queued but not written.
    pub fn backlog(&self) -> (usize, usize) {
        (self.end - self.start, self.output.len() - self.written)
    }

    /// Whether output waits for the node to read.
    pub fn is_stalled(&self) -> bool {
        !self.writable && self.written < self.output.len()
    }

    /// The byte stream itself, to look at.
    pub fn get_ref(&self) -> &S {
        &self.stream
    }

    /// The byte stream itself.
    pub fn into_stream(self) -> S {
        self.stream
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
