//! The `plumbline` program; see the library.

use std::process::ExitCode;

use include_dir::{Dir, include_dir};
use plumbline_suite::cluster::provision;
use plumbline_suite::process::{self, crash_cleanup};

/// Objects are often freed on another thread than the one that allocated them, which is slow in glibc's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The fixtures of this version, for a program that runs outside of its clone.
static FIXTURES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../fixtures");

fn main() -> ExitCode {
    // Hidden verbs bypass clap: their arguments belong to another program.
    let mut arguments = std::env::args_os().skip(1);
    let verb = arguments.next();
    if verb.as_ref().is_some_and(|verb| verb == process::VERB) {
        let code = process::guard(&arguments.collect::<Vec<_>>());
        return u8::try_from(code).unwrap_or(u8::MAX).into();
    }
    if verb.is_some_and(|verb| verb == crash_cleanup::VERB) {
        return crash_cleanup::main(&arguments.collect::<Vec<_>>(), provision::remove_containers).into();
    }
    plumbline_suite::cli::main(&FIXTURES).into()
}
