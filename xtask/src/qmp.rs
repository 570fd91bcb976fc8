//! QEMU's control protocol: a line of JSON each way over a Unix socket.

use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

/// A guest whose main loop does not answer within this time is past asking.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection to one emulator.
pub struct Control {
    reader: BufReader<UnixStream>,
}

impl Control {
    /// Connects to the emulator that listens at `socket`.
    pub fn connect(socket: &Path) -> Result<Self> {
        let stream = UnixStream::connect(socket).context("the emulator does not listen")?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        let mut control = Self { reader: BufReader::new(stream) };
        control.receive()?;
        control.ask("qmp_capabilities", json!({}))?;
        Ok(control)
    }

    fn receive(&mut self) -> Result<Value> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(0) => bail!("the emulator hung up"),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                bail!("the emulator gave no answer for {} s", ANSWER_TIMEOUT.as_secs())
            }
            read => read.context("no answer")?,
        };
        serde_json::from_str(&line).with_context(|| format!("no JSON: {line}"))
    }

    /// Runs a command and gives what it returns. Events in between are skipped.
    pub fn ask(&mut self, command: &str, arguments: Value) -> Result<Value> {
        let mut line = json!({ "execute": command, "arguments": arguments }).to_string();
        line.push('\n');
        self.reader.get_mut().write_all(line.as_bytes()).with_context(|| format!("cannot ask {command}"))?;
        loop {
            let mut answer = self.receive().with_context(|| format!("asking {command}"))?;
            if let Some(error) = answer.get("error") {
                bail!("{command}: {error}");
            }
            if let Some(result) = answer.get_mut("return") {
                return Ok(result.take());
            }
        }
    }

    /// Runs a command of the monitor for people, and gives its text.
    pub fn monitor(&mut self, line: &str) -> Result<String> {
        let text = self.ask("human-monitor-command", json!({ "command-line": line }))?;
        Ok(text.as_str().unwrap_or_default().to_owned())
    }

    /// Has all harts run.
    pub fn go_on(&mut self) -> Result<()> {
        self.ask("cont", json!({})).map(drop)
    }

    /// Stops all harts.
    pub fn stop(&mut self) -> Result<()> {
        self.ask("stop", json!({})).map(drop)
    }

    /// Has the link of the network card that is joined to `netdev` go up or down.
    pub fn set_link(&mut self, netdev: &str, up: bool) -> Result<()> {
        self.ask("set_link", json!({ "name": netdev, "up": up })).map(drop)
    }

    /// Reads `length` bytes of the guest's physical memory; `scratch` is a file to pass them through.
    pub fn memory(&mut self, address: u64, length: usize, scratch: &Path) -> Result<Vec<u8>> {
        let file = scratch.display().to_string();
        self.ask("pmemsave", json!({ "val": address, "size": length, "filename": file }))?;
        let bytes = std::fs::read(scratch).with_context(|| format!("cannot read {file}"))?;
        std::fs::remove_file(scratch).with_context(|| format!("cannot remove {file}"))?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x2_an_emulator_that_does_not_answer_is_said_to_give_no_answer() {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("control");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a listener");
        let error = Control::connect(&socket).err().expect("nobody answers");
        assert_eq!(format!("{error:#}"), "the emulator gave no answer for 2 s");
    }
}
