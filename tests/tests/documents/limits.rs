//! The table of limits has those that are there, with their numbers (SPEC ).

use std::collections::HashMap;
use std::path::Path;

use super::markdown::{Document, files};
use super::{document, none, root, text, words};

/// The crates whose limits are in the table.
const CRATES: [&str; 5] = ["pami/src/", "pami/modules/", "drivers/rings/src/", "drivers/src/", "kernel/src/"];
/// Settings of modules that bound nothing: how often a call looks before its hart sleeps.
const NO_CAPS: [&str; 1] = ["polls"];
/// Types whose last argument says how much they hold.
const BOUNDED: [&str; 3] = ["Vec<", "Deque<", "HistoryBuf<"];

/// The crates' product code, by path.
fn sources() -> Vec<(String, String)> {
    let tests = ["/tests", "/simulation", "/orders"];
    let all = files(&root(), &["rs"]).into_iter().map(|path| path.display().to_string());
    let ours = all.filter(|path| CRATES.iter().any(|own| path.starts_with(own)));
    let ours = ours.filter(|path| !tests.iter().any(|part| path.contains(part)));
    let code = |path: String| {
        let code = text(Path::new(&path)).split("#[cfg(test)]\nmod tests {").next().unwrap().to_owned();
        (path, code)
    };
    ours.map(code).collect()
}

/// What a source says that a constant is, or a field of one (`CONSTANT.field`).
fn expression<'a>(source: &'a str, name: &str) -> Option<&'a str> {
    if let Some((constant, field)) = name.split_once('.') {
        let fields = source.split_once(&format!("const {constant}: "))?.1.split_once("};")?.0;
        let said = fields.lines().find_map(|line| line.trim().strip_prefix(field)?.strip_prefix(": "))?;
        return Some(said.trim_end_matches(','));
    }
    let said = source.lines().find_map(|line| line.split_once(&format!("const {name}: ")))?.1;
    said.split_once(" = ").map(|(_, value)| value.trim_end_matches(';'))
}

/// The value of a constant: numbers, and other constants of the table, from left to right.
fn value(source: &str, name: &str, others: &HashMap<&str, u64>) -> Option<u64> {
    let mut parts = expression(source, name)?.split(' ').filter(|part| !["as", "usize"].contains(part));
    let number = |part: &str| {
        let digits = part.replace('_', "");
        let own = || value(source, part, others);
        digits.parse().ok().or_else(own).or_else(|| others.get(part).copied())
    };
    let mut so_far = number(parts.next()?)?;
    while let Some(operator) = parts.next() {
        let next = number(parts.next()?)?;
        so_far = match operator {
            "<<" => so_far << next,
            "*" => so_far * next,
            "/" => so_far / next,
            "+" => so_far + next,
            "-" => so_far - next,
            _ => return None,
        };
    }
    Some(so_far)
}

/// A number as the table has it.
fn number(cell: &str) -> Option<u64> {
    let (digits, unit) = cell.split_once(' ').unwrap_or((cell, ""));
    let unit = [("", 0), ("KiB", 10), ("MiB", 20)].into_iter().find(|(it, _)| *it == unit)?.1;
    Some(digits.parse::<u64>().ok()? << unit)
}

/// The constants that a table's rows name, with their files and numbers.
fn named(table: &Document) -> Vec<(String, String, String)> {
    let constant = |row: &Vec<&str>| {
        let (file, name) = row[0].trim_matches('`').split_once(": ")?;
        Some((file.to_owned(), name.to_owned(), row[1].to_owned()))
    };
    table.rows().filter_map(|row| constant(&row)).collect()
}

/// What is wrong with the numbers of a table.
fn misstated(table: &Document, sources: &[(String, String)]) -> Vec<String> {
    let rows = named(table);
    let known: HashMap<_, _> =
        rows.iter().filter_map(|(_, name, cell)| Some((name.as_str(), number(cell)?))).collect();
    let wrong = rows.iter().filter_map(|(file, name, cell)| {
        let source = sources.iter().find(|(path, _)| path == file);
        let is = source.and_then(|(_, source)| value(source, name, &known));
        let said = number(cell);
        (is.is_none() || is != said).then(|| format!("{file}: {name} is {is:?}, and {cell} in the table"))
    });
    wrong.collect()
}

/// The numbers that a module has where an application says nothing: the fields of its `DEFAULT`, as the table names them.
fn settings(source: &str) -> Vec<String> {
    let all = source
        .split_once("const DEFAULT: Settings = Settings {\n")
        .and_then(|(_, rest)| rest.split_once("\n};"));
    let fields = all
        .into_iter()
        .flat_map(|(fields, _)| fields.lines())
        .filter_map(|line| line.trim().split_once(": "));
    let numbers = fields
        .filter(|(name, value)| value.starts_with(|it: char| it.is_ascii_digit()) && !NO_CAPS.contains(name));
    numbers.map(|(name, _)| format!("DEFAULT.{name}")).collect()
}

