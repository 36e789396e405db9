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

/// A `policy/v1` budget, whole but for `managedFields`: its status is written back by PUT, which must
/// lose nothing.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct PdbView {
    /// All metadata but `managedFields`.
    #[serde(deserialize_with = "without_managed_fields")]
    pub metadata: ObjectMeta,
    /// What is promised.
    #[serde(default)]
    pub spec: PdbSpec,
    /// What is so.
    #[serde(default)]
    pub status: PdbStatus,
    /// `spec.selector`, parsed when it is first asked for.
    #[serde(skip)]
    parsed: ParsedSelector,
    /// Namespace and name, made when they are first asked for.
    #[serde(skip)]
    key: OnceLock<ObjectKey>,
}

/// All metadata but `managedFields`: a write without them leaves the stored ones alone.
fn without_managed_fields<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectMeta, D::Error> {
    // Whoever may write a budget may write them, with times that cannot be read: they are not looked at.
    let mut metadata = Map::deserialize(from)?;
    metadata.remove("managedFields");
    ObjectMeta::deserialize(Value::Object(metadata)).map_err(D::Error::custom)
}

#[derive(Clone, Debug, Default)]
struct ParsedSelector(OnceLock<Result<Selector, SelectorError>>);

/// What is parsed and made from the rest says nothing of its own.
impl PartialEq for PdbView {
    fn eq(&self, other: &Self) -> bool {
        (&self.metadata, &self.spec, &self.status) == (&other.metadata, &other.spec, &other.status)
    }
}

impl PdbView {
    /// The selector, parsed once for all pods it is held against.
    ///
    /// # Errors
    /// What apimachinery says of an invalid selector.
    pub fn selector(&self) -> Result<&Selector, &SelectorError> {
        self.parsed.0.get_or_init(|| Selector::parse(self.spec.selector.as_ref())).as_ref()
    }

    /// The same budget with another status.
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
    /// At most so many pods may be away. Wins over `min_available`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrPercent>,
    /// At least so many pods must be there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_available: Option<IntOrPercent>,
    /// Absent matches nothing, empty matches all pods of the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Read by the eviction API only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unhealthy_pod_eviction_policy: Option<String>,
}

/// `policy/v1.PodDisruptionBudgetStatus`
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PdbStatus {
    /// Conditions, unknown ones included.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Healthy pods now.
    pub current_healthy: i32,
    /// Healthy pods promised.
    pub desired_healthy: i32,
    /// Pods whose eviction was granted and not yet seen, by name, with the second of the grant.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "time::by_name::deserialize")]
    pub disrupted_pods: BTreeMap<String, Timestamp>,
    /// Evictions that may be granted now.
    pub disruptions_allowed: i32,
    /// Pods counted on.
    pub expected_pods: i32,
    /// `metadata.generation` the status was computed for; 0 is absent.
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
