//! Tests of the operator with Plumbline's test kit. It is on kube 3, so it gets the server as a `tower::Service`.

use example_kaniop::run;
use kaniop_backup_core::crd::{KanidmBackupRepository, KanidmBackupSchedule};
use kaniop_operator::kanidm::crd::Kanidm;
use kube::{Client, CustomResourceExt as _};
use plumbline::world::Simulation::{Gc, Kubelets, Workloads};
use plumbline::world::{World, WorldBuilder, minutes, seconds};
use serde_json::json;

const IDM: &str = "
apiVersion: kaniop.rs/v1beta1
kind: Kanidm
metadata: { name: idm }
spec:
  domain: idm.example.org
  replicaGroups: [{ name: default, replicas: 1 }]
  ingress: { annotations: { example.org/class: internal } }
";

/// Returns settings for the operator: it waits for signals, has hash maps, and writes the system's time.
fn world() -> WorldBuilder {
    plumbline_entropy::seed(7);
    plumbline_entropy::follow(plumbline::time::time_of_day);
    World::builder().io()
}

/// Starts the operator in a cluster that has its definitions.
async fn start(t: &World) -> plumbline::Result {
    t.simulate([Gc, Workloads, Kubelets(1)]);
    for definition in [Kanidm::crd(), KanidmBackupSchedule::crd(), KanidmBackupRepository::crd()] {
        t.create(&json!(definition)).await?;
    }
    tokio::spawn(run(Client::new(t.service("kaniop")?, "default")));
    t.advance(seconds(1)).await
}

/// The pods run, but `kanidmd` cannot be executed in them, so the operator never has its passwords: it reports this and
/// tries again.
#[test]
fn a_kanidm_becomes_available() -> plumbline::Result {
    world().test(async |t| {
        start(t).await?;
        t.create(IDM).await?;
        t.advance(minutes(2)).await?;
        t.expect("exists: [statefulsets/idm-default, services/idm, ingresses/idm], never: DELETE *")?;
        t.expect("condition: { kanidms/idm: [Available=True:ReplicaReady, Initialized=False:AdminSecretNotExists] }")
    })
}

/// It creates each of its objects once, and leaves nothing behind.
#[test]
fn a_kanidm_lives_and_dies() -> plumbline::Result {
    world().test(async |t| {
        start(t).await?;
        t.create(IDM).await?;
        t.advance(minutes(2)).await?;
        t.expect("count: { kaniop PATCH statefulsets/idm-default 201: 1, kaniop PATCH ingresses/idm 201: 1 }")?;
        t.delete("kanidms/idm").await?;
        t.advance(minutes(2)).await?;
        t.expect("absent: [kanidms/idm, statefulsets/*, services/idm, ingresses/*, pods/*]")
    })
}

/// The server refuses stateful sets at first, and the definition's rules refuse a domain that is none.
#[test]
fn refusals_are_made_up_for() -> plumbline::Result {
    world().test(async |t| {
        let fault = t.fault("PATCH statefulsets/* 500")?.times(3);
        start(t).await?;
        let error = t.create(&*IDM.replace("idm.example.org", "'-'")).await.expect_err("a rule of the definition");
        assert!(error.to_string().contains("Domain must be a valid DNS name"), "{error}");
        t.create(IDM).await?;
        t.advance(minutes(10)).await?;
        assert_eq!(fault.hits(), 3);
        t.expect("condition: { kanidms/idm: Available=True:ReplicaReady }")?;
        let error = t.patch("kanidms/idm", &json!({"spec": {"domain": "other.org"}})).await.expect_err("immutable");
        assert!(error.to_string().contains("Domain cannot be changed"), "{error}");
        Ok(())
    })
}

/// `PLUMBLINE_RUNS=1000` makes more runs.
#[test]
fn ten_kanidms_have_the_same_transcript_in_each_run() -> plumbline::Result {
    let runs = std::env::var("PLUMBLINE_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(3);
    world().is_deterministic(runs, async |t| {
        start(t).await?;
        for number in 0..10 {
            t.create(&*IDM.replace("name: idm }", &format!("name: idm{number} }}"))).await?;
        }
        t.advance(seconds(30)).await
    })
}
