//! Documents are true: what they name is there (SPEC X-5).
//!
//! All `.md` files of the repository are held to this. In backticks stand
//!
//! - paths, from the repository's root, from the document's folder, or from `src` in that; a room's without its ending, which
//!   means its own file and the folder of those in it;
//! - `path: name, name`: what is defined there;
//! - `name::name`: what sources define;
//! - commands of the host tool, which it has to understand.

mod guide;
mod instructions;
mod limits;
mod markdown;
mod recipes;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser as _;
use markdown::{Document, files};
use xtask::cli::Cli;

/// What a path may end in.
const EXTENSIONS: [&str; 7] = [".rs", ".md", ".toml", ".lua", ".ld", ".txt", ".sh"];
/// Words before a name that is defined.
const KEYWORDS: [&str; 11] =
    ["fn", "struct", "enum", "trait", "const", "static", "type", "mod", "union", "macro_rules!", "local"];
/// Commands that the README's test does not run, with what does in its place: they take long, or are parts of what runs this.
const RUN_ELSEWHERE: [(&str, &str); 5] = [
    ("cargo xtask conform --board versal", "`b7_versal_conforms` of the guests' tests"),
    ("cargo xtask test --host-only", "the suite, of which it is a part"),
    ("cargo test -p pami", "its stage `unit tests`"),
    ("cargo fmt --all --check", "its stage `format`"),
    ("cargo clippy --workspace --lib --bins --tests -- -D warnings", "its stage `clippy: host`"),
];
/// The list of the README's commands runs but for this one, which runs the list.
const SUITE: &str = "cargo xtask test";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

