//! Taints of nodes and tolerations of pods.

use serde::Deserialize;

use super::intern::{Hasher, Internable, InternedStr, Interner};
use super::protobuf::{Fields, ProtoError};

/// The only effect that evicts running pods.
pub const NO_EXECUTE: &str = "NoExecute";

/// Set by administrators or fencing agents on a node that is known to be down.
pub const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// `v1.Taint`; `timeAdded` is left out because no decision may depend on it (N-089).
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct Taint {
    /// The taint's key.
    pub key: InternedStr,
    /// The taint's value, often empty.
    pub value: InternedStr,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: InternedStr,
}

/// `v1.Toleration`
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct Toleration {
    /// The taint's key; empty matches every key.
    pub key: InternedStr,
    /// `Equal` (also when empty) or `Exists`.
    pub operator: InternedStr,
    /// The taint's value; compared for `Equal`.
    pub value: InternedStr,
    /// The taint's effect; empty matches every effect.
    pub effect: InternedStr,
    /// Seconds for which the taint is tolerated; absent means forever.
    pub toleration_seconds: Option<i64>,
}

impl Internable for Taint {
    fn interner() -> &'static Interner<[Self]> {
        static INTERNER: Interner<[Taint]> = Interner::new();
        &INTERNER
    }

    fn digest(&self, hasher: Hasher) -> Hasher {
        hasher.text(&self.key).text(&self.value).text(&self.effect)
    }
}

impl Internable for Toleration {
    fn interner() -> &'static Interner<[Self]> {
        static INTERNER: Interner<[Toleration]> = Interner::new();
        &INTERNER
    }

    fn digest(&self, hasher: Hasher) -> Hasher {
        let hasher = hasher.text(&self.key).text(&self.operator).text(&self.value).text(&self.effect);
        hasher.number(self.toleration_seconds.unwrap_or(i64::MIN))
    }
}

/// Decodes a protobuf `v1.Taint`.
pub(super) fn taint(message: Fields<'_>) -> Result<Taint, ProtoError> {
    let mut taint = Taint::default();
    for field in message {
        match field? {
            (1, value) => taint.key = value.text()?.into(),
            (2, value) => taint.value = value.text()?.into(),
            (3, value) => taint.effect = value.text()?.into(),
            _ => {}
        }
    }
    Ok(taint)
}

/// Decodes a protobuf `v1.Toleration`.
pub(super) fn toleration(message: Fields<'_>) -> Result<Toleration, ProtoError> {
    let mut toleration = Toleration::default();
    for field in message {
        match field? {
            (1, value) => toleration.key = value.text()?.into(),
            (2, value) => toleration.operator = value.text()?.into(),
            (3, value) => toleration.value = value.text()?.into(),
            (4, value) => toleration.effect = value.text()?.into(),
            (5, value) => toleration.toleration_seconds = Some(value.integer()?),
            _ => {}
        }
    }
    Ok(toleration)
}

impl Toleration {
    /// Returns true if this tolerates `taint`.
    ///
    /// An unknown operator never does, and neither do `Lt` and `Gt`, which are behind a feature gate that is off in
    /// 1.36 (N-093).
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
