//! The program `plumbline-controllers` of the profile of a test program.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// Returns `plumbline-controllers` in the folder of `program`; builds it if it is missing or older than its sources.
pub(crate) fn beside(program: &Path, repository: &Path) -> PathBuf {
    let program = program.with_file_name("plumbline-controllers");
    let crate_folder = repository.join("controllers");
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
