//! The IP families of services, for a cluster with IPv4 only. See `initIPFamilyFields` in
//! `pkg/registry/core/service/storage/alloc.go`.

use crate::field_errors::{BadValue, ErrorList, Path};
use crate::json::fields::{array_field, is_empty_value, object_or_insert, spec_of, str_field};
use crate::json::{Value, json};
use crate::metadata;
use crate::registry::core::service::fields::{has_cluster_ip, kind_of, needs_address};
use crate::registry::core::service::validation;
use crate::status::Status;

const SPEC: Path<'static> = Path::new("spec");

/// The only family of the cluster.
const CLUSTER_FAMILY: &str = "IPv4";

/// Fills in policy and families, and refuses those that the cluster does not have.
pub(super) fn init(service: &mut Value, old: Option<&Value>) -> Result<(), Status> {
    if !has_cluster_ip(service) {
        return Ok(());
    }
    let name = metadata::name(service).to_owned();
    let errors = checked(service, old);
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid("", "Service", &name, &errors)) }
}

/// Like [`init`], with the errors.
fn checked(service: &mut Value, old: Option<&Value>) -> ErrorList {
    let Some(spec) = object_or_insert(service, "spec") else { return ErrorList::new() };
    let for_any_endpoints =
        spec.get("clusterIP").is_some_and(|ip| ip == "None") && is_empty_value(spec.get("selector"));
    if spec.get("ipFamilyPolicy").is_none_or(Value::is_null) {
        let known = old.and_then(|old| spec_of(old).get("ipFamilyPolicy")).filter(|policy| !policy.is_null()).cloned();
        let usual = if for_any_endpoints { "RequireDualStack" } else { "SingleStack" };
        spec.insert("ipFamilyPolicy", known.unwrap_or_else(|| usual.into()));
    }
    let mut errors = ErrorList::new();
    validation::addresses(spec_of(service), kind_of(service), &mut errors);
    if !errors.is_empty() {
        return errors;
    }
    if let Some(old) = old {
        downgrade(service, old, &mut errors);
    }
    let policy = str_field(spec_of(service), "ipFamilyPolicy").to_owned();
    several(spec_of(service), &policy, &mut errors);
    infer(service, &mut errors);
    let mut families = array_field(spec_of(service), "ipFamilies").to_vec();
    if errors.is_empty() && !for_any_endpoints {
        unconfigured(&families, &policy, &mut errors);
    }
    if !errors.is_empty() {
        return errors;
    }
    if families.is_empty() {
        families.push(CLUSTER_FAMILY.into());
    }
    // Without a selector the endpoints are managed externally and may be of both families.
    if for_any_endpoints && families.len() < 2 && policy != "SingleStack" {
        let other = if families[0] == "IPv4" { "IPv6" } else { "IPv4" };
        families.push(other.into());
    }
    if let Some(spec) = object_or_insert(service, "spec") {
        spec.insert("ipFamilies", Value::Array(families));
    }
    errors
}

/// Lets an update to a single family drop the second one; nothing else does.
fn downgrade(service: &mut Value, old: &Value, errors: &mut ErrorList) {
    let (before, policy) = (spec_of(old), str_field(spec_of(service), "ipFamilyPolicy").to_owned());
    let Some(spec) = object_or_insert(service, "spec") else { return };
    for (field, what) in [("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")] {
        let was = array_field(before, field);
        let now = spec.get(field).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        if policy == "SingleStack" {
            if now == was && now.len() > 1 {
                let first = now[0].clone();
                spec.insert(field.to_owned(), json!([first]));
            }
        } else if !now.is_empty() && now.len() < was.len() {
            let why = format!("must be 'SingleStack' to release the secondary {what}");
            errors.invalid(&SPEC.child("ipFamilyPolicy"), policy.as_str(), why);
        }
    }
}

/// Requires a policy that fits two addresses or families.
fn several(spec: &Value, policy: &str, errors: &mut ErrorList) {
    for (field, what) in [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")] {
        if policy == "SingleStack" && array_field(spec, field).len() == 2 {
            let why = format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
            errors.invalid(&SPEC.child("ipFamilyPolicy"), policy, why);
        }
    }
}

/// Adds the families of addresses that have none.
fn infer(service: &mut Value, errors: &mut ErrorList) {
    let addresses = array_field(spec_of(service), "clusterIPs").to_vec();
    let mut families = array_field(spec_of(service), "ipFamilies").to_vec();
    for (i, address) in addresses.iter().map(|address| address.as_str().unwrap_or_default()).enumerate() {
        if address == "None" {
            break;
        }
        if i < families.len() {
            continue;
        }
        if address.contains(':') {
            let shown = BadValue::from(spec_of(service).get("clusterIPs"));
            errors.invalid(&SPEC.child("clusterIPs").index(i), shown, "IPv6 is not configured on this cluster");
        } else {
            families.push(CLUSTER_FAMILY.into());
        }
    }
    if !families.is_empty()
        && let Some(spec) = object_or_insert(service, "spec")
    {
        spec.insert("ipFamilies", Value::Array(families));
    }
}

fn unconfigured(families: &[Value], policy: &str, errors: &mut ErrorList) {
    if policy == "RequireDualStack" {
        let why = "this cluster is not configured for dual-stack services";
        errors.invalid(&SPEC.child("ipFamilyPolicy"), policy, why);
    }
    for (i, family) in families.iter().enumerate().filter(|(_, family)| **family != CLUSTER_FAMILY) {
        errors.invalid(&SPEC.child("ipFamilies").index(i), family, "not configured on this cluster");
    }
}

/// Returns true if an update of a service that prefers two families changes neither them nor the addresses: it keeps
/// what it has, be it configured or not.
pub(super) fn is_matching_dual_stack(new: &Value, old: &Value) -> bool {
    let (now, before) = (spec_of(new), spec_of(old));
    let prefers = |spec: &Value| str_field(spec, "ipFamilyPolicy") == "PreferDualStack";
    kind_of(new) == kind_of(old)
        && needs_address(kind_of(new))
        && prefers(now)
        && (prefers(before) || before.get("ipFamilyPolicy").is_none_or(Value::is_null))
        && ["clusterIPs", "ipFamilies"].iter().all(|field| array_field(now, field) == array_field(before, field))
}
