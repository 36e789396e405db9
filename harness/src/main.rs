//! The `plumbline` program; see the library.

use std::process::ExitCode;

use plumbline::process;

fn main() -> ExitCode {
    // Not clap's business: a guard's arguments are another program's.
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|verb| verb == process::VERB) {
        let code = process::guard(&arguments.collect::<Vec<_>>());
        return u8::try_from(code).unwrap_or(u8::MAX).into();
    }
    plumbline::cli::main().into()
}
