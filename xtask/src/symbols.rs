//! Names for a firmware image's addresses.

use std::path::Path;

use crate::image;
use anyhow::{Context as _, Result};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SectionKind, SymbolKind};

/// The symbols and line table of one image.
pub struct Symbols {
    lines: addr2line::Loader,
    /// Functions by address, by the names that linkers know: few are ever asked for.
    functions: Vec<(u64, String)>,
    text: Vec<std::ops::Range<u64>>,
    /// Where it begins, and how far from there its nodes have it.
    linked: u64,
    moved: u64,
    state: Option<u64>,
    last_words: Option<u64>,
}

impl Symbols {
    /// Reads the image at `path`, an ELF file that is loaded to `at`, or where it says.
    pub fn load(path: &Path, at: Option<u64>) -> Result<Self> {
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let file = object::File::parse(&*bytes).with_context(|| format!("{} is no image", path.display()))?;
        let (linked, moved) =
            (image::moved_by(&bytes, Some(0))?.wrapping_neg(), image::moved_by(&bytes, at)?);
        let text = file
            .sections()
            .filter(|section| section.kind() == SectionKind::Text)
            .map(|section| section.address()..section.address() + section.size())
            .collect();
        let address = |name| file.symbol_by_name(name).map(|symbol| symbol.address());
        let (state, last_words) = (address("PAMIR_STATE"), address("PAMIR_LAST_WORDS"));
        // The linker keeps labels of relocations and of data among the code: they name no function.
        let is_function = |name: &str| !name.starts_with(['.', '$']);
        let mut functions: Vec<_> = file
            .symbols()
            .filter(|symbol| symbol.kind() == SymbolKind::Text || symbol.is_global())
            .filter_map(|symbol| Some((symbol.address(), symbol.name().ok()?)))
            .filter(|(_, name)| is_function(name))
            .map(|(address, name)| (address, name.to_owned()))
            .collect();
        functions.sort();
        let lines = addr2line::Loader::new(path)
            .map_err(|error| anyhow::anyhow!("cannot read the line table of {}: {error}", path.display()))?;
        Ok(Self { lines, functions, text, linked, moved, state, last_words })
    }

    /// Where the block lies that says how the message unit's FIFOs stand.
    pub fn state_block(&self) -> Option<u64> {
        self.state.map(|linked| linked.wrapping_add(self.moved))
    }

    /// The same in a process whose program begins at `start`.
    pub fn state_block_from(&self, start: u64) -> Option<u64> {
        self.state.map(|linked| linked.wrapping_sub(self.linked).wrapping_add(start))
    }

    /// Where a node keeps what it said before it had a console: a length of 64 bits, then the text.
    pub fn last_words(&self) -> Option<u64> {
        self.last_words.map(|linked| linked.wrapping_add(self.moved))
    }

    /// The function of a node's code address; `None` outside the image's code.
    pub fn function(&self, address: u64) -> Option<String> {
        let address = address.wrapping_sub(self.moved);
        if !self.text.iter().any(|range| range.contains(&address)) {
            return None;
        }
        let after = self.functions.partition_point(|(start, _)| *start <= address);
        let function = after.checked_sub(1).map_or("?", |index| &self.functions[index].1);
        Some(format!("{:#}", rustc_demangle::demangle(function)))
    }

    /// Its function and line.
    pub fn name(&self, address: u64) -> Option<String> {
        let function = self.function(address)?;
        let address = address.wrapping_sub(self.moved);
        let location = self.lines.find_location(address).ok().flatten();
        let line = location.and_then(|location| Some((shorten(location.file?), location.line?)));
        Some(match line {
            Some((file, line)) => format!("{function}, {file}:{line}"),
            None => function,
        })
    }

    /// Puts a name behind each code address of a report's line.
    pub fn annotate(&self, text: &str) -> String {
        annotate(text, |address| self.name(address))
    }
}

/// The part of a source path that tells something.
fn shorten(path: &str) -> String {
    let root = crate::workspace::root();
    match Path::new(path).strip_prefix(root) {
        Ok(inside) => inside.display().to_string(),
        Err(_) => path.rsplit_once("/src/").map_or(path.to_owned(), |(folder, file)| {
            let package = folder.rsplit('/').next().unwrap_or(folder);
            format!("{package}/src/{file}")
        }),
    }
}

fn annotate(text: &str, name: impl Fn(u64) -> Option<String>) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("0x") {
        let digits = &rest[start + 2..];
        let length = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
        let (done, left) = rest.split_at(start + 2 + length);
        result.push_str(done);
        if let Some(name) = u64::from_str_radix(&digits[..length], 16).ok().and_then(&name) {
            result.push_str(&format!(" ({name})"));
        }
        rest = left;
    }
    result.push_str(rest);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n10_addresses_of_a_report_get_their_names() {
        let name = |address| (address == 0x4020_1234).then(|| "kernel::main, kernel/src/lib.rs:3".to_owned());
        assert_eq!(
            annotate("at 0x40201234, esr 0x5 0x", name),
            "at 0x40201234 (kernel::main, kernel/src/lib.rs:3), esr 0x5 0x"
        );
        assert_eq!(annotate("0xffffffffffffffffff", name), "0xffffffffffffffffff");
        assert_eq!(annotate("", name), "");
    }

    /// A function that the compiler neither inlines nor finds twice: of a test's own name there may be none.
    #[inline(never)]
    fn landmark(place: u32) -> u32 {
        std::hint::black_box(place).wrapping_mul(2_654_435_761) ^ line!()
    }

    #[test]
    fn n10_this_very_program_has_symbols() {
        std::hint::black_box(landmark(7));
        let symbols = Symbols::load(&std::env::current_exe().expect("a program"), None).expect("its symbols");
        assert_eq!(symbols.name(0), None);
        let names =
            symbols.functions.iter().filter_map(|&(address, _)| symbols.function(address).zip(Some(address)));
        let mut this = names.filter(|(name, _)| name.ends_with("symbols::tests::landmark"));
        let (name, address) = this.next().expect("the landmark");
        let found = symbols.name(address).expect("its name");
        assert!(found.starts_with(&name), "{found} is {name}");
    }
}
