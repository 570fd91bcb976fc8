//! An emulator where Debian's packages cannot be installed: its packages, unpacked into a folder of this workspace.
//! That takes no root and changes nothing elsewhere (SPEC X-1).

use std::fs::{Permissions, create_dir_all};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::run;
use crate::progress::Voice;
use crate::workspace;

/// Starts the unpacked program with the libraries that were unpacked beside it. `NAME` stands for the program.
const START: &str = r#"#!/bin/sh
here=$(dirname "$0")
for folder in "$here"/lib/*-linux-gnu* "$here"/usr/lib/*-linux-gnu*; do
    LD_LIBRARY_PATH="$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
done
export LD_LIBRARY_PATH
exec "$here/usr/bin/NAME" -L "$here/usr/share/qemu" "$@"
"#;

/// The file of an unpacked tree that has its packages' names and versions, and is written last.
const VERSIONS: &str = "versions";

/// The folder of all unpacked programs.
pub fn home() -> PathBuf {
    workspace::target().join("pamir/host")
}

/// Where `program` starts, once it is unpacked.
pub fn find(home: &Path, program: &str) -> Option<PathBuf> {
    Some(home.join(program).join("start")).filter(|start| start.is_file())
}

/// Words that follow `head` in what `apt-get -s` says, each with what stands in the first parentheses: a package and
/// its version.
pub fn simulated<'a>(said: &'a str, head: &str) -> Vec<(&'a str, &'a str)> {
    let package = |line: &'a str| {
        let line = line.strip_prefix(head)?.strip_prefix(' ')?;
        let version = line.split_once('(').and_then(|(_, rest)| rest.split([' ', ')']).next());
        Some((line.split(' ').next()?, version.unwrap_or_default()))
    };
    said.lines().filter_map(package).collect()
}

/// The programs of Debian's that this takes; tests have others.
pub struct Debian {
    /// `apt-get`
    pub apt_get: PathBuf,
    /// `dpkg-deb`
    pub dpkg_deb: PathBuf,
}

impl Debian {
    /// Those of this machine.
    pub fn here() -> Result<Self> {
        let find = |name| workspace::find_on_path(name).with_context(|| format!("there is no {name}"));
        Ok(Self { apt_get: find("apt-get")?, dpkg_deb: find("dpkg-deb")? })
    }

    /// Fetches `package` and all that it needs and this machine lacks, and unpacks it under `home`. Returns what
    /// starts `program`. What was there before is replaced only by what is complete.
    ///
    /// # Errors
    /// What apt-get or dpkg-deb said.
    pub fn unpack(&self, program: &str, package: &str, home: &Path, voice: &Voice) -> Result<PathBuf> {
        let (place, part) = (home.join(program), home.join(format!("{program}.part")));
        let _ = std::fs::remove_dir_all(&part);
        let unpacked = self.fill(program, package, &part, &place, voice).and_then(|()| {
            let _ = std::fs::remove_dir_all(&place);
            std::fs::rename(&part, &place).with_context(|| format!("cannot make {}", place.display()))
        });
        voice.idle();
        if unpacked.is_err() {
            // What cannot be removed now is removed by the next try.
            let _ = std::fs::remove_dir_all(&part);
        }
        unpacked.map(|()| place.join("start"))
    }

    /// Fills `part`, which becomes `place`.
    fn fill(&self, program: &str, package: &str, part: &Path, place: &Path, voice: &Voice) -> Result<()> {
        if self.fetch(&[package], part, place, voice)?.is_empty() {
            bail!("apt-get takes {package} for installed, but there is no {program} on the path");
        }
        let start = part.join("start");
        std::fs::write(&start, START.replace("NAME", program))?;
        std::fs::set_permissions(&start, Permissions::from_mode(0o755))?;
        run(Command::new(&start).arg("--version")).map(drop)
    }

    /// Fetches `packages` and all that they need and this machine lacks, and unpacks them into `home/name`, with a file
    /// `versions` of all their names and versions. Returns that folder, or `/` if this machine lacks nothing.
    ///
    /// # Errors
    /// What apt-get or dpkg-deb said.
    pub fn unpack_tree(&self, name: &str, packages: &[&str], home: &Path, voice: &Voice) -> Result<PathBuf> {
        let (place, part) = (home.join(name), home.join(format!("{name}.part")));
        if place.join(VERSIONS).is_file() {
            return Ok(place);
        }
        let _ = std::fs::remove_dir_all(&part);
        let fetched = self.fetch(packages, &part, &place, voice).and_then(|versions| {
            let text: String = versions.iter().map(|(name, version)| format!("{name} {version}\n")).collect();
            std::fs::write(part.join(VERSIONS), text)?;
            if !versions.is_empty() {
                std::fs::rename(&part, &place).with_context(|| format!("cannot make {}", place.display()))?;
            }
            Ok(!versions.is_empty())
        });
        voice.idle();
        // Nothing of it is left where it was not needed, or failed.
        let _ = std::fs::remove_dir_all(&part);
        Ok(if fetched? { place } else { PathBuf::from("/") })
    }

    /// Fetches `packages` and what they need, and unpacks all into `part`, which becomes `place`. Returns the names and
    /// versions of those that this machine lacked.
    fn fetch(
        &self,
        packages: &[&str],
        part: &Path,
        place: &Path,
        voice: &Voice,
    ) -> Result<Vec<(String, String)>> {
        let [lists, cache, archives] = ["lists", "cache", "archives"].map(|folder| part.join(folder));
        for folder in [&lists, &cache, &archives] {
            create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        // Lists of its own: those of the machine may be too old to fetch by, and only root can renew them.
        let apt = |words: &[&str]| {
            let mut command = Command::new(&self.apt_get);
            command.current_dir(&archives).args(["-qq", "-o", "APT::Sandbox::User="]);
            let own = [("Dir::State::Lists", &lists), ("Dir::Cache", &cache)];
            own.iter()
                .for_each(|(name, path)| _ = command.args(["-o", &format!("{name}={}", path.display())]));
            command.args(words);
            command
        };
        voice.busy("asking apt-get for the packages there are");
        let updated = run(&mut apt(&["-o", "APT::Update::Error-Mode=any", "update"]));
        let simulate: Vec<_> = ["-s", "install", "--no-install-recommends"]
            .into_iter()
            .chain(packages.iter().copied())
            .collect();
        let said = run(&mut apt(&simulate));
        // A source that fails may be another one's.
        let said = said.map_err(|error| updated.err().unwrap_or(error))?;
        let missing = simulated(&said, "Inst");
        if missing.is_empty() {
            return Ok(Vec::new());
        }
        let names: Vec<_> = missing.iter().map(|(name, _)| *name).collect();
        voice.say(&format!("fetching and unpacking into {}: {}", place.display(), names.join(" ")));
        voice.busy(&format!("fetching {} packages", names.len()));
        let exact: Vec<_> = missing.iter().map(|(name, version)| format!("{name}={version}")).collect();
        let words: Vec<_> = std::iter::once("download").chain(exact.iter().map(String::as_str)).collect();
        run(&mut apt(&words))?;
        for archive in std::fs::read_dir(&archives)?.flatten() {
            run(Command::new(&self.dpkg_deb).arg("-x").arg(archive.path()).arg(part))?;
        }
        for folder in [lists, cache, archives] {
            std::fs::remove_dir_all(&folder).with_context(|| format!("cannot tidy {}", folder.display()))?;
        }
        Ok(missing.iter().map(|&(name, version)| (name.to_owned(), version.to_owned())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "Remv qemu-utils [1:10.0]\n\
        Inst libslirp0 (4.7.0-1 Debian:12.15/oldstable [amd64])\n\
        Inst libfdt1 [1.6.0] (1.6.1-4+b1 Debian:12.15/oldstable [amd64])\n\
        Conf libfdt1 (1.6.1-4+b1 Debian:12.15/oldstable [amd64])\n";

    #[test]
    fn x1_what_apt_get_would_do_is_read() {
        assert_eq!(simulated(SAID, "Inst"), [("libslirp0", "4.7.0-1"), ("libfdt1", "1.6.1-4+b1")]);
        assert_eq!(simulated(SAID, "Remv"), [("qemu-utils", "")]);
    }

    /// Scripts in the place of Debian's programs: an archive is a file named after its package, and `emulator` is in
    /// the one of `libfdt1`. `failing` is the word at which apt-get fails.
    fn debian(folder: &Path, failing: &str) -> Debian {
        let script = |name: &str, body: &str| {
            let path = folder.join(name);
            std::fs::write(&path, format!("#!/bin/bash\n{body}")).expect("a script");
            std::fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("a program");
            path
        };
        let apt_get = format!(
            "while [ $# -gt 0 ]; do case $1 in -qq) shift;; -o) shift 2;; *) break;; esac; done\n\
            [[ $1 =~ ^({failing})$ ]] && {{ echo \"E: $1: no route to the mirror\" >&2; exit 100; }}\n\
            case $1 in -s) printf '{SAID}';; download) shift; touch \"$@\";; esac"
        );
        let dpkg_deb = "[ ${2##*/} = libfdt1=1.6.1-4+b1 ] || exit 0\n\
            mkdir -p \"$3/usr/bin\"; f=\"$3/usr/bin/emulator\"; chmod +x \"$f\" 2>/dev/null\n\
            printf '#!/bin/sh\\necho \"$LD_LIBRARY_PATH\" \"$@\"\\n' > \"$f\"; chmod +x \"$f\"\n\
            mkdir -p \"$3/usr/lib/x-linux-gnu\"";
        Debian { apt_get: script("apt-get", &apt_get), dpkg_deb: script("dpkg-deb", dpkg_deb) }
    }

    #[test]
    fn x1_an_emulator_is_unpacked_and_started_with_its_libraries() {
        let folder = tempfile::tempdir().expect("a folder");
        let home = folder.path().join("a home");
        assert_eq!(find(&home, "emulator"), None);
        let start = debian(folder.path(), "nothing").unpack("emulator", "libfdt1", &home, &Voice::quiet());
        let start = start.expect("unpacked");
        assert_eq!(find(&home, "emulator"), Some(start.clone()));
        let said = run(Command::new(&start).args(["-smp", "2"]).env_remove("LD_LIBRARY_PATH"));
        let place = home.join("emulator");
        let place = place.display();
        assert_eq!(
            said.expect("it starts").trim(),
            format!("{place}/usr/lib/x-linux-gnu:{place}/lib/*-linux-gnu* -L {place}/usr/share/qemu -smp 2")
        );
        let left: Vec<_> = std::fs::read_dir(&home).expect("a folder").flatten().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn x1_packages_are_unpacked_as_a_tree_once_or_are_the_machines_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let home = folder.path().join("home");
        let tree = |failing: &str| {
            debian(folder.path(), failing).unpack_tree("a tree", &["x", "y"], &home, &Voice::quiet())
        };
        let error = format!("{:#}", tree("update|-s").expect_err("no mirror"));
        assert!(error.contains("E: update:") && !home.join("a tree.part").exists(), "{error}");
        let place = tree("nothing").expect("unpacked");
        assert!(place.join("usr/bin/emulator").is_file());
        let versions = std::fs::read_to_string(place.join("versions")).expect("versions");
        assert_eq!(versions, "libslirp0 4.7.0-1\nlibfdt1 1.6.1-4+b1\n");
        // Nobody is asked for what is there.
        assert_eq!(tree("update|-s").expect("it is there"), place);
        let debian = debian(folder.path(), "nothing");
        std::fs::write(&debian.apt_get, "#!/bin/sh\n").expect("a script");
        let own = debian.unpack_tree("another", &["x"], &home, &Voice::quiet()).expect("installed");
        assert_eq!((own, home.join("another.part").exists()), (PathBuf::from("/"), false));
    }

    #[test]
    fn x1_a_package_without_its_program_is_no_package_to_fetch() {
        let folder = tempfile::tempdir().expect("a folder");
        let debian = debian(folder.path(), "nothing");
        std::fs::write(&debian.apt_get, "#!/bin/sh\n").expect("a script");
        let unpacked = debian.unpack("emulator", "libfdt1", folder.path(), &Voice::quiet());
        let error = format!("{:#}", unpacked.expect_err("nothing to unpack"));
        assert!(error.contains("takes libfdt1 for installed"), "{error}");
    }

    #[test]
    fn x1_nothing_half_unpacked_is_taken_for_an_emulator() {
        for (failing, why) in [("update|-s", "E: update:"), ("-s", "E: -s:"), ("download", "E: download:")] {
            let folder = tempfile::tempdir().expect("a folder");
            let unpacked =
                debian(folder.path(), failing).unpack("emulator", "libfdt1", folder.path(), &Voice::quiet());
            let error = format!("{:#}", unpacked.expect_err("no mirror"));
            assert!(error.contains(why), "{failing}: {error}");
            assert_eq!(find(folder.path(), "emulator"), None);
            assert!(!folder.path().join("emulator.part").exists());
        }
    }
}
