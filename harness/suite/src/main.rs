//! The `plumbline` program; see the library.

use std::process::ExitCode;

use include_dir::{Dir, include_dir};

/// Objects are often freed on another thread than the one that allocated them, which is slow in glibc's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The fixtures of this version, for a program that runs outside of its clone.
static FIXTURES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/fixtures");

fn main() -> ExitCode {
    plumbline_suite::cli::helper().unwrap_or_else(|| plumbline_suite::cli::main(&FIXTURES))
}
