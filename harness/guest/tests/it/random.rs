//! Random programs of sleeps, sockets, channels and threads have the same order of events with and without a tracer.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::roles::{argument, has_role, now, role};
use super::support::run;

/// The number of threads of a program.
const WORKERS: usize = 4;

/// A way from one thread to another.
const WAYS: usize = 3;

/// An action of a thread: the thread, the slot of time at which it begins, and its kind: below `WORKERS * WAYS`, it
/// sends a byte to a thread over a way; above, it waits for one on a way for some slots.
type Action = (usize, u32, usize);

/// Any program: each slot has at most one action.
fn programs() -> impl Strategy<Value = Vec<Action>> {
    let action = prop::option::weighted(0.7, (0..WORKERS, 0..WORKERS * WAYS * 2));
    prop::collection::vec(action, 6..14).prop_map(|slots| {
        let actions = slots.into_iter().enumerate();
        actions.filter_map(|(slot, action)| action.map(|(worker, kind)| (worker, slot as u32 + 1, kind))).collect()
    })
}

fn encode(program: &[Action], slot: Duration) -> String {
    let actions = program.iter().map(|(worker, slot, kind)| format!("{worker} {slot} {kind}"));
    actions.chain([slot.as_micros().to_string()]).collect::<Vec<_>>().join(",")
}

/// The receiving ends of a thread.
struct Ends {
    channel: Receiver<u8>,
    local: UnixStream,
    network: TcpStream,
}

/// The sending ends to a thread.
struct Ways {
    channel: Mutex<Sender<u8>>,
    local: UnixStream,
    network: TcpStream,
}

fn connect() -> (Ways, Ends) {
    let (sender, channel) = channel();
    let (local, local_end) = UnixStream::pair().expect("a pair");
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a socket");
    let network = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
    let (network_end, _) = listener.accept().expect("a connection");
    (Ways { channel: Mutex::new(sender), local, network }, Ends { channel, local: local_end, network: network_end })
}

impl Ways {
    fn send(&self, way: usize) {
        match way {
            0 => self.channel.lock().expect("a lock").send(1).expect("a receiver"),
            1 => (&self.local).write_all(&[1]).expect("a peer"),
            _ => (&self.network).write_all(&[1]).expect("a peer"),
        }
    }
}

impl Ends {
    fn receive(&self, way: usize, limit: Duration) -> bool {
        let mut byte = [0];
        match way {
            0 => self.channel.recv_timeout(limit).is_ok(),
            1 => {
                self.local.set_read_timeout(Some(limit)).expect("a timeout");
                (&self.local).read(&mut byte).is_ok()
            }
            _ => {
                self.network.set_read_timeout(Some(limit)).expect("a timeout");
                (&self.network).read(&mut byte).is_ok()
            }
        }
    }
}

/// Runs a program, and prints its events and the latest that an action was.
#[test]
fn program() {
    if !has_role("program") {
        return;
    }
    let text = argument();
    let mut fields: Vec<&str> = text.split(',').collect();
    let slot = Duration::from_micros(fields.pop().and_then(|field| field.parse().ok()).expect("a slot"));
    let number = |word: &str| word.parse::<usize>().expect("a number");
    let program: Vec<Vec<usize>> = fields.iter().map(|field| field.split(' ').map(number).collect()).collect();
    let (ways, ends): (Vec<Ways>, Vec<Ends>) = (0..WORKERS).map(|_| connect()).unzip();
    let ways = Arc::new(ways);
    let events = Arc::new(Mutex::new((Vec::new(), Duration::ZERO)));
    let start = now();
    let workers = ends.into_iter().enumerate().map(|(worker, ends)| {
        let own: Vec<Vec<usize>> = program.iter().filter(|action| action[0] == worker).cloned().collect();
        let ways = Arc::clone(&ways);
        let events = Arc::clone(&events);
        std::thread::spawn(move || {
            // Each thread has a phase of its own, so that no two act at the same time.
            let point = |index: u32| slot * index + slot * worker as u32 / WORKERS as u32;
            let mut next = 1;
            for action in own {
                let index = next.max(action[1] as u32);
                std::thread::sleep(point(index).saturating_sub(start.elapsed()));
                let log = |text: &str, due: Option<Duration>| {
                    let late = due.map_or(Duration::ZERO, |due| start.elapsed().saturating_sub(due));
                    let mut events = events.lock().expect("a lock");
                    events.0.push(format!("{worker} at {} {text}", action[1]));
                    events.1 = events.1.max(late);
                };
                next = index + 1;
                let kind = action[2];
                if kind < WORKERS * WAYS {
                    log("sends", Some(point(index)));
                    ways[kind % WORKERS].send(kind / WORKERS);
                    continue;
                }
                let (kind, limit) = (kind - WORKERS * WAYS, kind as u32 % 4 + 1);
                if ends.receive(kind / WORKERS, slot * limit) {
                    log("receives", None);
                    while point(next) <= start.elapsed() {
                        next += 1;
                    }
                } else {
                    log("times out", Some(point(index + limit)));
                    next = index + limit + 1;
                }
            }
            // Others may still send.
            ends
        })
    });
    let workers: Vec<_> = workers.collect();
    let _ends: Vec<Ends> = workers.into_iter().map(|worker| worker.join().expect("an end")).collect();
    let (events, late) = &*events.lock().expect("a lock");
    println!("events {}", events.join("; "));
    println!("late {}", late.as_micros());
}

fn field<'a>(output: &'a str, name: &str) -> &'a str {
    output.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("no {name} in {output}")).trim()
}

/// The events without a tracer, unless the machine is too busy to keep the times.
fn untraced(program: &[Action]) -> Option<String> {
    // The kernel keeps timeouts of sockets to a few milliseconds only.
    for slot in [40, 160].map(Duration::from_millis) {
        let output = std::process::Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "random::program", "--nocapture", "--quiet"])
            .env("PLUMBLINE_GUEST_ROLE", "program")
            .env("PLUMBLINE_GUEST_ARGUMENT", encode(program, slot))
            .output()
            .expect("this program");
        let output = String::from_utf8_lossy(&output.stdout).into_owned();
        let late: u64 = field(&output, "late").parse().expect("a number");
        if Duration::from_micros(late) < slot / 8 {
            return Some(field(&output, "events").to_owned());
        }
    }
    None
}

#[test]
fn random_programs_have_the_same_order_of_events() {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(256_u32);
    let mut runner =
        TestRunner::new(Config { cases: cases.clamp(128, 8192) / 32, failure_persistence: None, ..Config::default() });
    let result = runner.run(&programs(), |program| {
        let traced = run(role("random::program", &encode(&program, Duration::from_mins(1))));
        let output = traced.lines().join("\n");
        prop_assert_eq!(field(&output, "late"), "0");
        if let Some(expected) = untraced(&program) {
            prop_assert_eq!(field(&output, "events"), expected);
        }
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}
