//! The `plumbline` program; see the library.

use std::process::ExitCode;

use plumbline::cluster::provision::afterwards;
use plumbline::process;

/// The API server takes objects apart on one thread and drops them on another, which glibc's allocator answers with locks.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Not clap's business: the arguments of these verbs are another program's.
    let mut arguments = std::env::args_os().skip(1);
    let verb = arguments.next();
    if verb.as_ref().is_some_and(|verb| verb == process::VERB) {
        let code = process::guard(&arguments.collect::<Vec<_>>());
        return u8::try_from(code).unwrap_or(u8::MAX).into();
    }
    if verb.is_some_and(|verb| verb == afterwards::VERB) {
        return afterwards::main(&arguments.collect::<Vec<_>>()).into();
    }
    plumbline::cli::main().into()
}
