//! Starts, reaches and stops processes and real API servers, and checks that they are gone when the harness is killed.
//!
//! Tests whose requirements this machine lacks are skipped, with the reason in brackets. Called with `hold`, this
//! program is the harness to be killed: it starts what the remaining arguments name, prints a line, and waits. Called
//! with `k3s-stand-in`, it is the program in the container; with `etcd-stand-in`, it accepts connections as etcd does.

mod envtest;
mod found;
mod k3s;
mod kind;
mod outages;
mod process;
mod remote;
#[path = "../it/skips.rs"]
mod skips;
mod tools;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    plumbline_suite::process::use_guard(env!("CARGO_BIN_EXE_plumbline"));
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [verb, rest @ ..] = words.as_slice()
        && verb == tools::HOLD
    {
        tools::hold(rest);
        return ExitCode::SUCCESS;
    }
    if let [verb, rest @ ..] = words.as_slice()
        && verb == k3s::STAND_IN
    {
        return k3s::stand_in(rest);
    }
    if let [verb, rest @ ..] = words.as_slice()
        && verb == envtest::ETCD_STAND_IN
    {
        envtest::etcd_stand_in(rest);
        return ExitCode::SUCCESS;
    }
    let mut arguments = Arguments::from_args();
    // They mostly wait for processes and containers. The standard test programs read the variable, too.
    let threads = std::env::var("RUST_TEST_THREADS").ok().and_then(|count| count.parse().ok()).unwrap_or(1);
    arguments.test_threads = arguments.test_threads.or(Some(12.max(threads)));
    // Trials start in this order; those that wait longest are the first.
    let trials = [
        remote::trials(),
        outages::trials(),
        k3s::trials(),
        envtest::trials(),
        process::trials(),
        kind::trials(),
        found::trials(),
    ];
    let conclusion = libtest_mimic::run(&arguments, trials.into_iter().flatten().collect::<Vec<Trial>>());
    k3s::clean_up();
    conclusion.exit_code()
}
