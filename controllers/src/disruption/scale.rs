//! SHELL: finds the owners of pods and their desired replicas.
//!
//! Owners of built-in kinds come from the caches; for any other kind the scale subresource is read, whose resource is
//! found through discovery. The order is `ReplicationController`, `Deployment` through its `ReplicaSet`, `ReplicaSet`,
//! `StatefulSet`, scale subresource. An owner that is not in the cache, or there under another UID, is read from the
//! server (D-106, D-107).

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;

use crate::api::View;
use crate::api::cache_object::CacheObject;
use crate::api::go;
use crate::api::intern::InternedStr;
use crate::api::object_key::ObjectKey;
use crate::api::owner::Owner;
use crate::api::pod::PodView;
use crate::api::scale::ScaleView;
use crate::api::workload::{DeploymentView, ReplicaSetView, ReplicationControllerView, StatefulSetView, Workload};
use crate::context::ControllerContext;
use crate::runtime::cache::Lister;
use crate::runtime::error::ApiError;
use crate::write::Reader;

/// Groups and versions that serve the kind `Scale`; the first is the current one.
const SCALE_VERSIONS: [(&str, &str); 4] =
    [("autoscaling", "v1"), ("extensions", "v1beta1"), ("apps", "v1beta1"), ("apps", "v1beta2")];

/// The owners of a set of pods.
#[derive(Debug, Default)]
pub(super) struct OwnerScales {
    /// Desired replicas by the owner's UID: every owner counts once (D-105).
    pub(super) replicas: BTreeMap<InternedStr, i32>,
    /// Names of pods without controller.
    pub(super) unmanaged: Vec<String>,
}

/// Errors of finding scales. `Display` is Kubernetes' text, which conditions and events quote.
#[derive(Debug, thiserror::Error)]
pub(super) enum OwnerError {
    #[error("unexpected GroupVersion string: {0}")]
    GroupVersion(String),
    #[error("no matches for kind {} in version {}", go::quote(kind), go::quote(api_version))]
    NoMatch { kind: String, api_version: String },
    #[error("invalid resource name {}: [{}]", go::quote(.0), .1)]
    Name(String, String),
    #[error("{0} does not implement the scale subresource")]
    NoScale(String),
    #[error("found no controllers for pod {}", go::quote(.0))]
    NotFound(String),
    #[error("{0}")]
    Api(#[from] ApiError),
}

/// Finds owners and their scales.
pub(super) struct OwnerScaleFinder {
    controllers: Lister<ReplicationControllerView>,
    replica_sets: Lister<ReplicaSetView>,
    deployments: Lister<DeploymentView>,
    stateful_sets: Lister<StatefulSetView>,
    reader: Reader,
}

type UidAndReplicas = Option<(InternedStr, i32)>;

impl OwnerScaleFinder {
    pub(super) fn new(context: &ControllerContext, reader: Reader) -> Self {
        Self {
            controllers: context.informer().lister(),
            replica_sets: context.informer().lister(),
            deployments: context.informer().lister(),
            stateful_sets: context.informer().lister(),
            reader,
        }
    }

    /// Returns the scales of all owners of `pods`.
    ///
    /// # Errors
    /// [`OwnerError`] if any owner cannot be found (D-118): a smaller sum would be unsafe.
    pub(super) async fn scales(&self, pods: &[Arc<PodView>]) -> Result<OwnerScales, OwnerError> {
        let mut scales = OwnerScales::default();
        for pod in pods {
            let Some(owner) = pod.controller_ref() else {
                scales.unmanaged.push(pod.name().to_owned());
                continue;
            };
            if scales.replicas.contains_key(&owner.uid) {
                continue;
            }
            let found = self.find_scale(owner, pod.namespace()).await?;
            let (uid, replicas) = found.ok_or_else(|| OwnerError::NotFound(pod.name().to_owned()))?;
            scales.replicas.insert(uid, replicas);
        }
        Ok(scales)
    }

    async fn find_scale(&self, owner: &Owner, namespace: &str) -> Result<UidAndReplicas, OwnerError> {
        let group = group_of(&owner.api_version)?;
        let cached = match (owner.kind.as_str(), group) {
            ("ReplicationController", "") => cached_owner(&self.controllers, namespace, owner).as_deref().map(scale_of),
            ("ReplicaSet", "apps" | "extensions") => match cached_owner(&self.replica_sets, namespace, owner) {
                Some(set) => self.replica_set_scale(&set)?,
                None => None,
            },
            ("StatefulSet", "apps") => cached_owner(&self.stateful_sets, namespace, owner).as_deref().map(scale_of),
            _ => None,
        };
        match cached {
            Some(found) => Ok(Some(found)),
            None => self.scale_subresource(owner, namespace).await,
        }
    }

