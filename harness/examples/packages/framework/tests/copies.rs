//! Tests of the controller with Plumbline's test kit.

use example_framework::run;
use plumbline::world::Simulation::Namespaces;
use plumbline::world::{Explorer, World, hours, minutes, seconds};
use serde_json::{Value, json};

const NAMESPACE: &str = "{apiVersion: v1, kind: Namespace, metadata: {name: backup}}";

fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": {"copy": ""}},
        "stringData": {"key": "value"}})
}

/// Returns the number in `PLUMBLINE_RUNS`, or the usual one.
fn runs_or(usual: usize) -> usize {
    std::env::var("PLUMBLINE_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(usual)
}

#[test]
fn a_secret_is_copied_and_its_copy_removed_with_it() -> plumbline::Result {
    World::test(async |t| {
        t.create(NAMESPACE).await?;
        t.run("copier", run)?;
        t.create(&secret("a")).await?;
        t.create("{apiVersion: v1, kind: Secret, metadata: {name: other}}").await?;
        t.advance(seconds(1)).await?;
        t.expect("exists: backup:secrets/default.a, absent: backup:secrets/default.other")?;
        // The framework looks again after 40 to 60 minutes.
        t.quiet_for(minutes(39)).await?;
        t.advance(hours(2)).await?;
        t.expect("count: { PATCH backup:secrets/default.a 200: 2..5 }")?;
        t.delete("secrets/a").await?;
        t.advance(seconds(1)).await?;
        t.expect("absent: [secrets/a, backup:secrets/default.a]")
    })
}

/// Its back-off is random between a half and the whole of 2, 4, 8 … seconds; an Event says why it does not get on.
#[test]
fn a_missing_namespace_is_reported_and_made_up_for() -> plumbline::Result {
    World::test(async |t| {
        t.simulate([Namespaces]);
        t.run("copier", run)?;
        t.create(&secret("a")).await?;
        t.advance(minutes(1)).await?;
        t.expect("absent: backup:secrets/*, events: [Warning ReconcileFailed on secrets/a]")?;
        t.create(NAMESPACE).await?;
        t.advance(minutes(3)).await?;
        t.expect("exists: backup:secrets/default.a")
    })
}

/// The framework draws times from the crate `rand`, so that runs are equal only with the same random numbers.
/// `PLUMBLINE_RUNS=1000` makes more runs.
#[test]
fn ten_secrets_have_the_same_transcript_in_each_run_with_seeded_random_numbers() -> plumbline::Result {
    plumbline_entropy::seed(7);
    let runs = runs_or(5);
    World::builder().is_deterministic(runs, async |t| {
        t.create(NAMESPACE).await?;
        t.run("copier", run)?;
        for number in 0..10 {
            t.create(&secret(&format!("s{number}"))).await?;
        }
        t.advance(hours(6)).await
    })
}

/// `PLUMBLINE_RUNS=5000` tries more faults.
#[test]
fn each_fault_is_made_up_for() -> plumbline::Result {
    plumbline_entropy::seed(7);
    let runs = runs_or(60);
    let summary = Explorer::new().runs(runs).time(minutes(30)).explore(async |t| {
        t.create(NAMESPACE).await?;
        t.run("copier", run)?;
        t.create(&secret("a")).await?;
        t.create(&secret("b")).await?;
        t.advance(minutes(30)).await?;
        t.expect("exists: [backup:secrets/default.a, backup:secrets/default.b]")?;
        t.delete("secrets/b").await?;
        t.advance(minutes(30)).await?;
        t.expect("absent: [secrets/b, backup:secrets/default.b]")
    })?;
    println!("{summary}");
    Ok(())
}
