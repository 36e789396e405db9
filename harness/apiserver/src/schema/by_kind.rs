//! The schemas of built-in kinds by `apiVersion` and `kind`; upstream's are in `pkg/api/legacyscheme`. PURE.

use std::sync::Arc;

use super::builtin_types::{builtin, is_object};
use super::tables;
use super::types::Schema;

/// Object types of the tables that are no kinds of the API.
const NOT_SERVED: [&str; 2] = ["PodStatusResult", "RangeAllocation"];

/// Returns the schema of a built-in kind by apiVersion and kind.
pub(crate) fn schema_of(api_version: &str, kind: &str) -> Option<Arc<Schema>> {
    match kind {
        "Scale" => builtin("io.k8s.api.autoscaling.v1.Scale"),
        "Eviction" => builtin("io.k8s.api.policy.v1.Eviction"),
        "TokenRequest" => builtin("io.k8s.api.authentication.v1.TokenRequest"),
        "DeleteOptions" => builtin("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"),
        _ => {
            let package = tables::PACKAGES.iter().position(|package| package.api_version == Some(api_version))?;
            let known = is_object(package, kind) && !NOT_SERVED.contains(&kind);
            if known { builtin(&format!("{}.{kind}", tables::PACKAGES[package].prefix)) } else { None }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;
    use crate::schema::builtin_names;

    const BODIES: [&str; 3] = ["Eviction", "Scale", "TokenRequest"];

    #[test]
    fn every_built_in_kind_has_its_schema() {
        for kind in Registry::builtin().kinds() {
            let found = schema_of(&kind.api_version(), &kind.kind);
            let own = builtin(&kind.schema);
            let same = found.zip(own).is_some_and(|(found, own)| Arc::ptr_eq(&found, &own));
            assert!(same, "{} {}", kind.api_version(), kind.kind);
        }
    }

    #[test]
    fn other_types_are_no_kinds() {
        let registry = Registry::builtin();
        let versions: Vec<String> = registry.kinds().map(|kind| kind.api_version()).collect();
        for name in builtin_names() {
            let short = name.rsplit('.').next().unwrap();
            if BODIES.contains(&short) || short == "DeleteOptions" {
                continue;
            }
            for version in &versions {
                let (group, number) = version.split_once('/').unwrap_or(("", version));
                let served = registry.resource_for_kind(group, number, short).is_some();
                assert_eq!(schema_of(version, short).is_some(), served, "{version} {short}");
            }
        }
        assert!(schema_of("apps.example.com/v1", "Deployment").is_none());
    }
}
