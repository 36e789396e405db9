//! An operator with mistakes that operators have, and the oracles that find them.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, DynamicObject, ObjectMeta, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Client, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::json;

use super::*;
use crate::world::seconds;

/// A mistake of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    None,
    /// The conflict of an update ends the work.
    DropsConflicts,
    /// An object that is being deleted, and has not its finalizer any more, gets a new bucket.
    IgnoresDeletion,
    /// Failures are tried again after 25 milliseconds.
    RetriesAtOnce,
    /// Entries that left the spec are removed if memory knows them.
    KeysByMemory,
    /// A bucket that is gone already cannot be deleted.
    MissingIsError,
    /// The observed generation is written before the work, and work that was observed is done.
    ObservesFirst,
    /// The finalizer is added after what it is to remove.
    HoldsLast,
    /// A site is given up after three failures in a row.
    GivesUp,
    /// The list of finalizers is written as the cache has it, over later changes.
    HoldersByCache,
}

const FINALIZER: &str = "example.org/site";
const FOREIGN: &str = "example.com/other";

struct Operator {
    client: Client,
    mistake: Mistake,
    /// The keys of the entries that were written last.
    written: Mutex<BTreeMap<String, BTreeSet<String>>>,
    /// Failures in a row, by site.
    failures: Mutex<BTreeMap<String, u32>>,
}

fn site_type() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("example.org", "v1", "Site"), "sites")
}

fn sites(client: &Client) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), "default", &site_type())
}

impl Operator {
    async fn reconcile(&self, site: &DynamicObject) -> Result<(), kube::Error> {
        let buckets: Api<ConfigMap> = Api::namespaced(self.client.clone(), "buckets");
        let name = site.name_any();
        let is_deleted = site.metadata.deletion_timestamp.is_some();
        let is_held = site.finalizers().iter().any(|finalizer| finalizer == FINALIZER);
        if is_deleted && (is_held || self.mistake != Mistake::IgnoresDeletion) {
            if is_held {
                match buckets.delete(&name, &DeleteParams::default()).await {
                    Err(kube::Error::Api(status)) if status.code == 404 && self.mistake != Mistake::MissingIsError => {}
                    Err(error) => return Err(error),
                    Ok(_) => {}
                }
                let mut kept = site.finalizers().to_vec();
                kept.retain(|finalizer| finalizer != FINALIZER);
                match self.set_finalizers(site, &kept).await {
                    // It has gone.
                    Err(kube::Error::Api(status)) if status.code == 404 => {}
                    done => done?,
                }
            }
            return Ok(());
        }
        let observed = site.data["status"]["observedGeneration"].as_i64();
        let is_new = observed != site.metadata.generation;
        if !is_held && !is_deleted && self.mistake != Mistake::HoldsLast {
            self.hold(site).await?;
        }
        if self.mistake == Mistake::ObservesFirst && !is_deleted {
            if !is_new {
                return Ok(());
            }
            self.set_status(site).await?;
        }
        let wanted: BTreeMap<String, String> =
            serde_json::from_value(site.data["spec"]["entries"].clone()).unwrap_or_default();
        if !is_deleted && !self.write_data(site, &wanted).await? {
            return Ok(());
        }
        if buckets.get_opt(&name).await?.is_none() {
            let bucket = json!({"metadata": {"name": name, "labels": {"site": name}}});
            buckets.create(&PostParams::default(), &serde_json::from_value(bucket).expect("a ConfigMap")).await?;
        }
        if !is_held && !is_deleted && self.mistake == Mistake::HoldsLast {
            self.hold(site).await?;
        }
        if is_new && !is_deleted {
            self.set_status(site).await?;
        }
        Ok(())
    }

    async fn hold(&self, site: &DynamicObject) -> Result<(), kube::Error> {
        let mut all = site.finalizers().to_vec();
        all.push(FINALIZER.to_owned());
        self.set_finalizers(site, &all).await
    }

    /// Returns what to do with a site after a failure.
    fn after_failure(&self, site: &DynamicObject) -> Action {
        let pause = if self.mistake == Mistake::RetriesAtOnce { Duration::from_millis(25) } else { seconds(20) };
        let mut failures = self.failures.lock();
        let count = failures.entry(site.name_any()).or_default();
        *count += 1;
        if self.mistake == Mistake::GivesUp && *count >= 3 { Action::await_change() } else { Action::requeue(pause) }
    }

