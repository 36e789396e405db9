//! Resource quotas: checked before a write and charged with it. Follows
//! `staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go` of Kubernetes 1.36.

use super::field_manager;
use super::request_scope::RequestScope;
use super::write;
use super::write_outcome::WriteTarget;
use crate::json::Value;
use crate::metadata;
use crate::registry::quota;
use crate::status::Status;
use crate::store::ResourceId;

/// Field manager of charges in a quota's status.
const MANAGER: &str = "kube-apiserver";

/// Number of times a charge is retried after a conflict.
const RETRIES: usize = 3;

/// Rejects a write that exceeds the quotas of its namespace; otherwise charges them. As upstream, a write that
/// fails afterwards stays charged until the quota controller recounts.
pub(crate) fn charge(
    scope: &RequestScope<'_>,
    object: &Value,
    old: Option<&Value>,
    dry_run: bool,
) -> Result<(), Status> {
    if !scope.kind.namespaced {
        return Ok(());
    }
    let resource = ResourceId::new("", "resourcequotas");
    let stored = scope.server.list(&resource, Some(&scope.path.namespace));
    let request = quota::QuotaRequest {
        group: &scope.kind.storage.group,
        plural: &scope.kind.storage.resource,
        subresource: &scope.path.subresource,
        object,
        old,
        now: scope.server.clock().now(),
        lookup: scope.server,
    };
    if stored.is_empty() || !request.counts() {
        return Ok(());
    }
    let mut quotas: Vec<Value> = stored.iter().map(|quota| quota.value()).collect();
    let refuse = |why: quota::QuotaError| {
        Status::forbidden(scope.group_resource(), metadata::admitted_name(object), &why.to_string())
    };
    let mut last = None;
    for _ in 0..=RETRIES {
        let charged = quota::add_usage(&quotas, &request).map_err(refuse)?;
        if dry_run {
            return Ok(());
        }
        let mut again = Vec::new();
        for quota in charged {
            if let Err(conflict) = write_quota(scope, &quota) {
                last = Some(conflict);
                again.push(metadata::name(&quota).to_owned());
            }
        }
        if again.is_empty() {
            return Ok(());
        }
        let fresh = again.iter().filter_map(|name| scope.server.get(&resource, &scope.path.namespace, name));
        quotas = fresh.map(|quota| quota.value()).collect();
    }
    last.map_or(Ok(()), Err)
}

fn write_quota(scope: &RequestScope<'_>, quota: &Value) -> Result<(), Status> {
    let name = metadata::name(quota);
    let mut quotas = scope.scope_for("", "v1", "resourcequotas", &scope.path.namespace, name)?;
    "status".clone_into(&mut quotas.path.to_mut().subresource);
    let update =
        &mut |old: Option<&Value>| Ok(field_manager::update_managed_fields(&quotas, old, quota.clone(), MANAGER));
    write::update_internally(&quotas, WriteTarget::Status, update).map(|_| ())
}
