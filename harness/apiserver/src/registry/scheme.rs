//! The registry of served resources, in discovery's order. Custom resources are added and removed at run time.
//! See `staging/src/k8s.io/apimachinery/pkg/runtime/scheme.go`.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use indexmap::IndexMap;

use crate::registry::builtin;
use crate::registry::served_resource::Resource;
use crate::registry::strategy::Strategy;
use crate::version::KubernetesVersion;

type ResourcesByPlural = BTreeMap<String, Arc<Resource>>;

/// The served resources by group, version and plural name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Registry {
    groups: IndexMap<String, IndexMap<String, ResourcesByPlural>>,
    kubernetes_version: KubernetesVersion,
    git_version: String,
}

/// A version of a group with its resources in discovery's order.
#[derive(Debug, Clone)]
pub(crate) struct GroupVersion<'a> {
    /// Version.
    pub version: &'a str,
    /// Resources, by plural name.
    pub kinds: Vec<&'a Arc<Resource>>,
}

impl Registry {
    /// Returns all built-in resources; `definitions` is the strategy of custom resource definitions, which are
    /// implemented outside of this module.
    pub(crate) fn with_definitions(definitions: impl Strategy + 'static) -> Self {
        let mut registry = Self::default();
        for kind in builtin::kinds(definitions) {
            registry.insert(kind);
        }
        registry
    }

    /// Returns the registry of a server that behaves as this release of Kubernetes and reports this version.
    #[must_use]
    pub(crate) fn with_version(self, kubernetes_version: KubernetesVersion, git_version: &str) -> Self {
        Self { kubernetes_version, git_version: git_version.to_owned(), ..self }
    }

    /// Returns this registry as it is when a server starts; `builtin` makes it for the first server of the process.
    pub(crate) fn shared(kubernetes_version: KubernetesVersion, git_version: &str, builtin: fn() -> Self) -> Arc<Self> {
        static FIRST: [OnceLock<Arc<Registry>>; KubernetesVersion::ALL.len()] =
            [const { OnceLock::new() }; KubernetesVersion::ALL.len()];
        let usual = FIRST[kubernetes_version as usize]
            .get_or_init(|| Arc::new(builtin().with_version(kubernetes_version, kubernetes_version.git_version())));
        if usual.git_version == git_version {
            return usual.clone();
        }
        Arc::new(Self::clone(usual).with_version(kubernetes_version, git_version))
    }

    /// Returns the version that the server reports, with the commit if one is set.
    pub(crate) fn git_version(&self) -> &str {
        &self.git_version
    }

    /// Returns the release of Kubernetes that the server behaves as.
    pub(crate) fn kubernetes_version(&self) -> KubernetesVersion {
        self.kubernetes_version
    }

    /// Adds a resource or replaces the one with the same group, version and plural name.
    pub(crate) fn insert(&mut self, kind: Resource) {
        let versions = self.groups.entry(kind.group.to_string()).or_default();
        let plurals = versions.entry(kind.version.to_string()).or_default();
        plurals.insert(kind.plural.to_string(), Arc::new(kind));
    }

    /// Adds a custom resource, or replaces it, at its place in discovery's order: groups by name and versions by rank,
    /// after those that are built in.
    pub(crate) fn insert_sorted<R: Ord>(&mut self, kind: Resource, rank: impl Fn(&str) -> R) {
        let is_custom = |plurals: &ResourcesByPlural| plurals.values().all(|kind| kind.custom.is_some());
        if !self.groups.contains_key(&*kind.group) {
            let after = |(name, versions): (&String, &IndexMap<String, ResourcesByPlural>)| {
                versions.values().all(is_custom) && name.as_str() > &*kind.group
            };
            let at = self.groups.iter().position(after).unwrap_or(self.groups.len());
            self.groups.shift_insert(at, kind.group.to_string(), IndexMap::new());
        }
        let versions = self.groups.entry(kind.group.to_string()).or_default();
        if !versions.contains_key(&*kind.version) {
            let own = rank(&kind.version);
            let after = |(name, plurals): (&String, &ResourcesByPlural)| is_custom(plurals) && rank(name) > own;
            let at = versions.iter().position(after).unwrap_or(versions.len());
            versions.shift_insert(at, kind.version.to_string(), BTreeMap::new());
        }
        self.insert(kind);
    }

    /// Removes a resource, and its version or group if they become empty.
    pub(crate) fn remove(&mut self, group: &str, version: &str, plural: &str) {
        let Some(versions) = self.groups.get_mut(group) else { return };
        if let Some(plurals) = versions.get_mut(version) {
            plurals.remove(plural);
            if plurals.is_empty() {
                versions.shift_remove(version);
            }
        }
        if versions.is_empty() {
            self.groups.shift_remove(group);
        }
    }

