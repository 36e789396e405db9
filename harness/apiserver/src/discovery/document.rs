//! The discovery documents, with their fields in kube-apiserver's order. PURE.
//! See `staging/src/k8s.io/apiserver/pkg/endpoints/discovery/group.go`.

use std::sync::Arc;

use serde::Serialize;

use crate::registry::{GroupVersion, Registry, Resource, Subresource};
use crate::version::KubernetesVersion;

/// The document at `/`.
#[derive(Debug, Serialize)]
pub(super) struct RootPaths {
    pub(super) paths: Vec<String>,
}

/// The document at `/version`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VersionInfo<'a> {
    major: &'static str,
    minor: String,
    emulation_major: &'static str,
    emulation_minor: String,
    min_compatibility_major: &'static str,
    min_compatibility_minor: String,
    git_version: &'a str,
    git_commit: &'a str,
    git_tree_state: &'static str,
    build_date: &'static str,
    go_version: &'static str,
    compiler: &'static str,
    platform: String,
}

impl<'a> VersionInfo<'a> {
    /// Returns the document for a version such as `v1.36.2` or, with its commit, `v1.36.2/HASH`.
    pub(super) fn of(version: KubernetesVersion, git_version: &'a str) -> Self {
        // The server is built from no commit of Kubernetes; clients expect a hash.
        const NO_COMMIT: &str = "0000000000000000000000000000000000000000";
        let (git_version, git_commit) = git_version.split_once('/').unwrap_or((git_version, NO_COMMIT));
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        let system = if std::env::consts::OS == "macos" { "darwin" } else { std::env::consts::OS };
        Self {
            major: "1",
            minor: version.minor().to_string(),
            emulation_major: "1",
            emulation_minor: version.minor().to_string(),
            min_compatibility_major: "1",
            min_compatibility_minor: (version.minor() - 1).to_string(),
            git_version,
            git_commit,
            git_tree_state: "clean",
            build_date: "1970-01-01T00:00:00Z",
            go_version: "go1.26.4",
            compiler: "gc",
            platform: format!("{system}/{architecture}"),
        }
    }
}

/// The document at `/api`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiVersions {
    kind: &'static str,
    versions: [&'static str; 1],
    #[serde(rename = "serverAddressByClientCIDRs")]
    server_address: [ServerAddress; 1],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ServerAddress {
    #[serde(rename = "clientCIDR")]
    client_cidr: &'static str,
    server_address: String,
}

impl ApiVersions {
    pub(super) fn new(host: &str) -> Self {
        Self {
            kind: "APIVersions",
            versions: ["v1"],
            server_address: [ServerAddress { client_cidr: "0.0.0.0/0", server_address: host.to_owned() }],
        }
    }
}

/// The document at `/apis`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiGroupList {
    kind: &'static str,
    api_version: &'static str,
    groups: Vec<ApiGroup>,
}

/// The document at `/apis/<group>`, and an element of the one at `/apis`, there without kind and apiVersion.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiGroup {
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<&'static str>,
    name: String,
    versions: Vec<GroupVersionForDiscovery>,
    preferred_version: GroupVersionForDiscovery,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupVersionForDiscovery {
    group_version: String,
    version: String,
}

/// Returns the groups in discovery's order: built-in ones, then those of custom resources by name.
fn groups(registry: &Registry) -> Vec<&str> {
    let is_custom = |group: &str| {
        let versions = registry.versions(group);
        versions.iter().all(|version| version.kinds.iter().all(|kind| kind.schema.is_empty()))
    };
    let named: Vec<&str> = registry.groups().filter(|group| !group.is_empty()).collect();
    let (mut custom, mut built_in): (Vec<&str>, Vec<&str>) = named.into_iter().partition(|group| is_custom(group));
    custom.sort_unstable();
    built_in.append(&mut custom);
    built_in
}

/// Returns all groups except the core group.
pub(super) fn group_list(registry: &Registry) -> ApiGroupList {
    let groups = groups(registry).into_iter().filter_map(|name| describe_group(registry, name)).collect();
    ApiGroupList { kind: "APIGroupList", api_version: "v1", groups }
}

/// Returns one group's document; `None` if the group is not served.
pub(super) fn group(registry: &Registry, name: &str) -> Option<ApiGroup> {
    let group = describe_group(registry, name).filter(|_| !name.is_empty())?;
    Some(ApiGroup { kind: Some("APIGroup"), api_version: Some("v1"), ..group })
}

fn describe_group(registry: &Registry, name: &str) -> Option<ApiGroup> {
    let versions: Vec<GroupVersionForDiscovery> = registry
        .versions(name)
        .iter()
        .map(|info| GroupVersionForDiscovery {
            group_version: format!("{name}/{}", info.version),
            version: info.version.to_owned(),
        })
        .collect();
    let preferred_version = versions.first()?.clone();
    Some(ApiGroup { kind: None, api_version: None, name: name.to_owned(), versions, preferred_version })
}

/// The document at `/apis/<group>/<version>` and `/api/v1`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiResourceList {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<&'static str>,
    group_version: String,
    resources: Vec<ApiResource>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiResource {
    name: String,
    singular_name: String,
    namespaced: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    version: String,
    kind: String,
    verbs: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    short_names: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    categories: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    storage_version_hash: String,
}