    /// Returns the scale of the set's Deployment, or its own if it has none. Returns `None` if the set's Deployment is
    /// not in the cache (D-032, D-106).
    fn replica_set_scale(&self, set: &ReplicaSetView) -> Result<UidAndReplicas, OwnerError> {
        let Some(owner) = set.controller_ref() else { return Ok(Some(scale_of(set))) };
        let group = group_of(&owner.api_version)?;
        Ok(match (owner.kind.as_str(), group) {
            ("Deployment", "apps" | "extensions") => {
                cached_owner(&self.deployments, set.namespace(), owner).as_deref().map(scale_of)
            }
            ("Deployment", _) => None,
            _ => Some(scale_of(set)),
        })
    }

    /// Reads the owner's scale subresource from the server, for any kind.
    async fn scale_subresource(&self, owner: &Owner, namespace: &str) -> Result<UidAndReplicas, OwnerError> {
        let api_version = owner.api_version.as_str();
        let resources = match self.reader.resources(api_version).await {
            Ok(resources) => resources,
            Err(ApiError::NotFound(_)) => return Err(no_match(owner)),
            Err(error) => return Err(error.into()),
        };
        let resource = resources.resources.iter().find(|resource| is_kind(resource, &owner.kind));
        let plural = resource.map(|resource| resource.name.as_str()).ok_or_else(|| no_match(owner))?;
        path_segment(&owner.name)?;
        let key = ObjectKey::new(namespace, owner.name.as_str());
        match self.reader.get_scale::<ScaleView>(api_version, plural, &key).await {
            Ok(scale) if scale.uid() == &*owner.uid => Ok(Some((owner.uid.clone(), scale.spec.replicas))),
            Ok(_) => Ok(None),
            // Either the owner does not exist or its kind has no scale; only the latter is an error.
            Err(ApiError::NotFound(_)) if resources.resources.iter().any(|other| is_scale_of(other, plural)) => {
                Ok(None)
            }
            Err(ApiError::NotFound(_)) => Err(OwnerError::NoScale(match group_of(api_version)? {
                "" => plural.to_owned(),
                group => format!("{plural}.{group}"),
            })),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns the owner from the cache if it has the UID of the owner reference.
fn cached_owner<V: CacheObject + View>(lister: &Lister<V>, namespace: &str, owner: &Owner) -> Option<Arc<V>> {
    lister.get(&ObjectKey::new(namespace, owner.name.as_str())).filter(|object| View::uid(&**object) == &*owner.uid)
}

fn scale_of(workload: &impl Workload) -> (InternedStr, i32) {
    (workload.uid().into(), workload.replicas())
}

/// Returns the group of an `apiVersion`; `""` for the core group.
fn group_of(api_version: &str) -> Result<&str, OwnerError> {
    match api_version.split_once('/') {
        None => Ok(""),
        Some((_, rest)) if rest.contains('/') => Err(OwnerError::GroupVersion(api_version.to_owned())),
        Some((group, _)) => Ok(group),
    }
}

/// Validates a name as client-go does before it becomes part of a path.
fn path_segment(name: &str) -> Result<(), OwnerError> {
    let parts = ["/", "%"].into_iter().filter(|part| name.contains(part));
    let invalid = match name {
        "." | ".." => format!("may not be '{name}'"),
        _ => parts.map(|part| format!("may not contain '{part}'")).collect::<Vec<_>>().join(" "),
    };
    if invalid.is_empty() { Ok(()) } else { Err(OwnerError::Name(name.to_owned(), invalid)) }
}

fn no_match(owner: &Owner) -> OwnerError {
    OwnerError::NoMatch { kind: owner.kind.to_string(), api_version: owner.api_version.to_string() }
}

/// Returns true if `resource` has this kind, in its own spelling or in lower case, and is not a subresource.
fn is_kind(resource: &APIResource, kind: &str) -> bool {
    !resource.name.contains('/') && (resource.kind == kind || resource.kind.to_lowercase() == kind)
}

fn is_scale_of(resource: &APIResource, plural: &str) -> bool {
    let version = (resource.group.as_deref().unwrap_or_default(), resource.version.as_deref().unwrap_or_default());
    resource.name.strip_suffix("/scale") == Some(plural)
        && resource.kind == "Scale"
        && SCALE_VERSIONS.contains(&version)
}