    async fn set_status(&self, site: &DynamicObject) -> Result<(), kube::Error> {
        let status = json!({"status": {"observedGeneration": site.metadata.generation}});
        sites(&self.client)
            .patch_status(&site.name_any(), &PatchParams::default(), &Patch::Merge(status))
            .await
            .map(drop)
    }

    async fn set_finalizers(&self, site: &DynamicObject, finalizers: &[String]) -> Result<(), kube::Error> {
        let mut metadata = json!({"finalizers": finalizers});
        if self.mistake != Mistake::HoldersByCache {
            metadata["resourceVersion"] = json!(site.metadata.resource_version);
        }
        let patch = Patch::Merge(json!({"metadata": metadata}));
        sites(&self.client).patch(&site.name_any(), &PatchParams::default(), &patch).await.map(drop)
    }

    /// Writes the data of a site; returns false if the work ends there.
    async fn write_data(&self, site: &DynamicObject, wanted: &BTreeMap<String, String>) -> Result<bool, kube::Error> {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), "default");
        let name = format!("{}-data", site.name_any());
        let Some(mut found) = maps.get_opt(&name).await? else {
            let owner =
                json!({"apiVersion": "example.org/v1", "kind": "Site", "name": site.name_any(), "uid": site.uid()});
            let metadata: ObjectMeta =
                serde_json::from_value(json!({"name": name, "ownerReferences": [owner]})).expect("the metadata");
            let map = ConfigMap { metadata, data: Some(wanted.clone()), ..ConfigMap::default() };
            maps.create(&PostParams::default(), &map).await?;
            self.written.lock().insert(name, wanted.keys().cloned().collect());
            return Ok(true);
        };
        if self.mistake == Mistake::KeysByMemory {
            let known = self.written.lock().insert(name.clone(), wanted.keys().cloned().collect()).unwrap_or_default();
            let data = found.data.unwrap_or_default();
            let mut changes = serde_json::Map::new();
            for (key, value) in wanted.iter().filter(|(key, value)| data.get(*key) != Some(*value)) {
                changes.insert(key.clone(), json!(value));
            }
            for key in known.iter().filter(|key| !wanted.contains_key(*key)) {
                changes.insert(key.clone(), json!(null));
            }
            if !changes.is_empty() {
                let patch = Patch::Merge(json!({"data": changes}));
                maps.patch(&name, &PatchParams::default(), &patch).await?;
            }
            return Ok(true);
        }
        if found.data.clone().unwrap_or_default() == *wanted {
            return Ok(true);
        }
        found.data = Some(wanted.clone());
        match maps.replace(&name, &PostParams::default(), &found).await {
            Err(kube::Error::Api(status)) if status.code == 409 && self.mistake == Mistake::DropsConflicts => Ok(false),
            done => done.map(|_| true),
        }
    }
}

async fn operate(client: Client, mistake: Mistake) {
    use futures::StreamExt as _;
    let operator = Operator { client: client.clone(), mistake, written: Mutex::default(), failures: Mutex::default() };
    let reconcile = |site: Arc<DynamicObject>, operator: Arc<Operator>| async move {
        operator.reconcile(&site).await?;
        operator.failures.lock().remove(&site.name_any());
        Ok(Action::await_change())
    };
    let controller = Controller::new_with(sites(&client), watcher::Config::default(), site_type())
        .owns(Api::<ConfigMap>::namespaced(client, "default"), watcher::Config::default());
    controller
        .run(reconcile, |site, _: &kube::Error, operator| operator.after_failure(&site), Arc::new(operator))
        .for_each(|_| async {})
        .await;
}

const SITES: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: sites.example.org }
spec:
  group: example.org
  scope: Namespaced
  names: { plural: sites, kind: Site }
  versions:
  - name: v1
    served: true
    storage: true
    subresources: { status: {} }
    schema: { openAPIV3Schema: { type: object, x-kubernetes-preserve-unknown-fields: true } }
---
apiVersion: v1
kind: Namespace
metadata: { name: buckets }
";

fn site(name: &str, entries: &serde_json::Value) -> serde_json::Value {
    json!({"apiVersion": "example.org/v1", "kind": "Site", "metadata": {"name": name}, "spec": {"entries": entries}})
}

