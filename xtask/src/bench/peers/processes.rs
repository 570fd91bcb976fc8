//! Processes of a program that was launched, by whatever launcher: who they are, and what memory they have.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

/// The processes that run `program`, of `root` and all that it started.
pub fn running(root: u32, program: &Path) -> Vec<u32> {
    let Ok(program) = program.canonicalize() else { return Vec::new() };
    let numbers = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parents: BTreeMap<u32, u32> = numbers.filter_map(|number| Some((number, parent(number)?))).collect();
    let descends = |&number: &u32| {
        let mut at = Some(number);
        // One that ended meanwhile may have given its number to another: no chain is longer than all.
        for _ in 0..=parents.len() {
            match at {
                Some(number) if number == root => return true,
                Some(number) => at = parents.get(&number).copied(),
                None => return false,
            }
        }
        false
    };
    let runs = |number: &u32| std::fs::read_link(format!("/proc/{number}/exe")).is_ok_and(|it| it == program);
    parents.keys().copied().filter(descends).filter(runs).collect()
}

fn parent(number: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    // The name before the state may hold anything.
    stat.rsplit(')').next()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// KiB of all of them: of what they share each has its part.
///
/// # Errors
/// There are none, or the system does not say.
pub fn memory_kib(processes: &[u32]) -> Result<f64> {
    if processes.is_empty() {
        bail!("it said that it stands still, and none of its processes is there");
    }
    let mut all = 0.0;
    for number in processes {
        let file = format!("/proc/{number}/smaps_rollup");
        let said = std::fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
        all += share(&said).with_context(|| format!("{file} has no Pss"))?;
    }
    Ok(all)
}

/// The proportional set size in what `smaps_rollup` says.
fn share(said: &str) -> Option<f64> {
    said.lines().find_map(|line| line.strip_prefix("Pss:")?.trim().strip_suffix("kB")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::helper::Helper;
    use std::process::{Command, Stdio};

    #[test]
    fn h6_processes_of_a_program_are_found_below_who_started_them_alone() {
        let sleep = crate::workspace::find_on_path("sleep").unwrap();
        let mut other = Helper::start(Command::new(&sleep).arg("600")).unwrap();
        let script = "sleep 600 & sleep 600 & echo; wait";
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::piped());
        let mut helper = Helper::start(&mut command).unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(helper.stdout().unwrap()), &mut line)
            .unwrap();
        // They were forked before the line; each becomes the program a little later.
        let mut found = Vec::new();
        for _ in 0..2000 {
            found = running(helper.id(), &sleep);
            if found.len() == 2 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert_eq!(found.len(), 2);
        assert!(memory_kib(&found).unwrap() > 8.0);
        assert_eq!(running(other.id(), &sleep), [other.id()]);
        assert_eq!(running(helper.id(), Path::new("/nowhere/program")), Vec::<u32>::new());
        for ended in [&mut helper, &mut other] {
            ended.group().end();
            ended.wait().unwrap();
        }
        // The shell is gone; who it started goes a little later.
        for _ in 0..2000 {
            if memory_kib(&found[..1]).is_err() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let error = memory_kib(&found).unwrap_err().to_string();
        assert_eq!(error, format!("cannot read /proc/{}/smaps_rollup", found[0]));
        assert!(memory_kib(&[]).unwrap_err().to_string().contains("none of its processes"));
    }

    #[test]
    fn h6_a_share_of_memory_is_read_where_it_is() {
        let said =
            "55d0-7ffc ---p 00000000 00:00 0   [rollup]\nRss:  1844 kB\nPss:   313 kB\nPss_Dirty: 9 kB\n";
        assert_eq!(share(said), Some(313.0));
        assert_eq!(share("Rss: 1 kB\n"), None);
    }
}
