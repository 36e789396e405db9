//! Parts that many tests share: the controllers' program, and the fixtures of the suite, read once.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

use plumbline::fixture::{Fixture, parse};

use crate::source_files::repository;

/// Returns the fixtures of the suite. They are read once: a debug build needs a second of processor time for that.
pub(crate) fn all_fixtures() -> &'static [Fixture] {
    static SUITE: OnceLock<Vec<Fixture>> = OnceLock::new();
    SUITE.get_or_init(|| {
        let folder = repository().join("fixtures");
        parse::load(&folder).unwrap_or_else(|problems| panic!("\n{problems}"))
    })
}

/// The program `plumbline-controllers` of this profile, built first if it is missing or older than its sources.
pub(crate) fn controllers() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(build_controllers).clone()
}

fn build_controllers() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_plumbline")).with_file_name("plumbline-controllers");
    let crate_folder = repository().join("controllers");
    let built = program.metadata().and_then(|metadata| metadata.modified()).ok();
    if built.is_some_and(|built| built >= newest(&crate_folder.join("src"))) {
        return program;
    }
    let profile = program.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or("debug");
    let profile = if profile == "debug" { "dev" } else { profile };
    let words = ["build", "--locked", "--package", "plumbline-controllers", "--profile", profile];
    let status = Command::new(env!("CARGO")).args(words).current_dir(&crate_folder).status().expect("cargo starts");
    assert!(status.success(), "cargo {words:?} failed");
    program
}

/// The time of the latest change below `folder`.
fn newest(folder: &Path) -> SystemTime {
    let entries = std::fs::read_dir(folder).expect("a readable folder").map(|entry| entry.expect("an entry").path());
    let time = |path: PathBuf| {
        let changed = || path.metadata().and_then(|metadata| metadata.modified()).expect("a time");
        if path.is_dir() { newest(&path) } else { changed() }
    };
    entries.map(time).max().unwrap_or(SystemTime::UNIX_EPOCH)
}
