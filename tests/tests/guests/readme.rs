//! The README is true: its code is the job's, and its commands work.

use std::path::Path;
use std::process::Command;
use tests::long;

/// The README's first commands.
const FIRST: [&str; 3] = ["cargo xtask qemu", "cargo xtask test", "cargo xtask host npb-is"];

fn readme() -> String {
    std::fs::read_to_string(root().join("README.md")).expect("the README")
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace")
}

/// The code blocks of one language.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    let block = |part: &'a str| part.split_once("```").map(|(block, _)| block);
    text.split(fence.as_str()).skip(1).filter_map(block).collect()
}

fn job(name: &str) -> String {
    std::fs::read_to_string(root().join("jobs/examples").join(name)).expect("the job")
}

#[test]
fn p12_the_readmes_first_code_is_the_job() {
    let text = readme();
    assert_eq!(blocks(&text, "rust").first(), Some(&job("hello.rs").as_str()));
}

/// What is shown is what is compiled and run, to the letter: `hello` or a function of `snippets`, whose run is among the
/// README's commands.
#[test]
fn x1_every_rust_snippet_is_compiled_and_run_as_it_stands() {
    let jobs = [job("hello.rs"), job("snippets.rs")];
    let mut snippets = 0;
    for file in ["README.md", "pami/modules/mpi/README.md", "pami/modules/armci/README.md"] {
        let text = std::fs::read_to_string(root().join(file)).expect("a README");
        for snippet in blocks(&text, "rust") {
            assert!(jobs.iter().any(|job| job.contains(snippet)), "{file}: in no job:\n{snippet}");
            snippets += 1;
        }
    }
    assert!(snippets >= 4);
    assert!(commands(&readme()).iter().any(|command| command.contains("qemu snippets")));
}

/// The README's commands, but the one that runs this test.
fn commands(text: &str) -> Vec<&str> {
    let commands: Vec<_> = blocks(text, "sh").into_iter().flat_map(str::lines).collect();
    assert!(commands.len() >= 8);
    assert_eq!(commands[..3], FIRST);
    commands.into_iter().filter(|&command| command != FIRST[1]).collect()
}

/// They are run two at a time.
#[test]
fn x1_no_two_commands_of_the_readme_write_to_one_place() {
    let text = readme();
    let commands = commands(&text);
    let places =
        || commands.iter().flat_map(|command| command.split(' ')).filter(|word| word.starts_with("target/"));
    let once = |place: &&str| places().filter(|other| other == place).count() == 1;
    assert!(places().count() > 5 && places().all(|place| once(&place)), "{:?}", places().collect::<Vec<_>>());
}

fn works(command: &str) {
    let mut words = command.split_whitespace();
    let mut process = Command::new(words.next().expect("a word"));
    // The images that a user boots, one for each job, take long to build: but for the commands that come first, the suite's
    // one of all jobs serves, if it is there.
    if long() || FIRST.contains(&command) {
        process.env_remove(xtask::firmware::ONE_IMAGE);
    }
    let output = process.args(words).current_dir(root()).output().expect("a command that starts");
    let said =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success(), "{command}: {}\n{said}", output.status);
    if command.contains("npb-") || command.ends_with("qemu") {
        let results = [("npb-mg", 1), ("npb-ft", 6)].into_iter().find(|(job, _)| command.contains(job));
        let results = results.map_or(11, |(_, results)| results);
        assert_eq!(said.matches(": verified").count(), results, "{command}:\n{said}");
    }
}

// In two tests, which run side by side.
mod x1_every_command_of_the_readme_works {
    use super::{commands, readme, works};

    #[test]
    fn first_and_every_second_after_it() {
        commands(&readme()).into_iter().step_by(2).for_each(works);
    }

    #[test]
    fn second_and_every_second_after_it() {
        commands(&readme()).into_iter().skip(1).step_by(2).for_each(works);
    }
}
