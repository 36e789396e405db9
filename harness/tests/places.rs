//! Processes and real API servers: started, reached, stopped, and gone when the harness is killed.
//!
//! What a machine lacks is skipped, with the reason in brackets. Called with `hold`, this program is the harness that gets
//! killed: it starts what the other words say, tells, and waits.

#[path = "places/envtest.rs"]
mod envtest;
#[path = "places/process.rs"]
mod process;
#[path = "places/tools.rs"]
mod tools;

use libtest_mimic::{Arguments, Trial};

fn main() {
    plumbline::process::use_guard(env!("CARGO_BIN_EXE_plumbline"));
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [verb, rest @ ..] = words.as_slice()
        && verb == tools::HOLD
    {
        return tools::hold(rest);
    }
    let arguments = Arguments::from_args();
    let trials: Vec<Trial> = [process::trials(), envtest::trials()].into_iter().flatten().collect();
    libtest_mimic::run(&arguments, trials).exit();
}