    /// Returns the resource at `/apis/<group>/<version>/<plural>` (`/api/<version>/<plural>` for the core group).
    pub(crate) fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.groups.get(group)?.get(version)?.get(plural)
    }

    /// Returns true if the group is served in this version.
    pub(crate) fn has_version(&self, group: &str, version: &str) -> bool {
        self.groups.get(group).is_some_and(|versions| versions.contains_key(version))
    }

    /// Returns the resource of a kind, for `apiVersion` and `kind` of objects.
    pub(crate) fn resource_for_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let plurals = self.groups.get(group)?.get(version)?;
        plurals
            .values()
            .find(|k| k.kind == kind && k.has_verb("get"))
            .or_else(|| plurals.values().find(|k| k.kind == kind))
    }

    /// Returns true if a group version has the kind in upstream's scheme, which includes lists and option kinds.
    pub(crate) fn recognizes(&self, group: &str, version: &str, kind: &str) -> bool {
        let Some(plurals) = self.groups.get(group).and_then(|versions| versions.get(version)) else { return false };
        let everywhere = ["WatchEvent", "ListOptions", "GetOptions", "DeleteOptions", "CreateOptions", "UpdateOptions"];
        let core = ["List", "Status", "APIVersions", "APIGroup", "APIGroupList", "APIResourceList"];
        let removed_in_1_37 = kind == "PodStatusResult" && self.kubernetes_version < KubernetesVersion::V1_37;
        plurals.values().any(|k| k.kind == kind || k.list_kind == kind)
            || everywhere.contains(&kind)
            || (group.is_empty() && (core.contains(&kind) || removed_in_1_37))
    }

    /// Returns group names in discovery's order, the core group (empty name) first.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &str> {
        self.groups.keys().map(String::as_str)
    }

    /// Returns the versions of a group, the preferred one first.
    pub(crate) fn versions(&self, group: &str) -> Vec<GroupVersion<'_>> {
        self.groups.get(group).map_or_else(Vec::new, |versions| {
            versions
                .iter()
                .map(|(version, plurals)| GroupVersion { version, kinds: plurals.values().collect() })
                .collect()
        })
    }

    /// Returns all served resources.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.groups.values().flat_map(|versions| versions.values().flat_map(BTreeMap::values))
    }

    /// Returns the other resources with the same objects; for a custom resource also the versions that are not served.
    pub(crate) fn equivalents(&self, own: &Resource) -> Vec<Arc<Resource>> {
        let Some(custom) = &own.custom else {
            let is_other = |other: &&Arc<Resource>| (&other.group, &other.version) != (&own.group, &own.version);
            return self.kinds().filter(|other| other.storage == own.storage).filter(is_other).cloned().collect();
        };
        let others = custom.others.iter().map(|other| {
            let version = other.api_version.rsplit('/').next().unwrap_or_default();
            let served = self.get(&own.group, version, &own.plural).cloned();
            served.unwrap_or_else(|| Arc::new(own.in_version(other, version)))
        });
        others.collect()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::json::Value;

    #[rstest]
    #[case::lists("v1", "PodList", true)]
    #[case::any_list("v1", "List", true)]
    #[case::options("apps/v1", "DeleteOptions", true)]
    #[case::of_another_group("apps/v1", "PodList", false)]
    fn groups_know_more_than_they_serve(#[case] api_version: &str, #[case] kind: &str, #[case] known: bool) {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        assert_eq!(Registry::builtin().recognizes(group, version, kind), known);
    }

    #[test]
    fn builtin_kinds_are_found_by_path_and_by_kind() {
        let registry = Registry::builtin();
        let pods = registry.get("", "v1", "pods").expect("pods");
        assert_eq!(pods.kind, "Pod");
        assert_eq!(pods.list_kind, "PodList");
        assert_eq!(pods.subresource("eviction").map(|s| s.group.as_ref()), Some("policy"));
        assert_eq!(registry.resource_for_kind("apps", "v1", "Deployment").expect("deployments").plural, "deployments");
        assert!(registry.get("apps", "v1beta1", "deployments").is_none());
    }

    #[test]
    fn both_faces_of_event_share_their_storage() {
        let registry = Registry::builtin();
        let core = registry.get("", "v1", "events").expect("core");
        let new = registry.get("events.k8s.io", "v1", "events").expect("events.k8s.io");
        assert_eq!(core.storage, new.storage);
        assert_eq!(core.storage_version_hash, new.storage_version_hash);
    }

    #[test]
    fn custom_groups_are_sorted_after_the_built_in_ones() {
        let mut registry = Registry::builtin();
        let custom = Arc::new(crate::registry::custom::CustomResource {
            definition: String::new(),
            schema: Value::Null,
            types: crate::schema::builtin("io.k8s.api.core.v1.Pod").unwrap(),
            columns: None,
            scale: None,
            status: false,
            ending: false,
            revision: 0,
            conversion: None,
            storage: String::new(),
            others: Vec::new(),
        });
        let like = registry.get("node.k8s.io", "v1", "runtimeclasses").unwrap();
        let kind = |group: &str, version: &str| Resource {
            group: group.to_owned().into(),
            version: version.to_owned().into(),
            custom: Some(custom.clone()),
            ..Resource::clone(like)
        };
        let kinds = [("m.io", "v1"), ("z.io", "v1"), ("a.io", "v2"), ("m.io", "v3"), ("m.io", "v2"), ("a.io", "v1")];
        let kinds = kinds.map(|(group, version)| kind(group, version));
        let before = registry.groups().count();
        for kind in kinds {
            registry.insert_sorted(kind, |version| std::cmp::Reverse(version.to_owned()));
        }
        assert_eq!(registry.groups().skip(before).collect::<Vec<_>>(), ["a.io", "m.io", "z.io"]);
        let versions: Vec<&str> = registry.versions("m.io").iter().map(|version| version.version).collect();
        assert_eq!(versions, ["v3", "v2", "v1"]);
    }

    #[test]
    fn removing_the_last_kind_removes_the_group() {
        let mut registry = Registry::builtin();
        assert!(registry.has_version("node.k8s.io", "v1"));
        registry.remove("node.k8s.io", "v1", "runtimeclasses");
        assert!(!registry.has_version("node.k8s.io", "v1"));
        assert!(registry.groups().all(|g| g != "node.k8s.io"));
    }
}
