//! Parts that many tests share: the controllers' program, and the fixtures of the suite, read once.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use plumbline::fixture::{Fixture, parse};

use crate::controllers_program;
use crate::source_files::repository;

/// Returns the fixtures of the suite. They are read once: a debug build needs a second of processor time for that.
pub(crate) fn all_fixtures() -> &'static [Fixture] {
    static SUITE: OnceLock<Vec<Fixture>> = OnceLock::new();
    SUITE.get_or_init(|| {
        let folder = repository().join("fixtures");
        parse::load(&folder).unwrap_or_else(|problems| panic!("\n{problems}"))
    })
}

/// Returns true with `PLUMBLINE_TESTS=full`, as at night: checks that repeat themselves over hours, kills, faults or
/// shares of the fixtures then do all of them. Otherwise each does a part, so that the tests of a change take minutes.
pub(crate) fn is_full() -> bool {
    std::env::var("PLUMBLINE_TESTS").is_ok_and(|value| value == "full")
}

/// The program `plumbline`.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_plumbline");

/// Returns a command that runs the program `plumbline`.
pub(crate) fn program() -> Command {
    Command::new(PROGRAM)
}

/// The program `plumbline-controllers` of this profile, built first if it is missing or older than its sources.
pub(crate) fn controllers() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| controllers_program::beside(Path::new(PROGRAM), &repository())).clone()
}
