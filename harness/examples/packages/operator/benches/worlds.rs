//! The wall time of whole tests: `cargo bench --bench worlds` prints milliseconds per world. A word selects the worlds
//! whose names contain it; `PLUMBLINE_RUNS=20` sets the number of runs, for profilers.
#![expect(clippy::disallowed_methods, reason = "it measures the time of the machine")]

use std::time::Instant;

use example_operator::{Cache, CacheSpec, run};
use plumbline::world::Simulation::{Gc, Kubelets, Workloads};
use plumbline::world::{World, hours, minutes};

/// Caches are created, live for three hours, and are deleted.
async fn lives(t: &World, caches: usize) -> plumbline::Result {
    t.simulate([Gc, Workloads, Kubelets(1)]);
    t.define::<Cache>().await?;
    t.run("cachefleet", run)?;
    for number in 0..caches {
        t.create(&Cache::new(&format!("c{number}"), CacheSpec { replicas: 2 })).await?;
    }
    t.advance(hours(3)).await?;
    for number in 0..caches {
        t.delete(&format!("caches/c{number}")).await?;
    }
    t.advance(minutes(1)).await?;
    t.expect("absent: [caches/*, deployments/*, pods/*]")
}

/// Prints the median and the fastest of the runs, and the aim.
fn measure(name: &str, runs: u32, aim: f64, test: &impl AsyncFn(&World) -> plumbline::Result) -> plumbline::Result {
    let mut words = std::env::args().skip(1).filter(|word| !word.starts_with('-')).peekable();
    if words.peek().is_some() && !words.any(|word| name.contains(&word)) {
        return Ok(());
    }
    let runs = std::env::var("PLUMBLINE_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(runs);
    World::test(test)?;
    let mut times = Vec::new();
    for _ in 0..runs {
        let begin = Instant::now();
        World::test(test)?;
        times.push(begin.elapsed().as_secs_f64() * 1000.0);
    }
    times.sort_by(f64::total_cmp);
    println!("{name:<50} median {:7.3} ms, fastest {:7.3} ms, aim {aim} ms", times[times.len() / 2], times[0]);
    Ok(())
}

fn main() -> plumbline::Result {
    measure("empty world", 1000, 0.2, &async |_| Ok(()))?;
    measure("definition, operator, 1 object, 3 h, deletion", 200, 10.0, &async |t| lives(t, 1).await)?;
    measure("definition, operator, 10 objects, 3 h, deletion", 40, 60.0, &async |t| lives(t, 10).await)
}
