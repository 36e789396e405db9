//! Costs of virtual time: hops, waits that are woken, readings of clocks, and whole programs, as ratios to the same
//! program untraced. `cargo bench -p plumbline-guest`.
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a bench measures and prints real time")]

use std::path::Path;
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use plumbline_guest::{Guest, Outcome};

/// The environment variable with the role of this program as a guest.
const ROLE: &str = "PLUMBLINE_GUEST_BENCH";

/// Runs a role: the subject of a measurement.
fn subject(role: &str) {
    match role {
        "hops" => (0..20_000).for_each(|_| std::thread::sleep(Duration::from_millis(5))),
        "woken" => {
            let ((to, from_us), (to_us, from)) = (channel(), channel());
            let peer = std::thread::spawn(move || {
                while from_us.recv_timeout(Duration::from_hours(1)).is_ok() {
                    if to_us.send(()).is_err() {
                        break;
                    }
                }
            });
            for _ in 0..5_000 {
                to.send(()).expect("a peer");
                from.recv_timeout(Duration::from_hours(1)).expect("an answer");
            }
            drop(to);
            peer.join().expect("an end");
        }
        "clock" => {
            let begin = Instant::now();
            let last = (0..2_000_000).map(|_| Instant::now()).max();
            assert!(last >= Some(begin));
        }
        "busy" => {
            let mut state = 1_u64;
            for _ in 0..300_000_000_u64 {
                state = std::hint::black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
            }
            assert_ne!(state, 0);
        }
        "files" => {
            let mut bytes = [0; 16];
            for _ in 0..300_000 {
                use std::io::Read as _;
                let mut file = std::fs::File::open("/dev/zero").expect("a file");
                file.read_exact(&mut bytes).expect("bytes");
            }
        }
        "tokio" => {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            runtime.block_on(async {
                let mut ticks = tokio::time::interval(Duration::from_secs(30));
                for _ in 0..=120 {
                    ticks.tick().await;
                }
            });
        }
        role => panic!("no role {role}"),
    }
}

fn run(guest: Guest) -> Outcome {
    let outcome = guest.stdout(plumbline_guest::Stdio::Null).run().expect("a guest");
    assert!(outcome.status.success(), "{}", outcome.report);
    outcome
}

/// Returns the real seconds that a role takes traced and untraced.
fn both(role: &str) -> (Outcome, f64, f64) {
    let program = std::env::current_exe().expect("this program");
    let begin = Instant::now();
    assert!(Command::new(&program).env(ROLE, role).status().expect("this program").success());
    let untraced = begin.elapsed().as_secs_f64();
    let outcome = run(Guest::new(program).env(ROLE, role));
    let traced = outcome.report.real_time.as_secs_f64();
    (outcome, traced, untraced)
}

fn main() {
    if let Ok(role) = std::env::var(ROLE) {
        return subject(&role);
    }
    let program = std::env::current_exe().expect("this program");
    let report = run(Guest::new(program).env(ROLE, "hops")).report;
    println!(
        "a hop: {:.1} us, of which the tracer's processor time is {:.1} us ({} hops, {} proofs, {} stops)",
        report.real_time.as_secs_f64() * 1e6 / report.hops as f64,
        report.tracer_time.as_secs_f64() * 1e6 / report.hops as f64,
        report.hops,
        report.proofs,
        report.stops,
    );
    let (outcome, traced, untraced) = both("woken");
    let waits = outcome.report.waits as f64;
    println!(
        "a timed wait that is woken: {:.1} us more, of which the tracer's processor time is {:.1} us ({waits} waits)",
        (traced - untraced) * 1e6 / waits,
        outcome.report.tracer_time.as_secs_f64() * 1e6 / waits,
    );
    for role in ["clock", "busy", "files"] {
        let (_, traced, untraced) = both(role);
        println!("{role}: {:.2} times the real time of an untraced run ({untraced:.2} s)", traced / untraced);
    }
    let folder = tempfile::tempdir().expect("a folder");
    for (name, guest) in hours(folder.path()) {
        let report = run(guest).report;
        println!(
            "an hour of {name}: {:.3} s in {} hops, {:.0} us each, of which the tracer's processor time is {:.0} us",
            report.real_time.as_secs_f64(),
            report.hops,
            report.real_time.as_secs_f64() * 1e6 / report.hops as f64,
            report.tracer_time.as_secs_f64() * 1e6 / report.hops as f64,
        );
    }
}

/// Programs that do something every 30 s for an hour, as far as this machine has their languages.
fn hours(folder: &Path) -> Vec<(&'static str, Guest)> {
    const JAVA: &str = "class Hour { public static void main(String[] a) throws Exception {
        var pool = java.util.concurrent.Executors.newScheduledThreadPool(2);
        var ticks = new java.util.concurrent.CountDownLatch(120);
        pool.scheduleAtFixedRate(ticks::countDown, 30, 30, java.util.concurrent.TimeUnit.SECONDS);
        ticks.await();
        System.exit(0);
    } }";
    const GO: &str = "package main\nimport \"time\"\nfunc main() {\n\tticker := time.NewTicker(30 * time.Second)\n\t\
                      for i := 0; i < 120; i++ {\n\t\t<-ticker.C\n\t}\n}\n";
    let program = std::env::current_exe().expect("this program");
    let script = "for i in 1 2 3 4 5 6; do sleep 600; done";
    let mut hours = vec![
        ("sh", Guest::new("sh").args(["-c", script])),
        ("tokio", Guest::new(program).env(ROLE, "tokio")),
        ("python", Guest::new("python3").args(["-c", "import time\nfor _ in range(120): time.sleep(30)"])),
    ];
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).expect("a file");
        path
    };
    let built = Command::new("go").arg("build").arg("-o").arg(folder.join("hour")).arg(file("hour.go", GO)).status();
    if built.is_ok_and(|status| status.success()) {
        hours.push(("go", Guest::new(folder.join("hour"))));
    }
    if Command::new("java").arg("-version").output().is_ok() {
        let flags = ["-XX:-UsePerfData", "-XX:+UseSerialGC"];
        hours.push(("java", Guest::new("java").args(flags).arg(file("Hour.java", JAVA))));
    }
    hours
}
