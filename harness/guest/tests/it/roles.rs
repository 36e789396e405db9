//! This program as a guest: each test here does nothing unless the environment gives it the role.

use std::time::Duration;

use plumbline_guest::Guest;

use super::support::epoch;

const ROLE: &str = "PLUMBLINE_GUEST_ROLE";

/// A guest of this program in a role: the path of a test. Its argument is in `PLUMBLINE_GUEST_ARGUMENT`.
pub(crate) fn role(name: &str, argument: &str) -> Guest {
    let program = std::env::current_exe().expect("this program");
    Guest::new(program)
        .args(["--exact", name, "--nocapture", "--quiet"])
        .env(ROLE, name.rsplit("::").next().unwrap_or(name))
        .env("PLUMBLINE_GUEST_ARGUMENT", argument)
        .epoch(epoch())
}

/// The same program in a role, untraced.
pub(crate) fn untraced_role(name: &str) -> std::process::Command {
    let mut command = std::process::Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", name, "--nocapture", "--quiet"]).env(ROLE, name.rsplit("::").next().unwrap_or(name));
    command
}

/// Returns true if this process is a guest with the role.
pub(crate) fn has_role(name: &str) -> bool {
    std::env::var(ROLE).is_ok_and(|role| role == name)
}

/// The argument of the role.
pub(crate) fn argument() -> String {
    std::env::var("PLUMBLINE_GUEST_ARGUMENT").expect("an argument")
}

/// Reads the clock.
#[expect(clippy::disallowed_methods, reason = "the clock of the guest is what is tested")]
pub(crate) fn now() -> std::time::Instant {
    std::time::Instant::now()
}

/// Threads wait for each other and for times; prints the virtual milliseconds.
#[test]
fn threads() {
    if !has_role("threads") {
        return;
    }
    let start = now();
    let workers: Vec<_> = (1..=argument().parse().expect("a number"))
        .map(|index| {
            std::thread::spawn(move || {
                for _ in 0..10 {
                    std::thread::sleep(Duration::from_millis(100 * index));
                }
                start.elapsed().as_millis()
            })
        })
        .collect();
    for worker in workers {
        println!("at {}", worker.join().expect("an end"));
    }
}

/// Waits for a condition with a timeout, and for a channel.
#[test]
fn conditions() {
    if !has_role("conditions") {
        return;
    }
    let start = now();
    let (send, receive) = std::sync::mpsc::channel();
    let sender = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(20));
        send.send(()).expect("received");
    });
    println!("{:?} {}", receive.recv_timeout(Duration::from_secs(5)), start.elapsed().as_millis());
    println!("{:?} {}", receive.recv_timeout(Duration::from_mins(1)), start.elapsed().as_millis());
    sender.join().expect("an end");
    std::thread::park_timeout(Duration::from_secs(100));
    println!("{}", start.elapsed().as_millis());
}

/// Moves its own time over the time socket.
#[test]
fn orders() {
    if !has_role("orders") {
        return;
    }
    let mut clock = plumbline_guest::Clock::from_env().expect("a clock");
    let before = clock.now().expect("a reading");
    let start = now();
    let after = clock.advance(Duration::from_hours(1)).expect("a reading");
    println!("{} {}", (after.elapsed_ns - before.elapsed_ns) / 1_000_000, start.elapsed().as_millis());
    let settled = clock.settle().expect("a reading");
    println!("{}", settled.elapsed_ns - after.elapsed_ns);
}
