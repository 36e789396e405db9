//! Costs of virtual time: hops, waits that are woken, readings of clocks, and whole programs, as ratios to the same
//! program untraced. `cargo bench -p plumbline-guest`.
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a bench measures and prints real time")]

use std::path::Path;
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use plumbline_guest::{Guest, Outcome, Report};

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
            let ticker = async || {
                let mut ticks = tokio::time::interval(Duration::from_secs(1));
                let mut length = 0;
                for tick in 0..=3600 {
                    ticks.tick().await;
                    length += serde_json::to_vec(&[("tick", tick)]).map_or(0, |text| text.len());
                }
                length
            };
            let (one, other) = runtime.block_on(async { tokio::join!(ticker(), ticker()) });
            assert_eq!(one, other);
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
    let hours = hours(folder.path());
    // Side by side: an hour of real time, if it is asked for.
    let untraced: Vec<_> = hours
        .iter()
        .map(|(_, command)| {
            let command = command.clone();
            std::env::var_os(REAL).map(|_| std::thread::spawn(move || untraced_hour(&command)))
        })
        .collect();
    for ((name, command), untraced) in hours.iter().zip(untraced) {
        let (report, used) = traced_hour(command);
        let tracer = report.tracer_time.as_secs_f64();
        println!(
            "an hour of {name}: {:.2} s, {:.2} s of processor time and {tracer:.2} s of the tracer's, {} hops, {} waits",
            report.real_time.as_secs_f64(),
            used,
            report.hops,
            report.waits,
        );
        if let Some(untraced) = untraced.map(|hour| hour.join().expect("an hour")) {
            println!("    untraced {untraced:.2} s: {:.1} times as much traced", (used + tracer) / untraced);
        }
    }
}

/// Returns the processor time that a shell's `times` has written: of its children, in its last line.
fn processor_time(output: &str) -> f64 {
    let seconds = |text: &str| {
        let (minutes, seconds) = text.trim_end_matches('s').split_once('m')?;
        Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?)
    };
    let children = output.lines().last().unwrap_or_default();
    children.split_whitespace().filter_map(seconds).sum()
}

/// Runs an hour's command for an hour, and returns its processor time.
fn untraced_hour(command: &[String]) -> f64 {
    let output = Command::new("sh").args(["-c", TIMED]).args(command).output().expect("a shell");
    assert!(output.status.success(), "{output:?}");
    processor_time(&String::from_utf8_lossy(&output.stdout))
}

/// The same in virtual time; also returns the account of the time.
fn traced_hour(command: &[String]) -> (Report, f64) {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let guest = Guest::new("sh").args(["-c", TIMED]).args(command).stdout(file.reopen().expect("a file"));
    let outcome = guest.run().expect("a guest");
    assert!(outcome.status.success(), "{}", outcome.report);
    (outcome.report, processor_time(&std::fs::read_to_string(file.path()).expect("times")))
}

/// The environment variable with which hours are also measured untraced. It takes an hour.
const REAL: &str = "PLUMBLINE_GUEST_BENCH_REAL";

/// A script that runs its arguments and writes the processor time that they used.
const TIMED: &str = r#""$0" "$@" && times"#;

/// Programs that write some JSON each second for an hour, twice at a time, as far as this machine has their languages.
fn hours(folder: &Path) -> Vec<(&'static str, Vec<String>)> {
    const JAVA: &str = r#"class Hour { public static void main(String[] a) throws Exception {
        var pool = java.util.concurrent.Executors.newScheduledThreadPool(2);
        var ticks = new java.util.concurrent.CountDownLatch(7200);
        for (int i = 0; i < 2; i++) pool.scheduleAtFixedRate(() -> {
            if (("[[\"tick\"," + ticks.getCount() + "]]").isEmpty()) throw new IllegalStateException();
            ticks.countDown();
        }, 1, 1, java.util.concurrent.TimeUnit.SECONDS);
        ticks.await();
        System.exit(0);
    } }"#;
    const GO: &str = r#"package main
import ("encoding/json"; "sync"; "time")
func main() {
	var group sync.WaitGroup
	for range 2 {
		group.Add(1)
		go func() {
			defer group.Done()
			ticker := time.NewTicker(time.Second)
			for tick := 0; tick < 3600; tick++ {
				<-ticker.C
				if _, err := json.Marshal(map[string]int{"tick": tick}); err != nil { panic(err) }
			}
		}()
	}
	group.Wait()
}
"#;
    const PYTHON: &str = "import json, threading, time
def tick():
    for n in range(3600):
        time.sleep(1)
        json.dumps({'tick': n})
threads = [threading.Thread(target=tick) for _ in range(2)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
";
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let file = |name: &str, text: &str| {
        std::fs::write(folder.join(name), text).expect("a file");
        path(name)
    };
    let own = std::env::current_exe().expect("this program").to_string_lossy().into_owned();
    let mut hours =
        vec![("tokio", words(&["env", &format!("{ROLE}=tokio"), &own])), ("python", words(&["python3", "-c", PYTHON]))];
    let built = Command::new("go").arg("build").args(["-o", &path("hour"), &file("hour.go", GO)]).status();
    if built.is_ok_and(|status| status.success()) {
        hours.push(("go", words(&[&path("hour")])));
    }
    let compiled = Command::new("javac").args(["-d", &path(""), &file("Hour.java", JAVA)]).status();
    if compiled.is_ok_and(|status| status.success()) {
        hours.push(("java", words(&["java", "-cp", &path(""), "Hour"])));
        let flags = ["java", "-XX:-UsePerfData", "-XX:+UseSerialGC", "-cp", &path(""), "Hour"];
        hours.push(("java without performance data, serial collector", words(&flags)));
    }
    hours
}