/// Names of constants that sources use in place of their own.
fn aliases(sources: &[(String, String)]) -> HashMap<&str, &str> {
    let renamed = |line| {
        let (before, alias) = str::split_once(line, " as ")?;
        Some((alias.strip_suffix(';')?, words(before).last()?))
    };
    sources.iter().flat_map(|(_, source)| source.lines().filter_map(renamed)).collect()
}

/// Constants that say how much something holds.
fn capacities(source: &str, aliases: &HashMap<&str, &str>) -> Vec<String> {
    let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    let types = code.flat_map(|line| {
        BOUNDED.iter().flat_map(move |bounded| line.match_indices(bounded).map(move |(at, _)| &line[at..]))
    });
    let last = types.filter_map(|of| {
        // Up to the bracket that ends it.
        let mut depth = 0;
        let end = of.char_indices().find(|&(_, it)| {
            depth += i32::from(it == '<') - i32::from(it == '>');
            it == '>' && depth == 0
        })?;
        of[..end.0].rsplit_once(", ").map(|(_, last)| last)
    });
    let constant =
        |name: &&str| name.len() > 1 && name.chars().all(|it| it.is_ascii_uppercase() || it == '_');
    last.filter(constant).map(|name| (*aliases.get(name).unwrap_or(&name)).to_owned()).collect()
}

#[test]
fn r8_x5_the_table_of_limits_has_the_numbers_of_the_sources_and_what_is_past_them() {
    let table = document("docs/limits.md");
    let rows = named(&table);
    assert!(rows.len() > 50, "only {} limits", rows.len());
    assert_eq!(rows.len(), table.rows().count(), "each row has a path and a name");
    assert!(table.rows().all(|row| row.len() == 4 && row.iter().all(|cell| !cell.is_empty())), "four cells");
    none(misstated(&table, &sources()));
}

#[test]
fn r8_x5_what_says_how_much_a_table_holds_is_among_the_limits() {
    let rows = named(&document("docs/limits.md"));
    let sources = sources();
    let aliases = aliases(&sources);
    let of = |(path, source): &(String, String)| {
        let path = path.clone();
        let all = settings(source).into_iter().chain(capacities(source, &aliases));
        all.map(move |name| (path.clone(), name)).collect::<Vec<_>>()
    };
    let all: Vec<_> = sources.iter().flat_map(of).collect();
    assert!(all.len() > 30, "only {} tables", all.len());
    let settings =
        all.iter().filter(|(path, name)| path.starts_with("pami/modules/") && name.starts_with("DEFAULT."));
    assert!(settings.count() > 30, "modules' settings have other forms");
    // A constant may be that of another file, a setting is its module's own.
    let known = |path: &str, name: &str| {
        rows.iter().any(|row| row.1 == name && (row.0 == path || !name.starts_with("DEFAULT.")))
    };
    let missing = all.iter().filter(|(path, name)| !known(path, name));
    none(missing.map(|(path, name)| format!("docs/limits.md does not have {name} of {path}")));
}

#[test]
fn r8_x5_a_limit_that_is_wrong_or_missing_is_told() {
    let source = "pub const MOST: usize = 2 * EACH;\nconst EACH: u32 = 1_000;\nconst ALL: u64 = MOST - 8 << 1;\n\
        const FIRST: It = It {\n    some: 1,\n};\nconst SECOND: It = It {\n    some: 2 << 10,\n    more: EACH,\n};\n\
        use there::FEW as SOME;\n// Vec<u8, NONE>\nlet it: Vec<(u8, Vec<u8, MOST>), EACH> = Deque<u8, SOME>; Vec<u8, N>;";
    let sources = [("pami/src/a.rs".to_owned(), source.to_owned())];
    let rows = |cells: &[(&str, &str)]| {
        let row = |(name, number): &(&str, &str)| format!("| `pami/src/a.rs: {name}` | {number} | a | b |\n");
        let rows: String = cells.iter().map(row).collect();
        Document::parse("a.md", &format!("| a | b | c | d |\n|---|---|---|---|\n{rows}"))
    };
    assert_eq!(misstated(&rows(&[("MOST", "2000"), ("EACH", "1000"), ("ALL", "3984")]), &sources), [""; 0]);
    let fields = [("FIRST.some", "1"), ("SECOND.some", "2 KiB"), ("SECOND.more", "1000")];
    assert_eq!(misstated(&rows(&fields), &sources), [""; 0]);
    let wrong = misstated(&rows(&[("FIRST.more", "1000"), ("SECOND.some", "2")]), &sources);
    assert_eq!(wrong.len(), 2, "{wrong:?}");
    let wrong = misstated(&rows(&[("MOST", "2 KiB"), ("GONE", "1")]), &sources);
    assert_eq!(
        wrong,
        [
            "pami/src/a.rs: MOST is Some(2000), and 2 KiB in the table",
            "pami/src/a.rs: GONE is None, and 1 in the table"
        ]
    );
    let defaults = "const DEFAULT: Settings = Settings {\n    name: \"a\",\n    most: 2 << 10,\n    polls: 7,\n    wait: Wait::No,\n};\n";
    assert_eq!(settings(defaults), ["DEFAULT.most"]);
    let mut found = capacities(source, &aliases(&sources));
    found.sort();
    assert_eq!(found, ["EACH", "FEW", "MOST"]);
}
