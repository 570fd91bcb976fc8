//! `cargo xtask test --claims`: which tests show which requirement (SPEC R-6).
//!
//! `docs/requirements.md` has the ids. A test carries one if its name begins with it, or that of the module that it is in: `n8_...`,
//! `l2_l5_...`. Every test carries one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::progress::Voice;
use crate::workspace;

/// Rows behind this heading need no test yet.
const LATER: &str = "## Not yet";
/// Lines above a function that may hold its attributes.
const ATTRIBUTES: usize = 6;
/// Spaces for each brace around a line.
const INDENT: usize = 4;

/// An id as names spell it: N-8 is `n8`.
type Id = String;

/// Requirements and the tests that carry them.
#[derive(Default)]
struct Claims {
    /// Ids in their order.
    wanted: Vec<Id>,
    later: Vec<Id>,
    tests: BTreeMap<Id, Vec<String>>,
    /// Tests that carry none.
    nameless: Vec<String>,
}

/// Lists the tests of each id. True if every id that is due has one, every test has an id, and every id in a
/// test's name is known.
///
/// # Errors
/// If files cannot be read.
pub fn list(voice: &Voice) -> Result<bool> {
    let claims = gather()?;
    for id in claims.wanted.iter().chain(&claims.later) {
        let tests = claims.tests.get(id).map_or(&[][..], Vec::as_slice);
        voice.print(&format!("{} {}", spoken(id), tests.len()));
        tests.iter().for_each(|test| voice.print(&format!("    {test}")));
    }
    let complaints = claims.complaints();
    complaints.iter().for_each(|complaint| voice.say(complaint));
    Ok(complaints.is_empty())
}

/// What is wrong with the claims of this workspace; a line for each.
///
/// # Errors
/// If files cannot be read.
pub fn complaints() -> Result<Vec<String>> {
    Ok(gather()?.complaints())
}

fn gather() -> Result<Claims> {
    let root = workspace::root();
    let path = root.join("docs/requirements.md");
    let table = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut claims = Claims::default();
    claims.read_table(&table);
    ensure!(!claims.wanted.is_empty(), "{} has no ids", path.display());
    for part in ["boot", "drivers", "jobs", "kernel", "pami", "tests", "xtask"] {
        for file in sources(&root.join(part))? {
            let text =
                std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
            let name = file.strip_prefix(root).unwrap_or(&file).display().to_string();
            claims.read_source(&name, &text);
        }
    }
    Ok(claims)
}

/// All Rust files below a folder, but for what was built.
fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            files.extend(sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

impl Claims {
    fn read_table(&mut self, table: &str) {
        let mut later = false;
        for line in table.lines() {
            later |= line == LATER;
            let Some(first) = line.strip_prefix("| ").and_then(|row| row.split(" |").next()) else {
                continue;
            };
            let ids = if later { &mut self.later } else { &mut self.wanted };
            ids.extend(ids_of(first));
        }
    }

    fn read_source(&mut self, file: &str, text: &str) {
        let raw: Vec<&str> = text.lines().collect();
        let lines: Vec<&str> = raw.iter().map(|line| line.trim()).collect();
        let mut macros = BTreeSet::new();
        for (number, line) in lines.iter().enumerate() {
            let Some((name, arguments)) = line.strip_prefix("fn ").and_then(|rest| rest.split_once('('))
            else {
                continue;
            };
            let above = || lines[number.saturating_sub(ATTRIBUTES)..number].iter().rev();
            let mut attributes = above().take_while(|line| line.starts_with("#[") || line.starts_with("//"));
            let ignored = attributes.clone().any(|line| line.starts_with("#[ignore"));
            // Those of both architectures have no attribute of their own.
            let is_test = attributes.any(|&line| line == "#[test]") || arguments.starts_with("arch)");
            if !is_test || ignored {
                continue;
            }
            let module = module_around(&raw[..=number]);
            if name != "$name" && self.carries(file, name, module) {
                continue;
            }
            if [name, module].contains(&"$name") {
                macros
                    .extend(lines[..number].iter().rev().find_map(|line| line.strip_prefix("macro_rules! ")));
            } else {
                self.nameless.push(format!("{file}: {name}"));
            }
        }
        for name in macros.iter().filter_map(|line| line.split([' ', '{']).next()) {
            self.read_calls(file, &raw, name);
        }
    }

    /// Tests that a macro makes, each or all of a module by the name at the begin of a line of the macro's call.
    fn read_calls(&mut self, file: &str, lines: &[&str], of: &str) {
        let call = format!("{of}! {{");
        for (number, line) in lines.iter().enumerate().filter(|(_, line)| line.trim() == call) {
            let own = depth(line);
            for line in lines[number + 1..].iter().take_while(|line| line.is_empty() || depth(line) > own) {
                let name =
                    line.trim().split(|it: char| !it.is_alphanumeric() && it != '_').next().unwrap_or("");
                if depth(line) == own + INDENT && !name.is_empty() && !self.carries(file, name, "") {
                    self.nameless.push(format!("{file}: {name}"));
                }
            }
        }
    }

    /// Notes the ids of a test's name and of its module's. Whether there is one.
    fn carries(&mut self, file: &str, name: &str, module: &str) -> bool {
        let ids = [name, module].into_iter().flat_map(|name| name.split('_').take_while(|word| is_id(word)));
        let mut carries = false;
        for id in ids {
            self.tests.entry(id.to_owned()).or_default().push(format!("{file}: {name}"));
            carries = true;
        }
        carries
    }

    fn complaints(&self) -> Vec<String> {
        let untested = self.wanted.iter().filter(|id| !self.tests.contains_key(*id));
        let known = |id: &&Id| self.wanted.contains(id) || self.later.contains(id);
        let strange = self.tests.iter().filter(|(id, _)| !known(id));
        let untested = untested.map(|id| format!("no test carries {}", spoken(id)));
        let nameless = self.nameless.iter().map(|test| format!("no requirement is in the name of {test}"));
        untested
            .chain(strange.map(|(id, tests)| format!("no requirement is {}: {}", spoken(id), tests[0])))
            .chain(nameless)
            .collect()
    }
}

/// Spaces that a line begins with.
fn depth(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The name of the module that the last of these lines is in, empty at the file's own level.
fn module_around<'a>(lines: &[&'a str]) -> &'a str {
    let own = lines.last().map_or(0, |line| depth(line));
    let around = lines.iter().rev().find(|line| depth(line) < own && line.trim_start().starts_with("mod "));
    around.and_then(|line| line.trim_start()[4..].split([' ', ';', '{']).next()).unwrap_or("")
}

