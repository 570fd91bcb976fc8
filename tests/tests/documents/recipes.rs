//! The recipes lead where they say (SPEC X-5): their examples, in a copy of the tree.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use super::{document, root};

/// What is no part of the tree.
const LEFT_OUT: [&str; 2] = ["target", ".git"];
/// What the recipe of a job boots, and the name that its example has.
const BOOTED: [&str; 2] = ["cargo xtask qemu NAME --torus 2x2", "greet"];

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if LEFT_OUT.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() { copy(&entry.path(), &to)? } else { _ = fs::copy(entry.path(), to)? }
    }
    Ok(())
}

/// A copy of the tree, in place of the one that was there.
fn scratch(name: &str) -> PathBuf {
    let at = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let gone = fs::remove_dir_all(&at);
    assert!(gone.is_ok() || !at.exists(), "{}: {gone:?}", at.display());
    copy(&root(), &at).unwrap();
    at
}

/// What a diff of one change makes of a text: its lines begin with a space, a minus or a plus, and tell no numbers. `None`: not just
/// one place is as it says.
fn patched(text: &str, diff: &str) -> Option<String> {
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

/// Makes the examples of the recipes in the tree at `root`. Returns how many files there are, and changes.
fn follow(root: &Path) -> [usize; 2] {
    let recipes = document("docs/recipes.md");
    let mut made = [0; 2];
    for (language, block) in recipes.blocks() {
        let Some((kind, name)) = language.split_once(' ') else { continue };
        let file = root.join(name);
        if kind == "diff" {
            let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
            let text =
                patched(&text, block).unwrap_or_else(|| panic!("{name} has not one place for\n{block}"));
            fs::write(&file, text).unwrap();
        } else {
            assert!(!file.exists(), "{name} is there");
            fs::write(&file, block).unwrap();
        }
        made[usize::from(kind == "diff")] += 1;
    }
    made
}

#[test]
fn x5_a_diff_without_numbers_changes_the_one_place_that_it_fits() {
    let text = "a\nb\n\nc\nb\n";
    assert_eq!(patched(text, " a\n-b\n+d\n+e\n").as_deref(), Some("a\nd\ne\n\nc\nb\n"));
    assert_eq!(patched(text, " b\n \n+d\n").as_deref(), Some("a\nb\n\nd\nc\nb\n"));
    for none in [" b\n+d\n", " d\n+e\n", "+d\n"] {
        assert_eq!(patched(text, none), None, "{none}");
    }
}

#[test]
fn x5_the_recipes_examples_work_in_a_copy_of_the_tree() {
    // Apart, as runs at full size take long.
    let at = scratch(if tests::long() { "recipes-at-full-size" } else { "recipes" });
    let [files, changes] = follow(&at);
    assert!(files >= 1 && changes >= 15, "{files} files, {changes} changes");
    if !tests::long() {
        return;
    }
    let recipes = document("docs/recipes.md");
    let tests: Vec<_> = recipes.spans().filter(|span| span.starts_with("cargo test ")).collect();
    assert!(tests.len() >= 5, "{tests:?}");
    let [boot, job] = BOOTED;
    assert!(recipes.spans().any(|span| span == boot), "{boot}");
    for command in tests.into_iter().chain([boot.replace("NAME", job)]) {
        let mut cargo = Command::new(env!("CARGO"));
        let run = cargo.current_dir(&at).env("CARGO_TARGET_DIR", root().join("target/recipes"));
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
