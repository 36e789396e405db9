//! Validation of a write: the kind's rules and those of all metadata. See
//! `staging/src/k8s.io/apiserver/pkg/registry/rest/{create,update}.go`.

use crate::field_errors::{ErrorList, Path};
use crate::json::Value;
use crate::registry::core::namespace;
use crate::registry::core::pod::privileged;
use crate::registry::meta;
use crate::registry::names::NameFormat;
use crate::registry::served_resource::Resource;
use crate::registry::strategy::StrategyContext;

/// Validates a new object: the kind's rules, then (only if those pass) the generic metadata rules.
pub(crate) fn validate_create(kind: &Resource, object: &Value, ctx: &StrategyContext<'_>) -> ErrorList {
    let mut errors = kind.strategy.validate_among_others(object, ctx);
    errors.append(drop_finalizer_errors(kind, kind.strategy.validate(object)));
    errors.append(refused_privileges(kind, object, None, ctx));
    if !errors.is_empty() {
        return errors;
    }
    drop_finalizer_errors(
        kind,
        meta::validate(object, kind.namespaced, NameFormat::PathSegment, &Path::new("metadata")),
    )
}

/// Drops errors about unqualified finalizers for resources whose upstream validation uses apimachinery's metadata
/// rules instead of those of `pkg/apis/core/validation`: custom resources, extension groups and a few others.
fn drop_finalizer_errors(kind: &Resource, errors: ErrorList) -> ErrorList {
    let unasked = matches!(
        (&*kind.group, &*kind.plural),
        ("apiextensions.k8s.io" | "apiregistration.k8s.io" | "admissionregistration.k8s.io", _)
            | ("policy", "poddisruptionbudgets")
            | ("", "events")
            | ("coordination.k8s.io", "leases")
            | ("node.k8s.io", "runtimeclasses")
    );
    if kind.custom.is_none() && !unasked {
        return errors;
    }
    errors.filtered(|error| error.detail != meta::UNQUALIFIED_FINALIZER_MESSAGE)
}

/// Returns the errors of privileged containers on a server that does not allow them. Pods that have them already stay.
fn refused_privileges(kind: &Resource, new: &Value, old: Option<&Value>, ctx: &StrategyContext<'_>) -> ErrorList {
    let is_changed = old.is_none_or(|old| kind.plural != "pods" && new["spec"] != old["spec"]);
    if ctx.lookup.allows_privileged() || !is_changed { ErrorList::new() } else { privileged::refused(kind, new) }
}

/// Validates an update: generic metadata rules first, then the kind's.
pub(crate) fn validate_update(kind: &Resource, new: &Value, old: &Value, ctx: &StrategyContext<'_>) -> ErrorList {
    let mut own = kind.strategy.validate_update(new, old);
    own.append(refused_privileges(kind, new, Some(old), ctx));
    validate_metadata_update(kind, new, old, own)
}

/// Validates a write to `/status`.
pub(crate) fn validate_status_update(kind: &Resource, new: &Value, old: &Value) -> ErrorList {
    validate_metadata_update(kind, new, old, kind.strategy.validate_status_update(new, old))
}

/// Validates a write through a kind-specific subresource.
pub(crate) fn validate_subresource_update(kind: &Resource, subresource: &str, new: &Value, old: &Value) -> ErrorList {
    validate_metadata_update(kind, new, old, kind.strategy.validate_subresource_update(subresource, new, old))
}

/// Validates a write to a namespace's `/finalize`.
pub(crate) fn validate_finalize(new: &Value, old: &Value) -> ErrorList {
    let path = Path::new("metadata");
    let mut errors = meta::validate(new, false, NameFormat::PathSegment, &path);
    errors.append(meta::validate_update(new, old, &path));
    errors.append(namespace::validate_finalize(new, old));
    errors
}

/// Joins the generic metadata errors and the kind's own. Both check for unqualified finalizers, which is reported
/// once.
fn merged(common: ErrorList, own: ErrorList) -> ErrorList {
    let described = own.iter().any(|error| error.detail == meta::UNQUALIFIED_FINALIZER_MESSAGE);
    let mut errors = common.filtered(|error| !described || error.detail != meta::UNQUALIFIED_FINALIZER_MESSAGE);
    errors.append(own);
    errors
}

/// Joins the generic metadata errors of an update and the kind's `own` errors.
fn validate_metadata_update(kind: &Resource, new: &Value, old: &Value, own: ErrorList) -> ErrorList {
    let path = Path::new("metadata");
    let mut common = meta::validate(new, kind.namespaced, NameFormat::PathSegment, &path);
    common.append(meta::validate_update(new, old, &path));
    drop_finalizer_errors(kind, merged(common, own))
}
