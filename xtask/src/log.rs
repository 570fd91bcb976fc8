//! Log lines: decoding what defmt sent, and showing it (SPEC N-12).

use std::path::Path;

use anyhow::{Context as _, Result};
use defmt_decoder::Table;

/// A decoded log line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogLine {
    /// The node's rank.
    pub node: u32,
    /// The hart within the node.
    pub hart: u8,
    /// Time since the node's start, as the node tells it.
    pub time: String,
    /// `trace` to `error`; empty for a line without level.
    pub level: &'static str,
    /// The message.
    pub text: String,
}

/// Turns a firmware's log frames into text.
pub struct Decoder {
    /// `None` for an image that logs nothing.
    table: Option<Table>,
}

impl Decoder {
    /// Reads the format strings of the image at `path`.
    pub fn load(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let table = Table::parse(&bytes);
        let table =
            table.with_context(|| format!("cannot read the log format strings of {}", path.display()))?;
        Ok(Self { table })
    }

    /// Decodes the payload of a log frame.
    pub fn decode(&self, node: u32, hart: u8, payload: &[u8]) -> LogLine {
        let decoded = rzcobs::decode(payload).ok();
        let table = self.table.as_ref();
        let frame = decoded.as_deref().zip(table).and_then(|(bytes, table)| table.decode(bytes).ok());
        match frame {
            Some((frame, _)) => LogLine {
                node,
                hart,
                time: frame.display_timestamp().map(|time| time.to_string()).unwrap_or_default(),
                level: frame.level().map_or("", |level| level.as_str()),
                text: frame.display_message().to_string(),
            },
            None => undecoded(node, hart, payload),
        }
    }
}

/// A line that stands for a frame that no decoder understood.
pub fn undecoded(node: u32, hart: u8, payload: &[u8]) -> LogLine {
    let hex: Vec<_> = payload.iter().take(32).map(|byte| format!("{byte:02x}")).collect();
    let text = format!("(a log frame of {} bytes that cannot be decoded: {})", payload.len(), hex.join(" "));
    LogLine { node, hart, time: String::new(), level: "warn", text }
}

/// The label before each line of a node; all labels of a run have the same width.
pub fn label(node: u32, hart: Option<u8>, nodes: u32) -> String {
    let width = nodes.saturating_sub(1).to_string().len();
    let hart = hart.map_or("  ".to_owned(), |hart| format!(".{hart}"));
    let text = format!("{node:>width$}{hart}");
    // The base colours without black, white and red: reports are red.
    let colours = [2, 3, 4, 5, 6, 10, 11, 12, 13, 14];
    console::style(text).color256(colours[node as usize % colours.len()]).to_string()
}

impl LogLine {
    /// The line as plain text.
    pub fn plain(&self) -> String {
        format!(
            "{}.{} {:>11} {:<5} {}",
            self.node,
            self.hart,
            self.time,
            self.level.to_uppercase(),
            self.text
        )
    }

    /// The line for a terminal.
    pub fn styled(&self, nodes: u32) -> String {
        let level = console::style(format!("{:<5}", self.level.to_uppercase()));
        let level = match self.level {
            "error" => level.red().bold(),
            "warn" => level.yellow(),
            "info" => level.green(),
            _ => level.dim(),
        };
        let time = console::style(format!("{:>11}", self.time)).dim();
        format!("{} {time} {level} {}", label(self.node, Some(self.hart), nodes), self.text)
    }
}