/// Gives a site entries, changes them twice, and deletes another one that somebody else holds for a minute.
async fn history_of_sites(t: &World, mistake: Mistake) -> Result {
    t.simulate([crate::world::Simulation::Gc]);
    t.create(SITES).await?;
    t.run("sites", move |client| operate(client, mistake))?;
    t.create(&site("a", &json!({"x": "1", "y": "1"}))).await?;
    t.advance(seconds(60)).await?;
    t.patch("sites/a", &json!({"spec": {"entries": {"x": "2", "y": null}}})).await?;
    t.create(&site("b", &json!({"z": "1"}))).await?;
    t.advance(seconds(60)).await?;
    hold(t, true).await?;
    t.delete("sites/b").await?;
    t.advance(seconds(60)).await?;
    hold(t, false).await?;
    t.patch("sites/a", &json!({"spec": {"entries": {"x": "3"}}})).await?;
    t.advance(seconds(60)).await
}

/// Adds another client's finalizer to the site b, or takes it away.
async fn hold(t: &World, is_held: bool) -> Result {
    let Some(mut site) = sites(&t.client()).get_opt("b").await? else { return Ok(()) };
    let all = site.finalizers_mut();
    if is_held {
        all.push(FOREIGN.to_owned());
    } else {
        all.retain(|finalizer| finalizer != FOREIGN);
    }
    sites(&t.client()).replace("b", &PostParams::default(), &site).await?;
    Ok(())
}

#[test]
fn the_operator_without_a_mistake_has_no_finding() {
    let summary = Explorer::new().runs(25).explore(async |t| history_of_sites(t, Mistake::None).await);
    assert_eq!(summary.expect("no finding").tried, 25);
}

/// The last change of the test brings what was dropped: only the beginning shows that it is missing.
#[test]
fn a_mistake_that_a_later_step_mends_is_found() {
    let replay = |plan: &str, mistake: Mistake| {
        let found = Explorer::new().replay(plan, async |t| history_of_sites(t, mistake).await);
        found.err().map(|error| error.to_string()).unwrap_or_default()
    };
    let plan = "409@PUT:configmaps/a-data#1";
    assert_eq!(replay(plan, Mistake::DropsConflicts), "");
    let beginning = format!("{plan}~2");
    assert_eq!(replay(&beginning, Mistake::None), "");
    let found = replay(&beginning, Mistake::DropsConflicts);
    assert!(found.starts_with("end state · configmaps · data.x"), "{found}");
    let explored = Explorer::new().runs(150).explore(async |t| history_of_sites(t, Mistake::DropsConflicts).await);
    let text = explored.expect_err("a finding").to_string();
    assert!(text.contains("before a later step of the test hides it; repeat it with"), "{text}");
    assert!(text.contains("~2\", test)"), "{text}");
}

#[test]
fn objects_in_other_namespaces_are_left() {
    let explored = Explorer::new().runs(1).explore(async |t| history_of_sites(t, Mistake::IgnoresDeletion).await);
    let text = explored.expect_err("a finding").to_string();
    assert!(text.contains("configmaps/b is left: it was made for sites/b, which is deleted"), "{text}");
}

#[test]
fn failures_that_are_repeated_without_a_pause_are_a_storm() {
    let explored = Explorer::new().runs(5).explore(async |t| history_of_sites(t, Mistake::RetriesAtOnce).await);
    let text = explored.expect_err("a finding").to_string();
    assert!(text.contains("✗ storm · sites · patch") && text.contains("the 21th within a second"), "{text}");
}

#[rstest::rstest]
#[case::keys_by_memory("409@PATCH:configmaps/a-data#1", Mistake::KeysByMemory, "end state · configmaps · data.y")]
#[case::missing_is_error("504-applied@DELETE:buckets:configmaps/b#1", Mistake::MissingIsError, "end state")]
#[case::observes_first("500@PUT:configmaps/a-data#2", Mistake::ObservesFirst, "end state · configmaps · data.x")]
#[case::holds_last("deleted@PATCH:sites/a#1", Mistake::HoldsLast, "end state · configmaps · is left")]
#[case::gives_up("denied-10m@PUT:configmaps/a-data#2", Mistake::GivesUp, "end state · configmaps · data.x")]
#[case::holders_by_cache("finalizer@PATCH:sites/a#1", Mistake::HoldersByCache, "blind · sites · undone")]
fn other_mistakes_are_found(#[case] plan: &str, #[case] mistake: Mistake, #[case] found: &str) {
    let replay = |mistake: Mistake| Explorer::new().replay(plan, async |t| history_of_sites(t, mistake).await);
    let error = replay(mistake).expect_err("the finding").to_string();
    assert!(error.starts_with(found), "{error}");
    // The operator without a mistake has other requests than the one that patches its data.
    if mistake != Mistake::KeysByMemory {
        assert_eq!(replay(Mistake::None).err().map(|error| error.to_string()), None);
    }
}
