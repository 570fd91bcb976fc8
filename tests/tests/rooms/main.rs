//! Which module may know of which other (SPEC Q-1).
//!
//! The modules of a folder form no circle, in no folder. A folder's own file, and those in it, belong together: neither is
//! held against the other. Which room, as the modules of a crate's root are called, may know of which other, a crate's README
//! draws: a block of lines `layer: room room`, the highest layer first. A room knows of those in layers below its own alone.
//! The README of the whole draws packages in the same way.

mod doors;
mod source;
mod terms;
mod unused;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;
use source::{Module, Source};
use syn::visit::Visit;

/// Crates whose README draws them.
const DRAWN: [&str; 8] = [
    "drivers",
    "kernel",
    "pami",
    "pami/modules/armci",
    "pami/modules/base",
    "pami/modules/mpi",
    "pami/modules/shmem",
    "xtask",
];
/// Crates that are small, or not yet drawn.
const OTHERS: [&str; 2] = ["boot", "drivers/rings"];
/// Crates whose structs have one door each.
const ONE_DOOR: [&str; 6] = ["drivers", "drivers/rings", "kernel", "pami", "pami/modules/base", "xtask"];
/// How a README's drawing begins.
const BLOCK: &str = "```layers\n";

type Uses = BTreeSet<(Module, Module)>;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

fn uses(name: &str) -> Uses {
    Source::read(&folder(name).join("src/lib.rs")).uses()
}

/// Which module of a folder uses which other, with what shows it.
fn between(uses: &Uses, inside: &[String]) -> BTreeMap<(String, String), String> {
    let of = |module: &Module| module.strip_prefix(inside).and_then(|rest| rest.first().cloned());
    let mut edges = BTreeMap::new();
    for (from, to) in uses {
        if let (Some(a), Some(b)) = (of(from), of(to))
            && a != b
        {
            edges.entry((a, b)).or_insert_with(|| format!("{} uses {}", from.join("::"), to.join("::")));
        }
    }
    edges
}

/// The circles of modules of any folder, each told by its arrows.
fn circles(uses: &Uses) -> Vec<String> {
    let folders: BTreeSet<_> = uses
        .iter()
        .flat_map(|(from, to)| [from, to])
        .flat_map(|module| (0..module.len()).map(|end| &module[..end]))
        .collect();
    let mut found = Vec::new();
    for inside in folders {
        let edges = between(uses, inside);
        let graph: DiGraphMap<&str, ()> = edges.keys().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        for circle in tarjan_scc(&graph).into_iter().filter(|circle| circle.len() > 1) {
            let arrows =
                edges.iter().filter(|((a, b), _)| [a, b].iter().all(|it| circle.contains(&it.as_str())));
            let arrows: Vec<_> = arrows.map(|((a, b), shown)| format!("  {a} -> {b}: {shown}")).collect();
            found.push(format!(
                "{} modules of `{}`:\n{}",
                circle.len(),
                inside.join("::"),
                arrows.join("\n")
            ));
        }
    }
    found
}

/// The layers that a README draws, the highest first, each with its rooms.
fn layers(readme: &str) -> Vec<(&str, Vec<&str>)> {
    let (_, block) = readme.split_once(BLOCK).expect("the README draws the crate's layers");
    let (block, _) = block.split_once("```").expect("the drawing ends");
    let line = |line| str::split_once(line, ':').unwrap_or_else(|| panic!("no layer: {line:?}"));
    block.lines().map(line).map(|(layer, rooms)| (layer.trim(), rooms.split_whitespace().collect())).collect()
}

/// Arrows that are not as drawn, and rooms that are not drawn or not there.
fn undrawn(uses: &Uses, rooms: &BTreeSet<String>, layers: &[(&str, Vec<&str>)]) -> Vec<String> {
    let drawn =
        || layers.iter().enumerate().flat_map(|(at, (_, rooms))| rooms.iter().map(move |&room| (room, at)));
    let heights: BTreeMap<&str, usize> = drawn().collect();
    let twice = drawn().count() != heights.len();
    let missing = rooms.iter().filter(|room| !heights.contains_key(room.as_str()));
    let gone = heights.keys().filter(|&&room| !rooms.contains(room));
    let up = between(uses, &[]);
    let up = up.iter().filter(|((a, b), _)| heights.get(a.as_str()) >= heights.get(b.as_str()));
    let mut wrong: Vec<_> = missing.map(|room| format!("{room} is not drawn")).collect();
    wrong.extend(gone.map(|room| format!("{room} is drawn and not there")));
    wrong.extend(up.map(|((a, b), shown)| format!("{a} may not know of {b}: {shown}")));
    wrong.extend(twice.then(|| "a room is drawn twice".to_string()));
    wrong
}

