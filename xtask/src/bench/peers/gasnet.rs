//! GASNet-EX, built from its source, which a crate has as it is in its repository: with no `configure` yet. What makes that, GNU
//! autoconf and automake, is unpacked from Debian's packages where this machine lacks it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::obtain::{Folders, home, run};
use crate::progress::Voice;
use crate::{setup, workspace};

const AUTOTOOLS: [&str; 3] = ["autoconf", "automake", "m4"];

/// Processes of one machine over memory that they share, each of one thread; all else is left out.
const CONFIGURATION: [&str; 11] = [
    "--enable-smp",
    "--enable-pshm",
    "--enable-seq",
    "--disable-par",
    "--disable-parsync",
    "--disable-udp",
    "--disable-mpi",
    "--disable-ibv",
    "--disable-ucx",
    "--disable-ofi",
    "--disable-aries",
];

/// Builds it under [`home`], unless it is there.
///
/// # Errors
/// What could not be had, or built.
pub fn build(crate_name: &str, version: &str, voice: &Voice) -> Result<(Folders, String)> {
    let (place, part) = (home().join("gasnet"), home().join("gasnet.part"));
    if !place.is_dir() {
        let _ = std::fs::remove_dir_all(&part);
        let built = fill(&part, crate_name, version, voice).and_then(|built| {
            std::fs::rename(&built, &place).with_context(|| format!("cannot make {}", place.display()))
        });
        // What cannot be removed now is removed by the next try.
        let _ = std::fs::remove_dir_all(&part);
        built?;
    }
    let include = place.join("include");
    let header = std::fs::read_to_string(include.join("gasnet_config.h")).unwrap_or_default();
    let release = release(&header).unwrap_or("of an unknown release");
    let version = format!("{release}, smp conduit, built from the crate {crate_name} {version}");
    Ok((
        Folders { bin: place.join("bin"), libraries: vec![place.join("lib")], include, prefix: place },
        version,
    ))
}

/// The release that a configured header has.
fn release(header: &str) -> Option<&str> {
    header.lines().find_map(|line| line.strip_prefix("#define GASNETI_RELEASE_VERSION "))
}

/// Does it all below `part`; returns the folder that is to stay.
fn fill(part: &Path, crate_name: &str, version: &str, voice: &Voice) -> Result<PathBuf> {
    voice.busy(&format!("fetching the crate {crate_name}"));
    let make_folder = |folder: &Path| {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
    };
    make_folder(&part.join("src"))?;
    let manifest = format!(
        "[package]\nname = \"fetch\"\nedition = \"2024\"\n[dependencies]\n{crate_name} = \"={version}\"\n[workspace]\n"
    );
    std::fs::write(part.join("Cargo.toml"), manifest)?;
    std::fs::write(part.join("src/lib.rs"), "")?;
    run(workspace::cargo().args(["vendor", "--quiet", "crates"]).current_dir(part))?;
    let source = part.join("crates").join(crate_name).join("gasnet");
    let tools = part.join("autotools");
    let unpacked = setup::tree("autotools", &AUTOTOOLS, voice)?;
    if unpacked != Path::new("/") {
        run(Command::new("cp").arg("-a").arg(&unpacked).arg(&tools))?;
        settle(&tools)?;
    }
    let mut path = tools.join("usr/bin").into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let libraries = tools.join("usr/lib").join(format!("{}-linux-gnu", std::env::consts::ARCH));
    let command = |program: &str, folder: &Path| {
        let mut command = Command::new(program);
        command.current_dir(folder).env("PATH", &path).env("LD_LIBRARY_PATH", &libraries);
        command
    };
    voice.busy("GASNet-EX: making its configure");
    run(command("sh", &source).arg("./Bootstrap"))?;
    voice.busy("GASNet-EX: configure, which takes a minute or some");
    let (build, install) = (part.join("build"), part.join("install"));
    make_folder(&build)?;
    let mut configure = command("sh", &build);
    configure
        .arg(source.join("configure"))
        .args(CONFIGURATION)
        .arg(format!("--prefix={}", install.display()));
    run(&mut configure)?;
    voice.busy("GASNet-EX: make");
    run(command("make", &build).args(["-C", "smp-conduit", "seq"]))?;
    run(command("make", &build).arg("install"))?;
    Ok(install)
}

