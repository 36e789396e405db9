use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::api::object_key::ObjectKey;
use crate::api::pod::{BY_NODE, PodView};
use crate::api::selector::LabelSelector;
use crate::runtime::cache::{Change, Store};

type Model = BTreeMap<(String, String), Arc<PodView>>;

#[derive(Clone, Debug)]
enum Step {
    Apply(Arc<PodView>),
    Remove(Arc<PodView>),
    Replace(Vec<Arc<PodView>>),
}

fn pod() -> impl Strategy<Value = Arc<PodView>> {
    let labels = prop::collection::btree_map("[ab]", "[xy]", 0..3);
    ("[mn]", "[p-s]", 0..2_u8, 0..3_u32, labels, "(n1|n2|)").prop_map(
        |(namespace, name, uid, version, labels, node)| {
            let metadata = json!({"namespace": namespace, "name": name, "uid": format!("{name}{uid}"),
            "resourceVersion": version.to_string(), "labels": labels});
            Arc::new(serde_json::from_value(json!({"metadata": metadata, "spec": {"nodeName": node}})).unwrap())
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => pod().prop_map(Step::Apply),
        3 => pod().prop_map(Step::Remove),
        1 => prop::collection::vec(pod(), 0..8).prop_map(Step::Replace),
    ]
}

fn selectors() -> Vec<(Value, Selector)> {
    let all = [
        json!({}),
        json!({"matchLabels": {"a": "x"}}),
        json!({"matchLabels": {"a": "x", "b": "y"}}),
        json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["x", "y", "x"]}]}),
        json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["x"]}]}),
        json!({"matchExpressions": [{"key": "b", "operator": "Exists"}], "matchLabels": {"a": "y"}}),
        json!({"matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]}),
    ];
    let parse = |json: Value| {
        let selector: LabelSelector = serde_json::from_value(json.clone()).unwrap();
        (json, Selector::parse(Some(&selector)).unwrap())
    };
    all.into_iter().map(parse).collect()
}

fn key_of(pod: &PodView) -> (String, String) {
    let (namespace, name) = pod.key_ref();
    (namespace.to_owned(), name.to_owned())
}

fn names(pods: &[Arc<PodView>]) -> Vec<String> {
    pods.iter().map(|pod| format!("{}/{}@{}", pod.key(), pod.uid(), pod.resource_version())).collect()
}

/// Applies changes to the state that a client derives from them alone.
fn follow(believed: &mut Model, changes: &[Change<PodView>]) {
    for change in changes {
        match change {
            Change::Added(new) => assert!(believed.insert(key_of(new), Arc::clone(new)).is_none(), "{change:?}"),
            Change::Updated { old, new } => {
                assert_eq!(believed.insert(key_of(new), Arc::clone(new)).as_deref(), Some(&**old));
            }
            Change::Deleted(last) => assert_eq!(believed.remove(&key_of(last)).as_deref(), Some(&**last)),
        }
    }
}

/// Every lookup returns the same as a scan of all objects.
fn check(store: &Store<PodView>, model: &Model) {
    assert_eq!(names(&store.list()), names(&model.values().cloned().collect::<Vec<_>>()));
    assert_eq!(store.len(), model.len());
    for namespace in ["m", "n"] {
        let here: Vec<_> = model.values().filter(|pod| pod.key_ref().0 == namespace).cloned().collect();
        assert_eq!(names(&store.list_namespace(namespace)), names(&here));
        for (json, selector) in selectors() {
            let want: Vec<_> = here.iter().filter(|pod| selector.matches(pod.labels())).cloned().collect();
            assert_eq!(names(&store.select(namespace, &selector)), names(&want), "{json}");
        }
        assert!(store.select(namespace, &Selector::parse(None).unwrap()).is_empty());
    }
    for node in ["n1", "n2", ""] {
        let on = |pod: &&Arc<PodView>| !node.is_empty() && pod.spec.node_name == node;
        let want: Vec<_> = model.values().filter(on).cloned().collect();
        assert_eq!(names(&store.by_index(BY_NODE, node)), names(&want));
    }
    let fresh = Store::default();
    fresh.replace(model.values().rev().cloned().collect());
    assert_eq!(store.checksum(), fresh.checksum());
}