#[test]
fn q1_no_folder_has_a_circle_of_modules() {
    for name in DRAWN.into_iter().chain(OTHERS) {
        let circles = circles(&uses(name));
        assert!(circles.is_empty(), "{name}: circles of\n{}", circles.join("\n"));
    }
}

#[test]
fn q1_rooms_know_of_those_that_the_readme_draws_below_them() {
    for name in DRAWN {
        let root = folder(name);
        let readme = fs::read_to_string(root.join("README.md")).unwrap();
        let source = Source::read(&root.join("src/lib.rs"));
        let wrong = undrawn(&source.uses(), &source.rooms(), &layers(&readme));
        assert!(wrong.is_empty(), "{name}/README.md:\n{}", wrong.join("\n"));
    }
}

/// The packages of the workspace, and which names which other in its manifest, for tests too.
fn packages() -> (Uses, BTreeSet<String>) {
    let workspace = fs::read_to_string(folder("Cargo.toml")).unwrap();
    let (_, members) = workspace.split_once("members = [").unwrap();
    let folders: Vec<_> =
        members.split_once(']').unwrap().0.split(", ").map(|it| it.trim_matches('"')).collect();
    let name = |folder: &str| folder.rsplit('/').next().unwrap().to_owned();
    let all: BTreeSet<_> = folders.iter().map(|folder| name(folder)).collect();
    let mut uses = Uses::new();
    for member in folders {
        let manifest = fs::read_to_string(folder(member).join("Cargo.toml")).unwrap();
        let keys = manifest.lines().filter_map(|line| line.split(['.', ' ', '=']).next());
        uses.extend(
            keys.filter(|key| all.contains(*key)).map(|key| (vec![name(member)], vec![key.to_owned()])),
        );
    }
    (uses, all)
}

#[test]
fn q1_packages_depend_on_those_that_the_readme_draws_below_them() {
    let (uses, all) = packages();
    assert!(uses.len() > 15, "{uses:?}");
    let readme = fs::read_to_string(folder("README.md")).unwrap();
    let wrong = undrawn(&uses, &all, &layers(&readme));
    assert!(wrong.is_empty(), "README.md:\n{}", wrong.join("\n"));
}

#[test]
fn q1_the_engine_of_collectives_has_no_circle_and_knows_of_no_context() {
    let above = "client context factory fence get operation put receive receive_request rmw send".split(' ');
    let rooms = Source::read(&folder("pami").join("src/lib.rs")).rooms();
    assert!(above.clone().all(|room| rooms.contains(room)), "rooms that are gone");
    let mut uses = uses("pami");
    uses.retain(|(from, _)| from.starts_with(&["collective".into(), "engine".into()]));
    let circles = circles(&uses);
    assert!(circles.is_empty(), "{}", circles.join("\n"));
    let up: Vec<_> = uses
        .iter()
        .filter(|(_, to)| above.clone().any(|room| to.first().is_some_and(|it| it == room)))
        .collect();
    assert!(uses.len() > 20 && up.is_empty(), "{up:?}");
}

#[test]
fn q1_a_struct_has_one_door() {
    for name in ONE_DOOR {
        let wrong = doors::wrong(&Source::read(&folder(name).join("src/lib.rs")));
        assert!(wrong.is_empty(), "{name}:\n{}", wrong.join("\n"));
    }
}

#[test]
fn q1_what_a_crate_sees_has_a_name_of_its_own() {
    for name in DRAWN.into_iter().chain(OTHERS) {
        let twice = terms::twice(&Source::read(&folder(name).join("src/lib.rs")));
        assert!(twice.is_empty(), "{name}: names of more than one type: {twice:#?}");
    }
}

/// All that is below a folder, or the file itself.
fn files(at: PathBuf) -> Vec<PathBuf> {
    if at.is_file() {
        return vec![at];
    }
    fs::read_dir(at).unwrap().flat_map(|entry| files(entry.unwrap().path())).collect()
}

#[test]
fn q2_no_product_code_is_there_for_tests_alone() {
    let names = DRAWN.into_iter().chain(OTHERS).chain(["jobs"]);
    let sources: Vec<_> = names.map(|name| (name, Source::read(&folder(name).join("src/lib.rs")))).collect();
    let mut used = unused::Used::default();
    sources.iter().for_each(|(_, source)| used.note(source));
    for file in ["jobs/examples", "xtask/src/main.rs"].into_iter().flat_map(|at| files(folder(at))) {
        if file.extension().is_some_and(|it| it == "rs") {
            used.visit_file(&syn::parse_file(&fs::read_to_string(file).unwrap()).unwrap());
        }
    }
    let unused = sources.iter().flat_map(|(name, source)| {
        unused::unused(source, &used).into_iter().map(move |it| format!("{name}: {it}"))
    });
    let unused: Vec<_> = unused.collect();
    assert!(unused.is_empty(), "only tests use, if anything does:\n{}", unused.join("\n"));
}

