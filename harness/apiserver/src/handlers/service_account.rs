//! The admission plugin `ServiceAccount` for new pods: finds the account that `registry::core::pod::service_account`
//! applies.
//! See `plugin/pkg/admission/serviceaccount/admission.go`.

use std::time::Duration;

use super::request_scope::RequestScope;
use crate::json::Value;
use crate::metadata;
use crate::registry::core::pod::service_account as pod_account;
use crate::registry::{AdmissionPlugin, ObjectLister};
use crate::status::Status;

/// Attempts to find the account `default`, which a controller creates in each new namespace.
const ATTEMPTS: u32 = 10;
/// Time between two attempts. Upstream draws it from 100 to 200 ms.
const RETRY: Duration = Duration::from_millis(100);

/// Applies the plugin to a new object.
pub(super) async fn admit(scope: &RequestScope<'_>, object: &mut Value) -> Result<(), Status> {
    let is_pod = scope.kind.group.is_empty() && scope.kind.plural == "pods";
    if !is_pod || !scope.server.admits_by(AdmissionPlugin::ServiceAccount) {
        return Ok(());
    }
    let pod_name = metadata::name(object).to_owned();
    let admitted_name = metadata::admitted_name(object).to_owned();
    let refuse = |why: &str| Status::forbidden(scope.group_resource(), &admitted_name, why);
    if pod_account::is_mirror(object) {
        return pod_account::check_mirror(object).map_err(refuse);
    }
    let name = pod_account::name_account(object);
    let namespace = &scope.path.namespace;
    let account = find(scope, &name).await.ok_or_else(|| {
        refuse(&format!("error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found"))
    })?;
    let pod = if pod_name.is_empty() { metadata::generate_name(object).to_owned() } else { pod_name.clone() };
    let key = ["", "volumes", &**namespace, &*pod];
    let volume_name = || scope.server.ids().name_of(&key, pod_account::TOKEN_VOLUME_PREFIX);
    pod_account::admit(object, &account, volume_name).map_err(|why| refuse(&why.to_string()))
}

/// Returns the account of this name in the request's namespace. Waits a second for the account `default`.
async fn find(scope: &RequestScope<'_>, name: &str) -> Option<Value> {
    let find = || ObjectLister::get(scope.server, "", "serviceaccounts", &scope.path.namespace, name);
    let attempts = if name == pod_account::DEFAULT_ACCOUNT { ATTEMPTS } else { 1 };
    for _ in 1..attempts {
        if let Some(account) = find() {
            return Some(account);
        }
        wait(scope).await;
    }
    find()
}

/// Waits until the controllers had time to create an account.
async fn wait(scope: &RequestScope<'_>) {
    let clock = scope.server.clock();
    if clock.is_virtual() {
        // Time may stand still until a client turns it; controllers in this process need none.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    } else {
        clock.sleep(RETRY).await;
    }
}
