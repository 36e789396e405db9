//! An index of budgets by pod labels. PURE.
//!
//! A budget that requires a label's value is found by that label; all others are matched one by one. Nearly all budgets
//! of a cluster are of the first kind, so a pod event touches only the pod's own budgets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::View as _;
use crate::api::labels::Labels;
use crate::api::pdb::PdbView;

/// All budgets, indexed by the pod labels they require.
#[derive(Debug, Default)]
pub struct BudgetIndex {
    namespaces: BTreeMap<String, NamespaceBudgets>,
}

/// The budgets of one namespace, by name.
#[derive(Debug, Default)]
struct NamespaceBudgets {
    budgets: BTreeMap<String, Arc<PdbView>>,
    /// Names of budgets that require one of some values of a label: by key, then value.
    by_label: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
    /// Names of budgets without such a requirement.
    without_required_label: BTreeSet<String>,
}

impl BudgetIndex {
    /// Inserts `pdb`, replacing the budget with the same key.
    pub fn set(&mut self, pdb: &Arc<PdbView>) {
        self.remove(pdb);
        let namespace = self.namespaces.entry(pdb.namespace().to_owned()).or_default();
        let name = pdb.name();
        // An invalid selector selects nothing.
        match pdb.selector().map(|selector| (selector.is_nothing(), selector.required_label())) {
            Err(_) | Ok((true, _)) => {}
            Ok((false, None)) => drop(namespace.without_required_label.insert(name.to_owned())),
            Ok((false, Some((key, values)))) => {
                let by_value = namespace.by_label.entry(key.to_owned()).or_default();
                for value in values {
                    by_value.entry(value.clone()).or_default().insert(name.to_owned());
                }
            }
        }
        namespace.budgets.insert(name.to_owned(), Arc::clone(pdb));
    }

    /// Removes the budget with the key of `pdb`.
    pub fn remove(&mut self, pdb: &PdbView) {
        let Some(namespace) = self.namespaces.get_mut(pdb.namespace()) else { return };
        let Some(removed) = namespace.budgets.remove(pdb.name()) else { return };
        namespace.without_required_label.remove(removed.name());
        if let Ok(Some((key, values))) = removed.selector().map(|selector| selector.required_label()) {
            namespace.remove_from_index(key, values, removed.name());
        }
        if namespace.budgets.is_empty() {
            self.namespaces.remove(pdb.namespace());
        }
    }

    /// Returns the budgets of `namespace` that select pods with `labels`, by name.
    pub fn matching(&self, namespace: &str, labels: &Labels) -> Vec<Arc<PdbView>> {
        let Some(namespace) = self.namespaces.get(namespace) else { return Vec::new() };
        let pinned = labels.iter().filter_map(|(key, value)| namespace.by_label.get(&**key)?.get(&**value)).flatten();
        let names = pinned.chain(&namespace.without_required_label);
        let asked = names.filter_map(|name| namespace.budgets.get(name));
        let selects = |pdb: &&Arc<PdbView>| pdb.selector().is_ok_and(|selector| selector.matches(labels));
        let mut found: Vec<Arc<PdbView>> = asked.filter(selects).cloned().collect();
        found.sort_by(|a, b| a.name().cmp(b.name()));
        found
    }
}

impl NamespaceBudgets {
    fn remove_from_index(&mut self, key: &str, values: &[String], name: &str) {
        let Some(by_value) = self.by_label.get_mut(key) else { return };
        for value in values {
            if let Some(names) = by_value.get_mut(value) {
                names.remove(name);
                if names.is_empty() {
                    by_value.remove(value);
                }
            }
        }
        if by_value.is_empty() {
            self.by_label.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn pdb(name: &str, selector: &Value) -> Arc<PdbView> {
        let metadata = json!({"name": name, "namespace": "ns", "uid": name});
        Arc::new(serde_json::from_value(json!({"metadata": metadata, "spec": {"selector": selector}})).unwrap())
    }

    fn labels() -> impl Strategy<Value = Labels> {
        prop::collection::btree_map("[abc]", "[xyz]", 0..3).prop_map(|map| serde_json::from_value(json!(map)).unwrap())
    }

    /// Selectors of every kind: empty, absent, invalid, with and without a required label.
    fn selector() -> impl Strategy<Value = Value> {
        let requirement = ("[abc]", "(In|NotIn|Exists|DoesNotExist|Bad)", prop::collection::vec("[xyz]", 0..3));
        let requirement = requirement.prop_map(|(key, operator, values)| {
            let valued = matches!(operator.as_str(), "In" | "NotIn");
            let values = if valued { values } else { Vec::new() };
            json!({"key": key, "operator": operator, "values": values})
        });
        let labels = prop::collection::btree_map("[abc]", "[xyz]", 0..2);
        prop_oneof![
            1 => Just(Value::Null),
            9 => (labels, prop::collection::vec(requirement, 0..3))
                .prop_map(|(labels, all)| json!({"matchLabels": labels, "matchExpressions": all})),
        ]
    }

    proptest! {
        #[test]
        fn finds_what_asking_all_of_them_finds(
            changes in prop::collection::vec(("[p-t]", prop::option::weighted(0.8, selector())), 0..30),
            labels in labels(),
        ) {
            let mut budgets = BudgetIndex::default();
            let mut all = BTreeMap::new();
            for (name, selector) in &changes {
                if let Some(selector) = selector {
                    let pdb = pdb(name, selector);
                    budgets.set(&pdb);
                    all.insert(name.clone(), pdb);
                } else {
                    budgets.remove(&pdb(name, &Value::Null));
                    all.remove(name);
                }
            }
            let selects = |pdb: &&Arc<PdbView>| pdb.selector().is_ok_and(|selector| selector.matches(&labels));
            let want: Vec<_> = all.values().filter(selects).cloned().collect();
            prop_assert_eq!(budgets.matching("ns", &labels), want);
            prop_assert_eq!(budgets.matching("other", &labels), vec![]);
            for name in all.keys() {
                budgets.remove(&pdb(name, &Value::Null));
            }
            prop_assert!(budgets.namespaces.is_empty(), "the index is empty");
        }
    }
}
