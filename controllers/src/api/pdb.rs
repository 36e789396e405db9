//! Pod disruption budgets.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use jiff::Timestamp;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::condition::{Condition, is_zero};
use super::int_or_percent::IntOrPercent;
use super::meta::{View, cached};
use super::object_key::ObjectKey;
use super::selector::{LabelSelector, Selector, SelectorError};
use super::time;

/// A `policy/v1` budget without `managedFields`. It is complete otherwise because its status is updated by PUT, which
/// drops every field that the body does not contain.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct PdbView {
    /// All metadata except `managedFields`.
    #[serde(deserialize_with = "without_managed_fields")]
    pub metadata: ObjectMeta,
    /// The desired state.
    #[serde(default)]
    pub spec: PdbSpec,
    /// The observed state.
    #[serde(default)]
    pub status: PdbStatus,
    /// `spec.selector`, parsed on first use.
    #[serde(skip)]
    parsed: ParsedSelector,
    /// Namespace and name, created on first use.
    #[serde(skip)]
    key: OnceLock<ObjectKey>,
}

/// Reads all metadata except `managedFields`: a write without them leaves the stored ones unchanged.
fn without_managed_fields<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectMeta, D::Error> {
    // `managedFields` are not parsed: a user may write times into them that cannot be parsed.
    let mut metadata = Map::deserialize(from)?;
    metadata.remove("managedFields");
    ObjectMeta::deserialize(Value::Object(metadata)).map_err(D::Error::custom)
}

#[derive(Clone, Debug, Default)]
struct ParsedSelector(OnceLock<Result<Selector, SelectorError>>);

/// Compares the object only; the parsed selector and the key are derived from it.
impl PartialEq for PdbView {
    fn eq(&self, other: &Self) -> bool {
        (&self.metadata, &self.spec, &self.status) == (&other.metadata, &other.spec, &other.status)
    }
}

impl PdbView {
    /// Returns the selector, parsed once for all pods it is matched against.
    ///
    /// # Errors
    /// apimachinery's message for an invalid selector.
    pub fn selector(&self) -> Result<&Selector, &SelectorError> {
        self.parsed.0.get_or_init(|| Selector::parse(self.spec.selector.as_ref())).as_ref()
    }

    /// Returns the same budget with another status.
    #[must_use]
    pub fn with_status(&self, status: PdbStatus) -> Self {
        let Self { metadata, spec, status: _, parsed, key } = self;
        Self { metadata: metadata.clone(), spec: spec.clone(), status, parsed: parsed.clone(), key: key.clone() }
    }
}

/// `policy/v1.PodDisruptionBudgetSpec`
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PdbSpec {
    /// Maximum number of unavailable pods. Takes precedence over `min_available`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrPercent>,
    /// Minimum number of available pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_available: Option<IntOrPercent>,
    /// Absent matches nothing, empty matches all pods of the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Used by the eviction API only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unhealthy_pod_eviction_policy: Option<String>,
}

/// `policy/v1.PodDisruptionBudgetStatus`
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PdbStatus {
    /// Conditions, including unknown types.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Number of healthy pods.
    pub current_healthy: i32,
    /// Minimum number of healthy pods.
    pub desired_healthy: i32,
    /// Pods whose eviction was granted and whose deletion was not observed yet, by name, with the time of the grant in
    /// seconds.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "time::by_name::deserialize")]
    pub disrupted_pods: BTreeMap<String, Timestamp>,
    /// Number of evictions that may be granted now.
    pub disruptions_allowed: i32,
    /// Number of pods that the budget counts.
    pub expected_pods: i32,
    /// `metadata.generation` that the status was computed for; 0 if absent.
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
}

impl View for PdbView {
    fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    fn key(&self) -> ObjectKey {
        self.key.get_or_init(|| ObjectKey::new(self.namespace(), self.name())).clone()
    }

    fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    fn resource_version(&self) -> &str {
        self.metadata.resource_version.as_deref().unwrap_or_default()
    }

    fn generation(&self) -> i64 {
        self.metadata.generation.unwrap_or_default()
    }
}

cached!(PdbView as PodDisruptionBudget);
