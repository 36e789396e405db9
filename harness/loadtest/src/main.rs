//! The program `plumbline-loadtest`; see the library.

use std::process::ExitCode;

/// The allocator of `plumbline`, because this program serves the clusters, too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    plumbline_suite::cli::helper().unwrap_or_else(plumbline_loadtest::cli::main)
}
