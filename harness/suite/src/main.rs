//! The `plumbline` program; see the library.

use std::process::ExitCode;

/// Objects are often freed on another thread than the one that allocated them, which is slow in glibc's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The archive of the fixtures of this version, for a program that runs outside of its clone.
static FIXTURES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/fixtures.zip"));

fn main() -> ExitCode {
    plumbline_suite::cli::helper().unwrap_or_else(|| plumbline_suite::cli::main(FIXTURES))
}
