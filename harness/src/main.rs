//! The `plumbline` program; see the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    plumbline::cli::main().into()
}
