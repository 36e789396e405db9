//! Tests of the controller with Plumbline's test kit: it gets the server as a `tower::Service`.

use example_other_kube::run;
use kube_old::Client;
use plumbline::world::Simulation::{Gc, Workloads};
use plumbline::world::{Explorer, World, minutes, seconds};

const WEB: &str = "
apiVersion: v1
kind: Service
metadata: { name: web }
spec: { selector: { app: web }, ports: [{ port: 80 }] }
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: { name: web }
spec:
  replicas: 3
  selector: { matchLabels: { app: web } }
  template: { metadata: { labels: { app: web } }, spec: { containers: [{ name: web, image: nginx }] } }
";

/// Returns the number in `PLUMBLINE_RUNS`, or the usual one.
fn runs_or(usual: usize) -> usize {
    std::env::var("PLUMBLINE_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(usual)
}

#[test]
fn pods_are_counted_every_minute() -> plumbline::Result {
    World::test(async |t| {
        t.simulate([Gc, Workloads]);
        tokio::spawn(run(Client::new(t.service("counter")?, "default")));
        t.create(WEB).await?;
        t.advance(minutes(2)).await?;
        t.expect("match: { configmaps/web: { data: { pods: '3' } } }, never: counter DELETE *")?;
        t.patch("replicasets/web", &serde_json::json!({"spec": {"replicas": 5}})).await?;
        t.advance(seconds(61)).await?;
        t.expect("match: { configmaps/web: { data: { pods: '5' } } }")?;
        t.delete("services/web").await?;
        t.advance(seconds(1)).await?;
        t.expect("absent: [services/web, configmaps/web]")
    })
}

/// Faults, watches and lists behave as for a client of the kit.
#[test]
fn a_broken_watch_is_resumed() -> plumbline::Result {
    World::test(async |t| {
        let fault = t.fault("PATCH configmaps/* 503")?.times(2);
        tokio::spawn(run(Client::new(t.service("counter")?, "default")));
        t.advance(seconds(1)).await?;
        t.watch_fault("drop")?;
        t.create(WEB).await?;
        t.advance(minutes(1)).await?;
        assert_eq!(fault.hits(), 2);
        t.expect("count: { counter PATCH configmaps/web 201: 1 }")
    })
}

/// `PLUMBLINE_RUNS=1000` makes more runs.
#[test]
fn ten_services_have_the_same_transcript_in_each_run() -> plumbline::Result {
    let runs = runs_or(5);
    World::builder().is_deterministic(runs, async |t| {
        t.simulate([Gc, Workloads]);
        tokio::spawn(run(Client::new(t.service("counter")?, "default")));
        for number in 0..10 {
            t.create(&*WEB.replace("web", &format!("web{number}"))).await?;
        }
        t.advance(minutes(10)).await
    })
}

/// `PLUMBLINE_RUNS=5000` tries more faults. The controller does not crash: the test spawns it.
#[test]
fn each_fault_is_made_up_for() -> plumbline::Result {
    let runs = runs_or(60);
    let summary = Explorer::new().runs(runs).time(minutes(30)).explore(async |t| {
        t.simulate([Gc, Workloads]);
        tokio::spawn(run(Client::new(t.service("counter")?, "default")));
        t.create(WEB).await?;
        t.advance(minutes(30)).await?;
        t.expect("match: { configmaps/web: { data: { pods: '3' } } }")
    })?;
    println!("{summary}");
    Ok(())
}
