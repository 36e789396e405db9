//! Access to other objects, for the admission rules that need them.

use crate::json::{Map, Value};
use crate::metadata;

/// Read access to stored objects for the few admission rules that need other objects.
pub(crate) trait ObjectLister: Sync {
    /// Returns a stored object.
    fn get(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Option<Value>;
    /// Returns a label of a stored object.
    fn label(&self, group: &str, resource: &str, namespace: &str, name: &str, label: &str) -> Option<String> {
        let object = self.get(group, resource, namespace, name)?;
        metadata::labels(&object)?.get(label)?.as_str().map(str::to_owned)
    }
    /// Returns the objects of a resource in one namespace, or in all if `namespace` is empty.
    fn list(&self, group: &str, resource: &str, namespace: &str) -> Vec<Value>;
    /// Like [`ObjectLister::list`], but may skip objects whose compact JSON does not contain `text`, which saves
    /// decoding them.
    fn list_holding(&self, group: &str, resource: &str, namespace: &str, _text: &str) -> Vec<Value> {
        self.list(group, resource, namespace)
    }
    /// Returns true if privileged containers are allowed.
    fn allows_privileged(&self) -> bool {
        true
    }
    /// Returns true if an admission plugin is enabled.
    fn admits_by(&self, _plugin: AdmissionPlugin) -> bool {
        true
    }
}

/// An admission plugin that can be disabled. Servers without nodes, kubelets or controllers cannot do what some expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmissionPlugin {
    /// Taints new nodes until they are ready.
    TaintNodesByCondition,
    /// Makes new pods tolerate not-ready and unreachable nodes for five minutes.
    DefaultTolerationSeconds,
    /// Gives new pods the service account `default` and a volume with its token, and refuses pods whose account does
    /// not exist. Disabled by default, as in envtest: a controller has to create the accounts
    /// ([`crate::service_accounts`]).
    ServiceAccount,
}

impl AdmissionPlugin {
    /// Returns the plugins that a server does not have unless they are enabled.
    pub(crate) fn disabled_by_default() -> Vec<Self> {
        vec![Self::ServiceAccount]
    }
}

/// An [`ObjectLister`] without objects.
#[derive(Debug, Clone, Copy, Default)]
#[cfg(test)]
pub(crate) struct EmptyLister;

#[cfg(test)]
impl ObjectLister for EmptyLister {
    fn get(&self, _group: &str, _resource: &str, _namespace: &str, _name: &str) -> Option<Value> {
        None
    }

    fn list(&self, _group: &str, _resource: &str, _namespace: &str) -> Vec<Value> {
        Vec::new()
    }
}

/// Returns the zone and region labels of a node, which bound pods get too.
pub(crate) fn topology_labels(lookup: &dyn ObjectLister, node: &str) -> Map {
    if node.is_empty() {
        return Map::new();
    }
    ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"]
        .into_iter()
        .filter_map(|key| Some((key, lookup.label("", "nodes", "", node, key)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    /// `defaultOnPlugins` in `pkg/kubeapiserver/options/plugins.go` of Kubernetes 1.36.2.
    const DEFAULT_ON: [&str; 27] = [
        "NamespaceLifecycle",
        "LimitRanger",
        "ServiceAccount",
        "DefaultStorageClass",
        "PersistentVolumeClaimResize",
        "DefaultTolerationSeconds",
        "MutatingAdmissionWebhook",
        "ValidatingAdmissionWebhook",
        "ResourceQuota",
        "StorageObjectInUseProtection",
        "PodGroupProtection",
        "Priority",
        "TaintNodesByCondition",
        "RuntimeClass",
        "CertificateApproval",
        "CertificateSigning",
        "ClusterTrustBundleAttest",
        "CertificateSubjectRestriction",
        "DefaultIngressClass",
        "PodSecurity",
        "PodTopologyLabels",
        "MutatingAdmissionPolicy",
        "ValidatingAdmissionPolicy",
        "PodGroupWorkloadExists",
        "NodeDeclaredFeatureValidator",
        "JobValidation",
        "PodResizeValidator",
    ];

    /// The document says of each plugin whether it is here, and of no other one.
    #[test]
    fn every_default_plugin_is_there_or_named_as_absent() {
        let document = include_str!("../../SERVED.md");
        let (_, rest) = document.split_once("<!-- admission plugins -->").expect("a table");
        let (table, _) = rest.split_once("<!-- end -->").expect("its end");
        let rows = table.lines().filter_map(|line| line.strip_prefix("| ")).filter(|row| !row.starts_with(['-', 'p']));
        let mut named: Vec<&str> =
            rows.flat_map(|row| row.split(" | ").next().unwrap_or_default().split(", ")).collect();
        let mut expected = DEFAULT_ON.to_vec();
        named.sort_unstable();
        expected.sort_unstable();
        assert_eq!(named, expected);
    }
}
