//! Tests of the operator with Plumbline's test kit.

use example_operator::{Cache, CacheSpec, run};
use plumbline::world::Simulation::{Gc, Kubelets, Workloads};
use plumbline::world::{Explorer, World, hours, minutes};

/// Returns the number in `PLUMBLINE_RUNS`, or the usual one.
fn runs_or(usual: usize) -> usize {
    std::env::var("PLUMBLINE_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(usual)
}

// ANCHOR: life
/// A cache becomes ready although the server fails three times, stays so without further writes, and leaves nothing
/// behind.
async fn life_of_a_cache(t: &World) -> plumbline::Result {
    t.simulate([Gc, Workloads, Kubelets(1)]);
    t.define::<Cache>().await?;
    t.fault("PATCH deployments/* 500")?.times(3);
    t.run("cachefleet", run)?;
    t.create(&Cache::new("c0", CacheSpec { replicas: 2 })).await?;
    t.advance(hours(3)).await?;
    t.expect("match: { caches/c0: { status: { phase: Ready } } }, never: DELETE *")?;
    t.expect("count: { PATCH caches/c0/status 200: '<=2' }, events: [Normal Ready on caches/c0]")?;
    t.crash("cachefleet")?;
    t.delete("caches/c0").await?;
    t.advance(minutes(1)).await?;
    t.expect("exists: caches/c0")?;
    t.start("cachefleet")?;
    t.advance(minutes(1)).await?;
    t.expect("absent: [caches/c0, deployments/c0, configmaps/c0, pods/*]")
}

#[test]
fn a_cache_lives_and_dies() -> plumbline::Result {
    World::test(life_of_a_cache)
}
// ANCHOR_END: life

#[test]
fn the_story_of_a_cache() -> plumbline::Result {
    World::test(async |t| {
        life_of_a_cache(t).await?;
        insta::assert_snapshot!(t.transcript().of("cachefleet").changes(), @r"
        t=+0s       cachefleet     PATCH  caches/c0 200
                metadata: +finalizers=[example.org/cachefleet]
        t=+0s       cachefleet     PATCH  configmaps/c0 201
        t=+20s      cachefleet     PATCH  deployments/c0 201
        t=+20s      cachefleet     PATCH  caches/c0/status 200
                +status={phase: Progressing}
        t=+20s      cachefleet     POST   events 201
                Normal Progressing about Cache/c0 » 0 of 2 pods are ready
        t=+20.5s    cachefleet     PATCH  caches/c0/status 200
                status: phase Progressing→Ready
        t=+20.5s    cachefleet     POST   events 201
                Normal Ready about Cache/c0 » 2 of 2 pods are ready
        t=+10800s   harness        --     cachefleet crashes
        t=+10860s   harness        --     cachefleet starts
        t=+10860s   cachefleet     DELETE configmaps/c0 200
                removed
        t=+10860s   cachefleet     PATCH  caches/c0 200
                removed
        ");
        Ok(())
    })
}

// ANCHOR: role
/// The operator needs no more rights than it has in its manifest.
#[test]
fn the_role_is_sufficient() -> plumbline::Result {
    World::test(async |t| {
        t.simulate([Gc, Workloads, Kubelets(1)]);
        t.define::<Cache>().await?;
        t.run_as("cachefleet", include_str!("../rbac.yaml"), run).await?;
        t.create(&Cache::new("c0", CacheSpec { replicas: 2 })).await?;
        t.advance(hours(1)).await?;
        t.delete("caches/c0").await?;
        t.advance(minutes(1)).await?;
        t.expect("absent: caches/*, count: { ANY */*/* 403: 0 }")
    })
}
// ANCHOR_END: role

/// Ten caches that are due at the same instants, with their pods and a restart of the operator. `PLUMBLINE_RUNS=1000`
/// makes more runs.
#[test]
fn ten_caches_have_the_same_transcript_in_each_run() -> plumbline::Result {
    let runs = runs_or(5);
    World::builder().is_deterministic(runs, async |t| {
        t.simulate([Gc, Workloads, Kubelets(2)]);
        t.define::<Cache>().await?;
        t.run("cachefleet", run)?;
        for number in 0..10 {
            t.create(&Cache::new(&format!("c{number}"), CacheSpec { replicas: 2 })).await?;
        }
        t.advance(hours(1)).await?;
        t.restart("cachefleet")?;
        t.advance(hours(1)).await?;
        for number in 0..10 {
            t.delete(&format!("caches/c{number}")).await?;
        }
        t.advance(minutes(1)).await?;
        t.expect("absent: [caches/*, deployments/*, pods/*]")
    })
}

// ANCHOR: explore
/// A cache becomes ready and goes in spite of each fault that the test does not name. `PLUMBLINE_RUNS=5000` tries more.
#[test]
fn each_fault_is_made_up_for() -> plumbline::Result {
    let runs = runs_or(60);
    let summary = Explorer::new().runs(runs).time(minutes(30)).explore(async |t| {
        t.simulate([Gc, Workloads, Kubelets(1)]);
        t.define::<Cache>().await?;
        t.run("cachefleet", run)?;
        t.create(&Cache::new("c0", CacheSpec { replicas: 2 })).await?;
        t.create(&Cache::new("c1", CacheSpec { replicas: 1 })).await?;
        t.advance(minutes(30)).await?;
        t.expect("match: { caches/c0: { status: { phase: Ready } } }")?;
        t.delete("caches/c1").await?;
        t.advance(minutes(30)).await?;
        t.expect("absent: [caches/c1, deployments/c1, configmaps/c1]")
    })?;
    println!("{summary}");
    Ok(())
}
// ANCHOR_END: explore
