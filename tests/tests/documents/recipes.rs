//! The recipes lead where they say (SPEC X-5): their examples, in a copy of the tree.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::{fs, io};

use super::{document, root, text};
use xtask::workspace;

/// What git keeps.
const GIT: &str = ".git";
/// Folders of what was built have this file, but for those that were there before.
const BUILT: &str = "CACHEDIR.TAG";
/// What the recipe of a job boots, and the name that its example has.
const BOOTED: [&str; 2] = ["cargo xtask qemu NAME --torus 2x2", "greet"];

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_name() == GIT || path == workspace::target() || path.join(BUILT).exists() {
            continue;
        }
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() { copy(&path, &to)? } else { _ = fs::copy(path, to)? }
    }
    Ok(())
}

/// What a diff of one change makes of a text: its lines begin with a space, a minus or a plus, but for empty ones, and tell no
/// numbers. `None`: a line begins otherwise, or not just one place is as it says.
fn patched(text: &str, diff: &str) -> Option<String> {
    if diff.lines().any(|line| !line.is_empty() && !line.starts_with([' ', '-', '+'])) {
        return None;
    }
    let lines = |sides: [char; 2]| {
        let own =
            diff.lines().filter_map(move |line| line.strip_prefix(sides).or(line.is_empty().then_some("")));
        own.map(|line| format!("{line}\n")).collect::<String>()
    };
    let (old, new) = (lines([' ', '-']), lines([' ', '+']));
    let mut places = text.match_indices(&old).filter(|(at, _)| *at == 0 || text[..*at].ends_with('\n'));
    let (at, _) = places.next()?;
    let one = !old.is_empty() && places.next().is_none();
    one.then(|| [&text[..at], &new, &text[at + old.len()..]].concat())
}

/// What the examples of the recipes make of the tree: its new files and those that they change, by their paths in it. And how many
/// files are new, and how many changes there are.
fn followed() -> (BTreeMap<String, String>, [usize; 2]) {
    let recipes = document("docs/recipes.md");
    let (mut files, mut made) = (BTreeMap::<String, String>::new(), [0; 2]);
    for (language, block) in recipes.blocks() {
        let Some((kind, name)) = language.split_once(' ') else { continue };
        let text = if kind == "diff" {
            let before = files.remove(name).unwrap_or_else(|| text(Path::new(name)));
            patched(&before, block).unwrap_or_else(|| panic!("{name} has not one place for\n{block}"))
        } else {
            assert!(!root().join(name).exists(), "{name} is there");
            block.to_owned()
        };
        files.insert(name.to_owned(), text);
        made[usize::from(kind == "diff")] += 1;
    }
    (files, made)
}

#[test]
fn x5_a_diff_without_numbers_changes_the_one_place_that_it_fits() {
    let text = "a\nb\n\nc\nb\n";
    assert_eq!(patched(text, " a\n-b\n+d\n+e\n").as_deref(), Some("a\nd\ne\n\nc\nb\n"));
    assert_eq!(patched(text, " b\n \n+d\n").as_deref(), Some("a\nb\n\nd\nc\nb\n"));
    for none in [" b\n+d\n", " d\n+e\n", "+d\n", " a\n-b\n+d\ne\n"] {
        assert_eq!(patched(text, none), None, "{none}");
    }
}

#[test]
fn x5_a_copy_of_the_tree_has_neither_what_was_built_nor_git() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    for file in ["a/b/c.rs", "elsewhere/CACHEDIR.TAG", "elsewhere/debug/d", ".git/HEAD", ".cargo/config.toml"]
    {
        let file = from.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "content").unwrap();
    }
    copy(&from, &to).unwrap();
    assert_eq!(fs::read_to_string(to.join("a/b/c.rs")).unwrap(), "content");
    let there = ["elsewhere", ".git", ".cargo"].map(|name| to.join(name).exists());
    assert_eq!(there, [false, false, true]);
}

#[test]
fn x5_the_recipes_examples_work_in_a_copy_of_the_tree() {
    let (files, [new, changes]) = followed();
    assert!(new >= 1 && changes >= 15, "{new} files, {changes} changes");
    for (name, text) in files.iter().filter(|(name, _)| name.ends_with(".rs")) {
        syn::parse_file(text).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    if !tests::long() {
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let at = folder.path();
    copy(&root(), at).unwrap();
    files.iter().for_each(|(name, text)| fs::write(at.join(name), text).unwrap());
    let recipes = document("docs/recipes.md");
    let tests: Vec<_> = recipes.spans().filter(|span| span.starts_with("cargo test ")).collect();
    assert!(tests.len() >= 5, "{tests:?}");
    let [boot, job] = BOOTED;
    assert!(recipes.spans().any(|span| span == boot), "{boot}");
    for command in tests.into_iter().chain([boot.replace("NAME", job)]) {
        let mut cargo = Command::new(env!("CARGO"));
        let run = cargo.current_dir(at).env("CARGO_TARGET_DIR", workspace::target().join("recipes"));
        let output = run.args(command.split(' ').skip(1)).output().unwrap();
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(output.status.success(), "{command}:\n{}", said.concat());
        let passed = said[0].split("test result: ok. ").skip(1).filter_map(|rest| rest.split(' ').next());
        assert!(
            !command.starts_with("cargo test") || passed.clone().any(|count| count != "0"),
            "{command}: no test"
        );
    }
}