/// Makes programs that were unpacked into `root` look there for what was unpacked with them, and gives those the names without a
/// version that Debian gives them when they are installed.
fn settle(root: &Path) -> Result<()> {
    let below = |folder: &str| {
        let entries = std::fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect::<Vec<_>>()
    };
    let (programs, shared) = (below("usr/bin"), below("usr/share"));
    let automakes = shared.iter().filter(|name| name.starts_with("automake-"));
    let automakes: Vec<_> = automakes.map(|name| format!("/usr/share/{name}")).collect();
    let parts =
        ["share/autoconf", "share/aclocal", "bin/autoconf", "bin/autoheader", "bin/autom4te", "bin/m4"];
    let parts = parts.map(|part| format!("/usr/{part}"));
    let moved: Vec<_> =
        parts.iter().chain(&automakes).filter(|part| root.join(&part[1..]).exists()).collect();
    let files = programs.iter().map(|name| format!("usr/bin/{name}"));
    let files = files.chain(["usr/share/autoconf/autom4te.cfg".to_owned()]);
    let files = files.chain(automakes.iter().map(|folder| format!("{}/Automake/Config.pm", &folder[1..])));
    for file in files.map(|file| root.join(file)) {
        // What is no text has no such paths that matter; a part that is the machine's own has none here.
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        let settled = moved
            .iter()
            .fold(text, |text, part| text.replace(part.as_str(), &format!("{}{part}", root.display())));
        std::fs::write(&file, settled).with_context(|| format!("cannot write {}", file.display()))?;
    }
    for name in &programs {
        if let Some((plain, version)) = name.split_once('-')
            && version.starts_with(|first: char| first.is_ascii_digit())
        {
            std::os::unix::fs::symlink(name, root.join("usr/bin").join(plain))
                .with_context(|| format!("cannot name {name} {plain}"))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h6_unpacked_autotools_look_where_they_lie_and_not_for_what_was_not_unpacked() {
        let root = tempfile::tempdir().unwrap();
        let (bin, share) = (root.path().join("usr/bin"), root.path().join("usr/share"));
        for folder in [&bin, &share.join("autoconf"), &share.join("automake-1.16/Automake")] {
            std::fs::create_dir_all(folder).unwrap();
        }
        let config = share.join("automake-1.16/Automake/Config.pm");
        std::fs::write(&config, "libdir => '/usr/share/automake-1.16'").unwrap();
        std::fs::write(share.join("autoconf/autom4te.cfg"), "--prepend-include '/usr/share/autoconf'")
            .unwrap();
        std::fs::write(bin.join("autom4te"), "#!/usr/bin/perl\n/usr/share/autoconf /usr/bin/m4").unwrap();
        std::fs::write(bin.join("aclocal-1.16"), [0xff, 0xfe]).unwrap();
        settle(root.path()).unwrap();
        let (read, at) = (|file| std::fs::read_to_string(file).unwrap(), root.path().display());
        assert_eq!(read(config), format!("libdir => '{at}/usr/share/automake-1.16'"));
        let include = format!("--prepend-include '{at}/usr/share/autoconf'");
        assert_eq!(read(share.join("autoconf/autom4te.cfg")), include);
        // This m4 is the machine's.
        let program = format!("#!/usr/bin/perl\n{at}/usr/share/autoconf /usr/bin/m4");
        assert_eq!(read(bin.join("autom4te")), program);
        assert_eq!(std::fs::read(bin.join("aclocal")).unwrap(), [0xff, 0xfe]);
    }

    #[test]
    fn h6_a_release_is_in_the_configured_header() {
        let header = "#define GASNET_VERSION 1\n#define GASNETI_RELEASE_VERSION 2021.3.0\n";
        assert_eq!(release(header), Some("2021.3.0"));
        assert_eq!(release("#define PACKAGE \"x\"\n"), None);
    }
}