fn texts(names: &[crate::registry::StaticStr]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

/// Returns the resources of a version; `None` if it is not served.
pub(super) fn resource_list(registry: &Registry, group: &str, version: &str) -> Option<ApiResourceList> {
    let versions = registry.versions(group);
    let info = versions.iter().find(|info| info.version == version)?;
    let resources = info.kinds.iter().flat_map(|kind| legacy_resources(kind)).collect();
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    Some(ApiResourceList {
        kind: "APIResourceList",
        api_version: (!group.is_empty()).then_some("v1"),
        group_version,
        resources,
    })
}

/// Returns the verbs of a kind; without create, patch and update while its definition is being deleted.
fn verbs(kind: &Resource) -> Vec<String> {
    let all = texts(&kind.verbs);
    if !kind.custom.as_ref().is_some_and(|custom| custom.ending) {
        return all;
    }
    all.into_iter().filter(|verb| !matches!(verb.as_str(), "create" | "patch" | "update")).collect()
}

fn legacy_resources(kind: &Resource) -> Vec<ApiResource> {
    let itself = ApiResource {
        name: kind.plural.to_string(),
        singular_name: kind.singular.to_string(),
        namespaced: kind.namespaced,
        group: String::new(),
        version: String::new(),
        kind: kind.kind.to_string(),
        verbs: verbs(kind),
        short_names: texts(&kind.short_names),
        categories: texts(&kind.categories),
        storage_version_hash: kind.storage_version_hash.to_string(),
    };
    let subresource = |sub: &Subresource| ApiResource {
        name: format!("{}/{}", kind.plural, sub.name),
        singular_name: String::new(),
        namespaced: kind.namespaced,
        group: sub.group.to_string(),
        version: sub.version.to_string(),
        kind: sub.kind.to_string(),
        verbs: texts(&sub.verbs),
        short_names: Vec::new(),
        categories: Vec::new(),
        storage_version_hash: String::new(),
    };
    std::iter::once(itself).chain(kind.subresources.iter().map(subresource)).collect()
}

/// Aggregated discovery: `APIGroupDiscoveryList` of `apidiscovery.k8s.io/v2`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiGroupDiscoveryList {
    kind: &'static str,
    api_version: &'static str,
    metadata: EmptyMeta,
    items: Vec<GroupDiscovery>,
}

#[derive(Debug, Serialize)]
struct EmptyMeta {}

#[derive(Debug, Serialize)]
struct GroupDiscovery {
    metadata: GroupMeta,
    versions: Vec<VersionDiscovery>,
}

#[derive(Debug, Serialize)]
struct GroupMeta {
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
}

#[derive(Debug, Serialize)]
struct VersionDiscovery {
    version: String,
    resources: Vec<ResourceDiscovery>,
    freshness: &'static str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceDiscovery {
    resource: String,
    response_kind: ResponseKind,
    scope: &'static str,
    singular_resource: String,
    verbs: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    short_names: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    categories: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subresources: Vec<SubresourceDiscovery>,
}

#[derive(Debug, Serialize)]
struct ResponseKind {
    group: String,
    version: String,
    kind: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SubresourceDiscovery {
    subresource: String,
    response_kind: ResponseKind,
    verbs: Vec<String>,
}

/// Returns the core group (`/api`) or all others (`/apis`) with their resources.
pub(super) fn aggregated(registry: &Registry, core: bool) -> ApiGroupDiscoveryList {
    let names = if core { vec![""] } else { groups(registry) };
    let items = names
        .into_iter()
        .map(|name| GroupDiscovery {
            metadata: GroupMeta { name: name.to_owned() },
            versions: registry.versions(name).iter().map(version_discovery).collect(),
        })
        .collect();
    ApiGroupDiscoveryList {
        kind: "APIGroupDiscoveryList",
        api_version: "apidiscovery.k8s.io/v2",
        metadata: EmptyMeta {},
        items,
    }
}

fn version_discovery(info: &GroupVersion<'_>) -> VersionDiscovery {
    VersionDiscovery {
        version: info.version.to_owned(),
        resources: info.kinds.iter().copied().map(resource_discovery).collect(),
        freshness: "Current",
    }
}

fn resource_discovery(kind: &Arc<Resource>) -> ResourceDiscovery {
    // Upstream leaves group and version of a built-in kind empty here, and sets those of a custom kind.
    let custom = kind.schema.is_empty();
    let response_kind = |group: &str, version: &str, name: &str| match group {
        "" if custom => {
            ResponseKind { group: kind.group.to_string(), version: kind.version.to_string(), kind: name.to_owned() }
        }
        _ => ResponseKind { group: group.to_owned(), version: version.to_owned(), kind: name.to_owned() },
    };
    ResourceDiscovery {
        resource: kind.plural.to_string(),
        response_kind: response_kind("", "", &kind.kind),
        scope: if kind.namespaced { "Namespaced" } else { "Cluster" },
        singular_resource: kind.singular.to_string(),
        verbs: verbs(kind),
        short_names: texts(&kind.short_names),
        categories: texts(&kind.categories),
        subresources: kind
            .subresources
            .iter()
            .map(|sub| SubresourceDiscovery {
                subresource: sub.name.to_string(),
                response_kind: response_kind(&sub.group, &sub.version, &sub.kind),
                verbs: texts(&sub.verbs),
            })
            .collect(),
    }
}