proptest! {
    #[test]
    fn every_way_to_find_objects_finds_the_same(steps in prop::collection::vec(step(), 0..40)) {
        let store = Store::<PodView>::default();
        let mut model = Model::new();
        let mut believed = Model::new();
        for step in steps {
            let changes = match step {
                Step::Apply(pod) => {
                    model.insert(key_of(&pod), Arc::clone(&pod));
                    store.apply(pod)
                }
                Step::Remove(pod) => {
                    let version = |pod: &PodView| pod.resource_version().parse::<u32>().unwrap();
                    let is_gone = |stored: &Arc<PodView>| stored.uid() == pod.uid() || version(stored) < version(&pod);
                    if model.get(&key_of(&pod)).is_some_and(is_gone) {
                        model.remove(&key_of(&pod));
                    }
                    store.remove(&pod)
                }
                Step::Replace(pods) => {
                    model = pods.iter().map(|pod| (key_of(pod), Arc::clone(pod))).collect();
                    store.replace(pods)
                }
            };
            follow(&mut believed, &changes);
            prop_assert_eq!(&believed, &model);
            check(&store, &model);
        }
        store.replace(Vec::new());
        let inner = store.read();
        prop_assert!(inner.by_labels.is_empty() && inner.indexes.iter().all(BTreeMap::is_empty), "nothing is left");
        prop_assert_eq!(inner.checksum(), 0);
    }
}

#[test]
fn a_deletion_is_late_only_if_its_version_is_older() {
    let pod = |uid: &str, version: &str| -> Arc<PodView> {
        let metadata = json!({"namespace": "n", "name": "p", "uid": uid, "resourceVersion": version});
        Arc::new(serde_json::from_value(json!({"metadata": metadata})).unwrap())
    };
    let store = Store::<PodView>::default();
    store.apply(pod("second", "12"));
    assert!(store.remove(&pod("first", "9")).is_empty(), "the first one went before the second one came");
    assert!(store.remove(&pod("third", "?")).is_empty(), "versions that are no numbers do not decide");
    // The events of the third one, which came and went, were merged.
    let changes = store.remove(&pod("third", "14"));
    assert!(matches!(&*changes, [Change::Deleted(gone)] if gone.uid() == "second"), "{changes:?}");
    assert_eq!(store.len(), 0);
}

#[test]
fn the_key_of_another_namespace_is_another_key() {
    let pod = |namespace: &str, name: &str| -> Arc<PodView> {
        let metadata = json!({"namespace": namespace, "name": name, "uid": name});
        Arc::new(serde_json::from_value(json!({"metadata": metadata})).unwrap())
    };
    let store = Store::<PodView>::default();
    store.replace(vec![pod("ab", "c"), pod("a", "bc")]);
    assert_eq!(store.len(), 2);
    assert!(store.get(&ObjectKey::new("a", "c")).is_none());
    assert_eq!(store.get(&ObjectKey::new("a", "bc")).unwrap().uid(), "bc");
}

/// Returns the label sets that are examined, and the number of selected pods, in a namespace with `pods` pods of which
/// each app has 50.
fn cost_of_a_selection(pods: usize, selector: &Value) -> (usize, usize) {
    let stored = |number: usize| {
        let labels = json!({ "app": format!("a{:05}", number / 50), "tier": "web" });
        let metadata = json!({ "namespace": "ns", "name": format!("p{number:05}"), "uid": number.to_string(),
            "resourceVersion": "1", "labels": labels });
        Arc::new(serde_json::from_value::<PodView>(json!({ "metadata": metadata })).unwrap())
    };
    let indexer = Indexer::from_sorted((0..pods).map(stored).collect());
    let selector: LabelSelector = serde_json::from_value(selector.clone()).unwrap();
    let selector = Selector::parse(Some(&selector)).unwrap();
    (indexer.by_labels["ns"].candidates(&selector).len(), indexer.select("ns", &selector).len())
}

/// The curve over the size of a namespace, in operations; `plumbline-loadtest scale --curve-only` measures it in
/// seconds.
#[test]
fn selecting_a_budgets_pods_costs_the_same_in_a_namespace_of_any_size() {
    let own = json!({ "matchLabels": { "app": "a00007" } });
    let costs = [1_000, 10_000, 50_000].map(|pods| cost_of_a_selection(pods, &own));
    assert_eq!(costs, [(1, 50); 3]);
    let all = [1_000, 10_000].map(|pods| cost_of_a_selection(pods, &json!({})));
    assert_eq!(all, [(20, 1_000), (200, 10_000)], "without a required label every label set is examined");
}