/// A crate of these files.
fn written(files: &[(&str, &str)]) -> Source {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    Source::read(&folder.path().join("lib.rs"))
}

#[test]
fn q1_a_use_is_found_however_it_is_written() {
    let ways = [
        "use crate::b::B; fn f(_: B) {}",
        "use crate::{b::{B as C}}; fn f(_: C) {}",
        "use crate::b; fn f(_: b::B) {}",
        "use crate::B; fn f(_: B) {}",
        "use super::b::*; fn f(_: B) {}",
        "fn f() -> Option<crate::b::B> { None }",
        "impl super::b::B { fn f() {} }",
        "fn f() { let _ = matches!(1, crate::b::NUMBER); }",
        "fn f() { use crate::b::NUMBER; }",
        "mod inner { use super::super::b::B; fn f(_: B) {} }",
    ];
    for way in ways {
        let uses = written(&[
            ("lib.rs", "mod a; mod b; pub use b::B;"),
            ("a.rs", way),
            ("b.rs", "pub struct B; pub const NUMBER: u32 = 1;"),
        ])
        .uses();
        assert_eq!(circles(&uses), [""; 0]);
        assert!(between(&uses, &[]).contains_key(&("a".into(), "b".into())), "not found: {way}");
    }
    // What only tests name, and what is of other crates, is no use.
    let none = "use std::b::B; #[cfg(test)] mod tests { use crate::b::B; }";
    let none = written(&[("lib.rs", "mod a; mod b;"), ("a.rs", none), ("b.rs", "pub struct B;")]);
    assert!(none.uses().is_empty());
}

#[test]
fn q1_a_circle_is_found_in_any_folder() {
    let uses = written(&[
        ("lib.rs", "mod a;"),
        ("a/mod.rs", "mod b; mod c; mod d; pub struct A(b::B);"),
        ("a/b.rs", "use super::c::C; pub struct B(C);"),
        ("a/c.rs", "use super::{A, d::D}; pub struct C(D);"),
        ("a/d.rs", "pub struct D(super::b::B);"),
    ])
    .uses();
    let [circle] = &circles(&uses)[..] else { panic!("one circle of {uses:?}") };
    assert!(circle.starts_with("3 modules of `a`"), "{circle}");
}

#[test]
fn q1_an_arrow_that_goes_up_is_found() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "use crate::b::B;"),
        ("b.rs", "pub struct B;"),
        ("c.rs", ""),
    ];
    let (uses, rooms) = (written(&files).uses(), ["a", "b", "c"].map(String::from).into());
    let wrong = |drawing| undrawn(&uses, &rooms, &layers(drawing)).join("; ");
    assert_eq!(wrong("x\n```layers\nhigh: a c\nlow: b\n```\n"), "");
    assert_eq!(wrong("```layers\nhigh: b\nlow: a c\n```"), "a may not know of b: a uses b");
    assert_eq!(wrong("```layers\none: a b c\n```"), "a may not know of b: a uses b");
    assert_eq!(wrong("```layers\nhigh: a\nlow: b d\n```"), "c is not drawn; d is drawn and not there");
    assert_eq!(wrong("```layers\nhigh: a c\nlow: b c\n```"), "a room is drawn twice");
}