fn text(name: &Path) -> String {
    let path = root().join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn document(name: &str) -> Document {
    Document::parse(name, &text(Path::new(name)))
}

fn documents() -> Vec<Document> {
    let all: Vec<_> = files(&root(), &["md"]).iter().map(|name| document(name.to_str().unwrap())).collect();
    assert!(all.len() > 10, "only {} documents", all.len());
    all
}

fn none(complaints: impl IntoIterator<Item = String>) {
    let complaints: Vec<_> = complaints.into_iter().collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// Whether names are made of it.
fn is_letter(it: char) -> bool {
    it.is_alphanumeric() || it == '_'
}

fn is_word(word: &str) -> bool {
    !word.is_empty() && word.chars().all(is_letter)
}

/// The words of a text.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|it| !is_letter(it)).filter(|word| !word.is_empty())
}

/// Whether what stands in backticks is a path, and no other thing with a stroke in it.
fn is_path(span: &str) -> bool {
    let fits = |it: char| it.is_ascii_alphanumeric() || "_-./".contains(it);
    // What was built, and what is to be written.
    let absent = span.starts_with("target/") || span.contains("NAME");
    (span.contains('/') || EXTENSIONS.iter().any(|end| span.ends_with(end) && span != *end))
        && span.chars().all(fits)
        && !absent
}

/// What a document means by a path: files and folders, a room's own file and the folder of those in it.
fn meant(from: &str, path: &str) -> Vec<PathBuf> {
    let root = root();
    let folder = root.join(from).parent().unwrap().to_path_buf();
    let bases = [root, folder.clone(), folder.join("src")];
    let ways = bases.iter().map(|base| [base.join(path), base.join(format!("{path}.rs"))]);
    let there = ways.map(|ways| ways.into_iter().filter(|way| way.exists()).collect::<Vec<_>>());
    there.into_iter().find(|ways| !ways.is_empty()).unwrap_or_default()
}

/// The sources that a document means by a path, one behind the other.
fn sources_of(from: &str, path: &str) -> String {
    let ways = meant(from, path).into_iter();
    let all = ways.flat_map(|way| {
        if way.is_dir() {
            files(&way, &["rs"]).into_iter().map(|file| way.join(file)).collect()
        } else {
            vec![way]
        }
    });
    all.map(|file| text(&file)).collect()
}

/// Whether a source defines something of this name, or with a field of it (`CONSTANT.field`).
fn defines(source: &str, name: &str) -> bool {
    if let Some((whole, field)) = name.split_once('.') {
        let says =
            |line: &str| line.trim_start().strip_prefix(field).is_some_and(|rest| rest.starts_with(": "));
        return defines(source, whole) && source.lines().any(says);
    }
    source.lines().filter_map(defined).any(|it| it == name)
}

/// What a document names and is not there.
fn missing(document: &Document, known: &[Source]) -> Vec<String> {
    let name = &document.name;
    let mut wrong = Vec::new();
    for span in document.spans() {
        if is_path(&span) {
            wrong.extend(meant(name, &span).is_empty().then(|| format!("{name}: there is no {span}")));
        } else if let Some((path, defined)) = span.split_once(": ").filter(|(path, _)| is_path(path)) {
            let source = sources_of(name, path);
            let undefined = defined.split(", ").filter(|it| !defines(&source, it));
            wrong.extend(undefined.map(|it| format!("{name}: {path} defines no {it}")));
        } else if span.contains("::") && span.trim_end_matches("()").split("::").all(is_word) {
            wrong.extend((!is_known(&span, known)).then(|| format!("{name}: no source defines {span}")));
        }
    }
    wrong
}

/// What a line of a source defines, if so: by a keyword, as a variant or as a field.
fn defined(line: &str) -> Option<&str> {
    let line = line.trim_start();
    if line.starts_with("//") {
        return None;
    }
    let named = |keyword| {
        let (before, rest) = line.split_once(keyword)?;
        let rest = rest.strip_prefix(' ').filter(|_| before.is_empty() || before.ends_with([' ', '(']))?;
        words(rest).next().filter(|name| rest.starts_with(name))
    };
    let member = || {
        let field = line.strip_prefix("pub ").or_else(|| line.strip_prefix("pub(crate) "));
        let own = field.unwrap_or(line);
        let name = words(own).next().filter(|name| own.starts_with(name))?;
        let rest = &own[name.len()..];
        let variant = name.starts_with(|it: char| it.is_uppercase())
            && (rest.is_empty() || [",", "(", " {", " = "].iter().any(|end| rest.starts_with(end)));
        (variant || field.is_some() && rest.starts_with(": ")).then_some(name)
    };
    KEYWORDS.into_iter().find_map(named).or_else(member)
}

/// A source: its words and those of its path; what it defines, and the module that it is.
struct Source {
    words: HashSet<String>,
    defined: HashSet<String>,
}

impl Source {
    fn read(name: &Path) -> Self {
        let text = text(name);
        let path = name.with_extension("").display().to_string();
        let module = path.trim_end_matches("/mod").trim_end_matches("/lib").trim_end_matches("/src");
        let own = module.rsplit('/').next().map(str::to_owned);
        let all = words(&text).chain(path.split('/')).map(str::to_owned).collect();
        Self { words: all, defined: text.lines().filter_map(defined).map(str::to_owned).chain(own).collect() }
    }
}

/// All sources.
fn vocabulary() -> Vec<Source> {
    files(&root(), &["rs"]).iter().map(|name| Source::read(name)).collect()
}

/// Whether sources define this name: one that defines its last word has the one before.
fn is_known(name: &str, sources: &[Source]) -> bool {
    let parts: Vec<_> = words(name).collect();
    parts.windows(2).all(|pair| {
        sources.iter().any(|source| source.words.contains(pair[0]) && source.defined.contains(pair[1]))
    })
}

#[test]
fn x5_what_documents_name_is_there() {
    let known = vocabulary();
    none(documents().iter().flat_map(|document| missing(document, &known)));
}

#[test]
fn x5_a_name_of_nothing_is_told() {
    let known = vocabulary();
    let wrong = |text: &str| missing(&Document::parse("xtask/README.md", text), &known);
    let good = "`pami/src/context/advance.rs: advance, take_next` of `kernel/src/arch`, `run/settings.rs`, `src/cli.rs`, `fabric/torus`, \
        `Context::advance()`, `cargo xtask test`, `a / b`, `target/hello.pcap`, `/`.\n```text\n`a/b`\n```\n";
    assert_eq!(wrong(good), Vec::<String>::new());
    assert_eq!(wrong("see `pami/src/contexts.rs`"), ["xtask/README.md: there is no pami/src/contexts.rs"]);
    assert_eq!(wrong("`run/nothing`"), ["xtask/README.md: there is no run/nothing"]);
    assert_eq!(wrong("`nothing.rs: advance`"), ["xtask/README.md: nothing.rs defines no advance"]);
    // Called there, and not defined.
    let other = "xtask/README.md: pami/src/context/advance.rs defines no push_bcopy";
    assert_eq!(wrong("`pami/src/context/advance.rs: advance,\n  push_bcopy`"), [other]);
    assert_eq!(wrong("`pami/src/pools.rs: SMALL.pieces`"), Vec::<String>::new());
    for nothing in ["SMALL.piece", "TINY.pieces"] {
        let said = format!("xtask/README.md: pami/src/pools.rs defines no {nothing}");
        assert_eq!(wrong(&format!("`pami/src/pools.rs: {nothing}`")), [said]);
    }
    let part = "xtask/README.md: pami/src/context/advance.rs defines no advanc";
    assert_eq!(wrong("`pami/src/context/advance.rs: advanc`"), [part]);
    let word = "xtask/README.md: no source defines Context::weighty";
    assert_eq!(wrong("`Context::weighty`"), [word]);
    assert_eq!(wrong("`Weight::advance`"), ["xtask/README.md: no source defines Weight::advance"]);
}

#[test]
fn x5_what_is_called_or_told_of_is_not_defined() {
    for (line, name) in [
        ("    pub(crate) const fn push_bcopy<T>(", Some("push_bcopy")),
        ("macro_rules! entry {", Some("entry")),
        ("pub const DEFERRING: u8 = 1;", Some("DEFERRING")),
        ("    Torus(u32),", Some("Torus")),
        ("    Retry = 26,", Some("Retry")),
        ("    pub total: usize,", Some("total")),
        ("local kinds = {", Some("kinds")),
        ("    push_bcopy(path,", None),
        ("    let local = push_bcopy(path);", None),
        ("    total: usize::MAX,", None),
        ("/// fn push_bcopy", None),
    ] {
        assert_eq!(defined(line), name, "{line}");
    }
}

/// Links that lead nowhere.
fn broken_links(document: &Document) -> Vec<String> {
    let outside = |link: &&str| link.starts_with("http");
    let path =
        |link: &str| root().join(&document.name).parent().unwrap().join(link.split('#').next().unwrap());
    let broken = document.links().filter(|link| !outside(link) && !path(link).exists());
    broken.map(|link| format!("{}: a link leads to {link}, which is not there", document.name)).collect()
}

#[test]
fn x5_links_lead_somewhere() {
    none(documents().iter().flat_map(broken_links));
    let astray =
        Document::parse("docs/a.md", "[a](trust.md), [b](trust.md#c), [d](../README.md), [e](README.md)");
    assert_eq!(broken_links(&astray), ["docs/a.md: a link leads to README.md, which is not there"]);
}

#[test]
fn x5_the_readme_leads_to_every_document() {
    let readme = document("README.md");
    let links: BTreeSet<_> = readme.links().collect();
    let all = documents();
    // A crate's own, from the table of folders; what fuzzing takes, from its crate's.
    let led = all
        .iter()
        .map(|document| document.name.as_str())
        .filter(|&name| !["README.md", "drivers/fuzz/README.md"].contains(&name));
    none(led.filter(|name| !links.contains(name)).map(|name| format!("README.md has no link to {name}")));
}

/// Commands that nobody runs, and entries of the list of those that are run elsewhere which no document has.
fn unrun(documents: &[Document], readme: &Document, elsewhere: &[(&str, &str)]) -> Vec<String> {
    let run: HashSet<_> = readme.lines("sh").collect();
    let is_elsewhere = |command: &str| elsewhere.iter().any(|(it, _)| *it == command);
    let all =
        || documents.iter().flat_map(|document| document.lines("sh").map(move |line| (&document.name, line)));
    let wrong = all().filter(|(_, line)| !run.contains(line) && !is_elsewhere(line));
    let wrong = wrong.map(|(name, line)| format!("{name}: no test runs `{line}`"));
    let unused = elsewhere.iter().filter(|(it, _)| !all().any(|(_, line)| line == *it));
    wrong.chain(unused.map(|(it, _)| format!("no document has `{it}`"))).collect()
}

/// Most files that a reader has to open who follows a message.
const WAY: usize = 30;
/// What else runs the engine: before `main`, after it, and around a sleep.
const BESIDE_THE_WAY: [&str; 4] =
    ["drivers/src/unit/joining.rs", "kernel/src/hardware.rs", "kernel/src/node.rs", "kernel/src/wakeup.rs"];

/// The files of a text's spans, with the names that stand behind each.
fn named_files(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut files = BTreeMap::<_, BTreeSet<_>>::new();
    for span in text.split('`').skip(1).step_by(2) {
        let span: Vec<_> = span.split_whitespace().collect();
        let (Some(first), names) = (span.first(), &span[1..]) else { continue };
        let path = first.trim_end_matches(':');
        if path.ends_with(".rs") {
            let names = names.iter().map(|name| name.trim_end_matches(',').to_owned());
            files.entry(path.to_owned()).or_default().extend(names);
        }
    }
    files
}

/// Whether code has the word, elsewhere than in comments.
fn has(code: &str, word: &str) -> bool {
    code.lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .any(|line| words(line).any(|it| it == word))
}

// What the tour leaves out, helpers that need not be opened, it cannot count; but no file is missing between two of them.
#[test]
fn x5_the_tour_of_a_message_names_thirty_files_at_most_and_each_is_entered_from_another() {
    let tour = text(Path::new("docs/tour.md"));
    let way = |title| tour.split(title).nth(1).and_then(|rest| rest.split("\n## ").next()).expect(title);
    let who = named_files(way("\n## Who runs the engine"));
    let files = named_files(&["\n## Out\n", "\n## In\n"].map(way).concat());
    let beside = who.keys().filter(|path| !files.contains_key(*path));
    assert_eq!(beside.collect::<Vec<_>>(), BESIDE_THE_WAY);
    assert!((20..=WAY).contains(&files.len()), "{} files: {:?}", files.len(), files.keys());
    let code: Vec<_> = files.keys().map(|path| (path, text(Path::new(path)))).collect();
    let is_entered = |path: &String, names: &BTreeSet<String>| {
        let mut others = code.iter().filter(|(other, _)| *other != path);
        others.any(|(_, code)| names.iter().any(|name| has(code, name)))
    };
    let apart = files.iter().filter(|(path, names)| !is_entered(path, names)).map(|(path, _)| path.as_str());
    // Where the way begins.
    assert_eq!(apart.collect::<Vec<_>>(), ["jobs/examples/hello.rs"]);
}

#[test]
fn x5_every_command_is_run() {
    let (all, readme) = (documents(), document("README.md"));
    assert!(readme.lines("sh").any(|line| line == SUITE));
    none(unrun(&all, &readme, &RUN_ELSEWHERE));
    let some = [Document::parse("a.md", "```sh\ncargo xtask jobs\ncargo build\n```\n")];
    assert_eq!(
        unrun(&some, &readme, &[("cargo bench", "nowhere")]),
        ["a.md: no test runs `cargo build`", "no document has `cargo bench`"]
    );
}

/// Commands of the host tool that it does not take.
fn refused(document: &Document) -> Vec<String> {
    let refusal = |command: &str| match Cli::try_parse_from(command.split_whitespace().skip(1)) {
        Ok(_) => None,
        Err(error) if !error.use_stderr() => None,
        Err(error) => Some(format!("{}: `{command}`: {error}", document.name)),
    };
    let jobs = |command: &str| {
        let mut words = command.split_whitespace().skip_while(|&word| word != "qemu").skip(1);
        let job = words.next().filter(|word| !word.starts_with('-'))?;
        let error = xtask::jobs::check(job).err()?;
        Some(format!("{}: `{command}`: {error}", document.name))
    };
    document.tool_commands().filter_map(|command| refusal(&command).or_else(|| jobs(&command))).collect()
}

#[test]
fn x5_the_host_tool_takes_the_commands_of_documents() {
    let all = documents();
    assert!(all.iter().flat_map(Document::tool_commands).count() > 30);
    none(all.iter().flat_map(refused));
    let text = "`cargo xtask qemu JOB`, `cargo xtask qemu hello --torus 2`, `cargo xtask qemu helo`\n    cargo xtask qemu --tors 2\n";
    let wrong = refused(&Document::parse("a.md", text));
    assert_eq!(wrong.len(), 2, "{wrong:?}");
    assert!(
        wrong.iter().any(|it| it.contains("--tors")) && wrong.iter().any(|it| it.contains("helo")),
        "{wrong:?}"
    );
}

/// The numbers of the decisions, in their order.
fn decisions(document: &str) -> Vec<u32> {
    let number = |line: &str| line.split_once(". **").and_then(|(number, _)| number.parse().ok());
    document.lines().filter_map(number).collect()
}

/// Decisions that a source cites and that are none.
fn undecided(name: &str, source: &str, numbers: &[u32]) -> Vec<String> {
    let cited = source.match_indices("docs/design.md decision").map(|(at, word)| &source[at + word.len()..]);
    let number = |rest: &str| {
        rest.trim_start().split(|it: char| !it.is_ascii_digit()).next().and_then(|it| it.parse().ok())
    };
    let wrong = cited.filter(|rest| !number(rest).is_some_and(|it: u32| numbers.contains(&it)));
    wrong
        .map(|rest| format!("{name}: there is no decision{}", rest.lines().next().unwrap_or_default()))
        .collect()
}

/// Sources of every kind, this test's own apart: it has examples of what is wrong.
fn sources() -> Vec<PathBuf> {
    let all = files(&root(), &["rs", "toml", "lua", "ld", "md"]);
    all.into_iter().filter(|path| !path.starts_with("tests/tests/documents")).collect()
}

#[test]
fn x5_decisions_that_sources_cite_are_in_the_design() {
    let numbers = decisions(&text(Path::new("docs/design.md")));
    assert_eq!(numbers, (1..=numbers.len() as u32).collect::<Vec<_>>());
    let sources: Vec<_> =
        sources().into_iter().map(|name| (name.display().to_string(), text(&name))).collect();
    let cites = |(_, source): &&(String, String)| source.contains("docs/design.md decision");
    assert!(sources.iter().filter(cites).count() > 5);
    none(sources.iter().flat_map(|(name, source)| undecided(name, source, &numbers)));
    assert_eq!(
        undecided("a.rs", "(docs/design.md decision 3) docs/design.md decision\n99.", &[3]),
        ["a.rs: there is no decision"]
    );
}

/// The sources whose code, comments apart, has a word.
fn sources_with(word: &str) -> Vec<String> {
    let has = |line: &str| {
        !line.trim_start().starts_with("//")
            && words(line.split(" // ").next().unwrap_or(line)).any(|it| it == word)
    };
    let all = files(&root(), &["rs"]).into_iter().filter(|path| !path.starts_with("tests/tests/documents"));
    all.filter(|path| text(path).lines().any(has)).map(|path| path.display().to_string()).collect()
}

#[test]
fn x5_machines_differ_and_code_is_unsafe_where_the_design_says() {
    assert_eq!(sources_with("target_arch"), ["boot/src/lib.rs", "kernel/src/arch/mod.rs"]);
    let with = sources_with("unsafe");
    let allowed = |name: &&String| {
        // The last calls an MPI, in a program that is measured beside ours: nothing of it is in a node or in the host tool.
        ["boot/", "drivers/", "kernel/src/arch/", "kernel/src/board/", "xtask/peers/npb/src/world.rs"]
            .iter()
            .any(|folder| name.starts_with(folder))
    };
    assert!(with.iter().filter(allowed).count() > 20);
    none(with.iter().filter(|name| !allowed(name)).cloned());
}

/// The ids behind a word that announces them, as in `SPEC N-8, P-11`.
fn ids(source: &str) -> Vec<String> {
    let is_id = |word: &str| {
        let (letter, number) = word.split_once('-').unwrap_or_default();
        letter.len() == 1 && letter.chars().all(|it| it.is_ascii_uppercase()) && number.parse::<u8>().is_ok()
    };
    let listed = source.match_indices("SPEC ").flat_map(|(at, word)| {
        let rest = source[at + word.len()..].split(['.', ')', ':', ';']).next().unwrap_or_default();
        let words = rest.split(|it: char| !(it.is_alphanumeric() || it == '-')).filter(|it| !it.is_empty());
        words.take_while(|word| is_id(word) || ["to", "and"].contains(word)).filter(|word| is_id(word))
    });
    listed.map(str::to_owned).collect()
}

#[test]
fn x5_ids_that_sources_cite_are_requirements() {
    let requirements = document("docs/requirements.md");
    let spelled = |id: &str| -> Vec<String> {
        let Some((first, last)) = id.split_once("..") else { return vec![id.to_owned()] };
        let number = |id: &str| id[2..].parse::<u8>().unwrap();
        (number(first)..=number(last)).map(|number| format!("{}{number}", &first[..2])).collect()
    };
    let known: HashSet<_> = requirements.rows().flat_map(|row| spelled(row[0])).collect();
    assert!(known.contains("Q-2") && known.contains("R-9"), "{known:?}");
    let mut cited = 0;
    let wrong = sources().into_iter().flat_map(|name| {
        let ids = ids(&text(&name));
        cited += ids.len();
        let known = &known;
        ids.into_iter()
            .filter(|id| !known.contains(id))
            .map(move |id| format!("{}: no requirement is {id}", name.display()))
            .collect::<Vec<_>>()
    });
    none(wrong);
    assert!(cited > 200, "only {cited} ids are cited");
    assert_eq!(ids("(SPEC N-8, P-11). A-1, SPEC D-2 to\n//! D-4, and a B-1"), ["N-8", "P-11", "D-2", "D-4"]);
}

/// Words of the glossary whose file is not there or lacks them.
fn strange_words(glossary: &Document) -> Vec<String> {
    let mut wrong = Vec::new();
    for row in glossary.rows() {
        let (Some(first), Some(last)) = (row.first(), row.last()) else { continue };
        let file = last.trim_matches('`');
        let text = sources_of(&glossary.name, file);
        if text.is_empty() {
            wrong.push(format!("{first}: there is no file {file}"));
            continue;
        }
        let own: Vec<_> = first.split('`').skip(1).step_by(2).collect();
        wrong.extend(
            own.is_empty().then(|| format!("{first}: no word of the sources is given, in backticks")),
        );
        let strange = own.into_iter().filter(|word| !words(&text).any(|it| it == *word));
        wrong.extend(strange.map(|word| format!("{file} does not have the word {word}")));
    }
    wrong
}

#[test]
fn x5_words_of_the_glossary_are_where_it_says() {
    let glossary = document("docs/glossary.md");
    assert!(glossary.rows().count() > 30);
    assert!(
        glossary.rows().all(|row| row.len() == 6 && row.iter().all(|cell| !cell.is_empty())),
        "six cells each"
    );
    none(strange_words(&glossary));
    let head = "| a | b |\n|---|---|\n";
    let rows = "| context (`Context`) | `pami/src/context/mod.rs` |\n| `contex` | `pami/src/context/mod.rs` |\n| c | `pami/src/context/mod.rs` |\n\
        | `c` | `pami/src/contexts.rs` |\n";
    assert_eq!(
        strange_words(&Document::parse("a.md", &[head, rows].concat())),
        [
            "pami/src/context/mod.rs does not have the word contex",
            "c: no word of the sources is given, in backticks",
            "`c`: there is no file pami/src/contexts.rs"
        ]
    );
}