/// A letter and a number.
fn is_id(word: &str) -> bool {
    let mut letters = word.chars();
    letters.next().is_some_and(|letter| letter.is_ascii_lowercase())
        && letters.as_str().parse::<u8>().is_ok_and(|number| number > 0)
}

/// `N-8`, or all of `Q-1..Q-4`, as names spell them.
fn ids_of(cell: &str) -> Vec<Id> {
    let id = |word: &str| Some(word.to_lowercase().replace('-', "")).filter(|id| is_id(id));
    match cell.split_once("..") {
        None => id(cell).into_iter().collect(),
        Some((first, last)) => {
            let (Some(first), Some(last)) = (id(first), id(last)) else { return Vec::new() };
            let number = |id: &Id| id[1..].parse::<u8>().unwrap_or(0);
            (number(&first)..=number(&last)).map(|number| format!("{}{number}", &first[..1])).collect()
        }
    }
}

/// As people write it.
fn spoken(id: &str) -> String {
    format!("{}-{}", id[..1].to_uppercase(), &id[1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r6_an_id_without_a_test_and_a_test_of_no_id_are_told() {
        let table = "# N: a-2\n\n| id | what |\n|---|---|\n| N-1 | one |\n| N-10 | ten |\n| D-9 | nine |\n\
            ## Not yet\n\n| Q-1..Q-3 | later |\n";
        let source = "    #[test]\n    // Words.\n    fn n1_d9_shows_both() {\n    fn n10_helps() {\n    #[test]\n    #[ignore]\n\
            fn n10_is_ignored() {\n    on_both_architectures! {\n    fn q2_boots(arch) {\n    #[test]\n    fn z1_is_strange() {\n\
            #[test]\nfn has_none() {\n#[test]\nfn $name() {\nmod $name {\n    #[test]\n    fn aarch64() {\n}\nmod n1_all {\n    #[test]\n    fn first() {\n}\n\
            macro_rules! every {\n    ($($name:ident: $len:expr;)*) => {$(\n        #[test]\n        fn $name() {\n        }\n    )*};\n}\n\
            every! {\n    n1_made: 1;\n    z2_made: |n| {\n        n\n    };\n    made_without: 2;\n}\nother! {\n    no_test: 3;\n}\n";
        let mut claims = Claims::default();
        claims.read_table(table);
        assert_eq!(
            (claims.wanted.join(" "), claims.later.join(" ")),
            ("n1 n10 d9".into(), "q1 q2 q3".into())
        );
        claims.read_source("a.rs", source);
        let tests = |id: &str| claims.tests.get(id).map_or(0, Vec::len);
        assert_eq!(["n1", "d9", "n10", "q2", "z1", "z2"].map(tests), [3, 1, 0, 1, 1, 1]);
        assert_eq!(
            claims.complaints(),
            [
                "no test carries N-10",
                "no requirement is Z-1: a.rs: z1_is_strange",
                "no requirement is Z-2: a.rs: z2_made",
                "no requirement is in the name of a.rs: has_none",
                "no requirement is in the name of a.rs: made_without"
            ]
        );
    }

    #[test]
    fn r6_every_requirement_has_a_test() {
        assert_eq!(complaints().expect("sources"), Vec::<String>::new());
    }
}
