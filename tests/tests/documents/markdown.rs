//! What a document says: its code blocks, its words in backticks, its links, its tables.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders of no sources: what was built, and what tools keep.
fn is_source_folder(path: &Path) -> bool {
    path.file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| name != "target" && !name.starts_with('.'))
}

/// All files below a folder with one of these extensions, as paths from there.
pub fn files(root: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![root.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.extend(is_source_folder(&path).then_some(path));
            } else if path.extension().is_some_and(|it| extensions.iter().any(|&wanted| it == wanted)) {
                found.push(path.strip_prefix(root).unwrap().to_path_buf());
            }
        }
    }
    found.sort();
    found
}

/// A document of the repository.
pub struct Document {
    /// Its path from the repository's root.
    pub name: String,
    /// All of it but code blocks.
    prose: String,
    /// Its code blocks, each behind its language.
    blocks: Vec<(String, String)>,
}

impl Document {
    /// Takes `text` apart.
    ///
    /// # Panics
    /// If a code block or a word in backticks does not end.
    pub fn parse(name: &str, text: &str) -> Self {
        let mut document = Self { name: name.to_owned(), prose: String::new(), blocks: Vec::new() };
        let mut inside = false;
        for line in text.lines() {
            if let Some(language) = line.trim_start().strip_prefix("```") {
                inside = !inside;
                if inside {
                    document.blocks.push((language.to_owned(), String::new()));
                }
                continue;
            }
            let to = match document.blocks.last_mut() {
                Some((_, block)) if inside => block,
                _ => &mut document.prose,
            };
            to.push_str(line);
            to.push('\n');
        }
        assert!(!inside, "{name}: a code block does not end");
        for paragraph in document.prose.split("\n\n") {
            assert!(paragraph.matches('`').count() % 2 == 0, "{name}: a backtick too many in\n{paragraph}");
        }
        document
    }

    /// Its code blocks, each behind its language.
    pub fn blocks(&self) -> impl Iterator<Item = (&str, &str)> {
        self.blocks.iter().map(|(language, block)| (language.as_str(), block.as_str()))
    }

    /// The lines of all blocks of a language.
    pub fn lines(&self, language: &str) -> impl Iterator<Item = &str> {
        self.blocks.iter().filter(move |(it, _)| it == language).flat_map(|(_, block)| block.lines())
    }

    /// What stands in backticks, on one line each.
    pub fn spans(&self) -> impl Iterator<Item = String> {
        self.prose
            .split('`')
            .skip(1)
            .step_by(2)
            .map(|span| span.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// Where its links lead.
    pub fn links(&self) -> impl Iterator<Item = &str> {
        self.prose.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link)
    }

    /// The rows of its tables, without heads and rules, each in cells.
    pub fn rows(&self) -> impl Iterator<Item = Vec<&str>> {
        let lines: Vec<_> = self.prose.lines().collect();
        let rule = |line: &str| line.starts_with("|-");
        let row = move |at: usize| {
            let line: &str = lines.get(at)?;
            let heads = lines.get(at + 1).is_some_and(|next| rule(next));
            let cells = line.strip_prefix('|')?.strip_suffix('|')?;
            (!heads && !rule(line)).then(|| cells.split('|').map(str::trim).collect())
        };
        (0..self.prose.lines().count()).filter_map(row)
    }

    /// The commands of the host tool: in blocks, indented or not, and in backticks. With what stands in capitals they are no
    /// commands yet.
    pub fn tool_commands(&self) -> impl Iterator<Item = String> {
        let lines = self.prose.lines().map(str::trim).chain(self.lines("sh")).map(str::to_owned);
        let all = lines.chain(self.spans()).filter(|line| line.starts_with("cargo xtask "));
        all.filter(|line| {
            !line.split(' ').any(|word| word.len() > 1 && word.chars().all(|it| it.is_ascii_uppercase()))
        })
    }
}