#[test]
fn q1_a_second_door_is_found() {
    let wrong = |a: &str, b: &str| {
        let inner = "impl super::Room { pub fn stand(&mut self) { self.seat = 0; } }";
        let a = format!("mod inner; {a}");
        let files = [("lib.rs", "mod a; mod b;"), ("a/mod.rs", &a), ("a/inner.rs", inner), ("b.rs", b)];
        doors::wrong(&written(&files)).join("; ")
    };
    let room = "pub struct Room { seat: u32 } impl Room { pub fn sit(&mut self) { self.seat += 1; } }";
    let data = "pub struct Room; pub struct Data { pub(crate) x: u32, pub y: [u32; 2] }";
    let holds = "use crate::a::Data; struct Holder(Data); impl Holder { fn f(&mut self) { self.0.x = 1; } }";
    let makes =
        "use crate::a::Data; fn f() -> Data { let mut made = Data { x: 1, y: [2; 2] }; made.x = 2; made }";
    for (a, b) in
        [(room, ""), (data, holds), (data, makes), (data, "fn f(data: &crate::a::Data) -> u32 { data.x }")]
    {
        assert_eq!(wrong(a, b), "", "{a} {b}");
    }
    let mixed = "pub struct Room { pub seat: u32, of: u32 }";
    assert_eq!(wrong(mixed, ""), "a::Room shows its field `seat` and hides `of`: all, or none");
    let both = "pub struct Room { pub(super) seat: u32 }";
    let told =
        "a::Room shows its field `seat`, and `stand`, which changes it: hide its fields, or move the method";
    assert_eq!(wrong(both, ""), told);
    let lent = [
        "use crate::a; fn f(it: &mut a::Data) { it.x += 1; }",
        "use crate::a::Data as D; fn f(it: &mut D) { it.x = 1; }",
        "type D = crate::a::Data; fn f(it: &mut D) { it.x = 1; }",
    ];
    for lent in lent {
        assert_eq!(
            wrong(data, lent),
            "a::Data is changed by b, which assigns `it.x`: that is for its own file"
        );
    }
    let deep = "struct B; impl B { fn f(&self, it: &mut crate::a::Data) { (it.y[0], _) = (1, 2); } }";
    assert_eq!(wrong(data, deep), "a::Data is changed by b, which assigns `it.y`: that is for its own file");
    let other = "impl crate::a::Data { fn f(&mut self) { self.x = 1; } }";
    assert_eq!(
        wrong(data, other),
        "a::Data is changed by b, which assigns `self.x`: that is for its own file"
    );
}

#[test]
fn q1_a_name_of_two_types_is_found() {
    let wrong = |a: &str, b: &str| {
        let files = [("lib.rs", "mod a; mod b;"), ("a/mod.rs", a), ("b.rs", b)];
        let twice = terms::twice(&written(&files));
        twice
            .into_iter()
            .map(|(name, modules)| format!("{name} of {}", modules.join(", ")))
            .collect::<String>()
    };
    for other in ["pub struct Name;", "pub(crate) enum Name {}", "pub trait Name {}", "pub type Name = u32;"]
    {
        assert_eq!(wrong("pub struct Name;", other), "Name of a, b", "{other}");
    }
    let unseen =
        ["struct Name;", "pub(super) enum Name {}", "#[cfg(test)] pub struct Name;", "use crate::a::Name;"];
    for other in unseen.into_iter().chain(["pub type Name = crate::a::Name;", "pub struct Other;"]) {
        assert_eq!(wrong("pub struct Name;", other), "", "{other}");
    }
    let alternatives = "mod aarch64 { pub struct Name; } mod riscv64 { pub struct Name; }";
    assert_eq!(wrong(alternatives, ""), "");
    assert_eq!(wrong(alternatives, "pub struct Name;"), "Name of a::this, b");
}

#[test]
fn q2_what_only_tests_use_is_found() {
    let found = |defined: &str, other: &str| {
        let lib = "mod a; mod b; pub use a::Open; #[cfg(test)] mod tests { fn f(it: &crate::a::Shut) { it.name(); super::a::name() } }";
        let source = written(&[("lib.rs", lib), ("a.rs", defined), ("b.rs", other)]);
        let mut used = unused::Used::default();
        used.note(&source);
        unused::unused(&source, &used).join(", ")
    };
    let method = "pub struct Shut; impl Shut { pub(crate) fn name(&self) {} }";
    for (defined, told) in [
        ("pub fn name() {}", "a::name"),
        ("pub const name: u32 = 1;", "a::name"),
        ("pub(super) static name: u32 = 1;", "a::name"),
        (method, "a::Shut::name"),
        ("impl<T> Shut<T> { pub const name: u32 = 1; }", "a::Shut::name"),
        ("trait Shut { fn name(&self) {} }", "a::Shut::name"),
    ] {
        assert_eq!(found(defined, ""), told, "{defined}");
        assert_eq!(found(defined, "#[cfg(test)] fn f() { crate::a::name() }"), told, "{defined}");
        assert_eq!(found(defined, "impl B { #[cfg(test)] fn f() { crate::a::name() } }"), told, "{defined}");
        for used in ["fn f(it: It) { it.name() }", "const X: u32 = a::name;", "fn f() { assert!(it.name()) }"]
        {
            assert_eq!(found(defined, used), "", "{defined} {used}");
        }
    }
    assert_eq!(found(method, "fn f(name: u32) -> u32 { name }"), "a::Shut::name");
    assert_eq!(found("pub fn name() {}", "use crate::a::name; fn f() { name() }"), "");
    assert_eq!(found("pub fn name() {}", "pub use crate::a::name as other;"), "");
    let open =
        "fn name() {} impl Open { pub fn name(&self) {} fn inner(&self) {} #[cfg(test)] pub fn test() {} }";
    assert_eq!(found(open, ""), "");
}
