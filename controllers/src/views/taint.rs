//! Taints of nodes and tolerations of pods.

use serde::Deserialize;

/// The only effect that evicts running pods.
pub const NO_EXECUTE: &str = "NoExecute";

/// Set by people or by fencing agents on a node that is known to be down.
pub const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// `v1.Taint`; `timeAdded` is left out because nothing here may depend on it (N-089).
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct Taint {
    /// The key.
    pub key: String,
    /// The value, often empty.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

/// `v1.Toleration`
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct Toleration {
    /// The taint's key; empty matches every key.
    pub key: String,
    /// `Equal` (also when empty) or `Exists`.
    pub operator: String,
    /// Compared for `Equal`.
    pub value: String,
    /// The taint's effect; empty matches every effect.
    pub effect: String,
    /// Seconds the taint is tolerated; absent is for ever.
    pub toleration_seconds: Option<i64>,
}

impl Toleration {
    /// Whether this tolerates `taint`.
    ///
    /// An unknown operator never does, and neither do `Lt` and `Gt`, which are behind a gate that is
    /// off in 1.36 (N-093).
    pub fn tolerates(&self, taint: &Taint) -> bool {
        if !self.effect.is_empty() && self.effect != taint.effect {
            return false;
        }
        if !self.key.is_empty() && self.key != taint.key {
            return false;
        }
        match self.operator.as_str() {
            "" | "Equal" => self.value == taint.value,
            "Exists" => true,
            _ => false,
        }
    }
}
