//! The `IPAddress` objects of services: one for each address of the cluster that a service holds, created and removed
//! with it; and the `Endpoints` of its name, which are removed with it. See `ipallocator/ipallocator.go` and
//! `afterDelete` in `storage/storage.go` of `pkg/registry/core/service` of Kubernetes 1.36. Clients see them; the
//! record has only the request for the service.

use crate::json::fields::{array_field, str_field};
use crate::json::{Value, json};
use crate::metadata;
use crate::server::ApiServer;
use crate::store::{CommitResult, EventType, ResourceId};

/// Follows a committed change of a service.
pub(super) fn follow(server: &ApiServer, event: EventType, committed: &CommitResult) {
    if !committed.changed {
        return;
    }
    let before = committed.old.as_ref().map(|old| old.value());
    let after = (event != EventType::Deleted).then(|| committed.new.value());
    let addresses_of = |service: Option<&Value>| -> Vec<String> {
        let all = service.map_or(&[][..], |service| array_field(&service["spec"], "clusterIPs"));
        all.iter().filter_map(Value::as_str).filter(|address| *address != "None").map(str::to_owned).collect()
    };
    let old = addresses_of(before.as_ref());
    let new = addresses_of(after.as_ref());
    let resource = ResourceId::new("networking.k8s.io", "ipaddresses");
    for address in old.iter().filter(|address| !new.contains(address)) {
        let Some(stored) = server.get(&resource, "", address) else { continue };
        let is_own = before.as_ref().is_some_and(|service| is_of(&stored.value(), service));
        // Another write came in between if this fails; then the address is somebody else's.
        if is_own && server.store().delete(&resource, stored.key(), stored.revision()).is_err() {
            tracing::debug!(address, "the address of a service was changed");
        }
    }
    let Some(service) = after else { return before.iter().for_each(|service| remove_endpoints(server, service)) };
    for address in new.iter().filter(|address| !old.contains(address)) {
        if server.get(&resource, "", address).is_some() {
            continue;
        }
        let family = if address.contains(':') { "IPv6" } else { "IPv4" };
        let object = json!({"apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
            "metadata": {"name": address, "labels": {"ipaddress.kubernetes.io/ip-family": family,
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"}},
            "spec": {"parentRef": {"resource": "services", "namespace": metadata::namespace(&service),
                "name": metadata::name(&service)}}});
        if let Err(error) = server.seed([object]) {
            tracing::debug!(address, %error, "the address of a service has no object");
        }
    }
}

/// Removes the `Endpoints` of a service that is gone, so that another one of its name does not begin with them.
fn remove_endpoints(server: &ApiServer, service: &Value) {
    let resource = ResourceId::new("", "endpoints");
    let stored = server.get(&resource, metadata::namespace(service), metadata::name(service));
    if let Some(stored) = stored.filter(|stored| !stored.has_finalizers())
        && server.store().delete(&resource, stored.key(), stored.revision()).is_err()
    {
        tracing::debug!(service = metadata::name(service), "the endpoints of a service were changed");
    }
}

/// Returns true if an address belongs to a service.
fn is_of(address: &Value, service: &Value) -> bool {
    let parent = &address["spec"]["parentRef"];
    str_field(parent, "resource") == "services"
        && str_field(parent, "namespace") == metadata::namespace(service)
        && str_field(parent, "name") == metadata::name(service)
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Method, header};

    use super::*;
    use crate::ApiServerConfig;
    use crate::clock::{Clock, epoch};
    use crate::request::{ApiRequest, ReplyBody};

    async fn send(server: &ApiServer, method: Method, path: &str, body: &Value) -> (u16, Value) {
        let mut request = ApiRequest::new(method, path);
        request.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request.body = body.to_string().into();
        let reply = server.handle(request).await;
        let ReplyBody::Full(bytes) = reply.body else { panic!("no full body") };
        (reply.status, serde_json::from_slice(&bytes).expect("JSON"))
    }

    const SERVICES: &str = "/api/v1/namespaces/default/services";

    /// `afterDelete` in `pkg/registry/core/service/storage/storage.go`; a dry run leaves them.
    #[tokio::test(start_paused = true)]
    async fn endpoints_go_with_their_service() {
        let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
        assert_eq!(send(&server, Method::POST, SERVICES, &service("s", "")).await.0, 201);
        let endpoints = |name: &str| json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": name}});
        for name in ["s", "other"] {
            let made = send(&server, Method::POST, "/api/v1/namespaces/default/endpoints", &endpoints(name)).await;
            assert_eq!(made.0, 201);
        }
        let left = || -> Vec<String> {
            let all = server.list(&ResourceId::new("", "endpoints"), Some("default"));
            all.iter().map(|stored| stored.name().to_owned()).collect()
        };
        let dry = json!({"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]});
        assert_eq!(send(&server, Method::DELETE, &format!("{SERVICES}/s"), &dry).await.0, 200);
        assert_eq!(left(), ["other", "s"]);
        assert_eq!(send(&server, Method::DELETE, &format!("{SERVICES}/s"), &Value::Null).await.0, 200);
        assert_eq!(left(), ["other"]);
    }

    fn service(name: &str, address: &str) -> Value {
        let mut spec = json!({"ports": [{"port": 80}]});
        if !address.is_empty() {
            spec["clusterIP"] = json!(address);
        }
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec})
    }

    fn addresses(server: &ApiServer) -> Vec<String> {
        let all = server.list(&ResourceId::new("networking.k8s.io", "ipaddresses"), None);
        all.iter().map(|address| address.name().to_owned()).collect()
    }

    /// An address exists as long as its service; one that a user took is taken.
    #[tokio::test(start_paused = true)]
    async fn services_and_addresses_agree() {
        let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
        assert_eq!(send(&server, Method::POST, SERVICES, &service("a", "10.0.0.40")).await.0, 201);
        assert_eq!(addresses(&server), ["10.0.0.40"]);
        let headless = service("h", "None");
        assert_eq!(send(&server, Method::POST, SERVICES, &headless).await.0, 201);
        assert_eq!(addresses(&server), ["10.0.0.40"]);
        assert_eq!(send(&server, Method::DELETE, &format!("{SERVICES}/a"), &json!({})).await.0, 200);
        assert_eq!(addresses(&server), [""; 0]);

        let taken = json!({"apiVersion": "networking.k8s.io/v1", "kind": "IPAddress", "metadata": {"name": "10.0.0.41"},
            "spec": {"parentRef": {"group": "example.com", "resource": "things", "name": "t"}}});
        let path = "/apis/networking.k8s.io/v1/ipaddresses";
        assert_eq!(send(&server, Method::POST, path, &taken).await.0, 201);
        let (status, reply) = send(&server, Method::POST, SERVICES, &service("b", "10.0.0.41")).await;
        assert_eq!(status, 422, "{reply}");
        let why = "failed to allocate IP 10.0.0.41: provided IP is already allocated";
        assert!(reply["message"].as_str().unwrap_or_default().contains(why), "{reply}");
    }

    /// A dry run takes neither an address nor a port of nodes: `allocator.DryRun` in
    /// `pkg/registry/core/service/{ipallocator,portallocator}`.
    #[tokio::test(start_paused = true)]
    async fn dry_runs_take_nothing() {
        let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
        let mut wanted = service("a", "10.0.0.40");
        wanted["spec"]["type"] = json!("NodePort");
        wanted["spec"]["ports"][0]["nodePort"] = json!(30_100);
        for _ in 0..2 {
            let (status, reply) = send(&server, Method::POST, &format!("{SERVICES}?dryRun=All"), &wanted).await;
            assert_eq!((status, &reply["spec"]["clusterIP"]), (201, &json!("10.0.0.40")), "{reply}");
            assert_eq!(addresses(&server), [""; 0]);
        }
        assert_eq!(send(&server, Method::POST, SERVICES, &wanted).await.0, 201);
        let path = format!("{SERVICES}/a");
        let (_, mut changed) = send(&server, Method::GET, &path, &Value::Null).await;
        changed["spec"] = json!({"type": "ExternalName", "externalName": "a.b"});
        assert_eq!(send(&server, Method::PUT, &format!("{path}?dryRun=All"), &changed).await.0, 200);
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]});
        assert_eq!(send(&server, Method::DELETE, &path, &options).await.0, 200);
        assert_eq!(addresses(&server), ["10.0.0.40"], "nothing is given back");
        wanted["metadata"]["name"] = json!("b");
        let (status, _) = send(&server, Method::POST, &format!("{SERVICES}?dryRun=All"), &wanted).await;
        assert_eq!(status, 422);
    }

    /// The field is dropped from what is read, but the manager has it: `defaultOnReadInternalTrafficPolicy`.
    #[tokio::test(start_paused = true)]
    async fn external_names_have_no_traffic_policy() {
        let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
        let external = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "e"}, "spec": {
            "type": "ExternalName", "externalName": "a.b", "internalTrafficPolicy": "Local"}});
        let mut request = ApiRequest::new(Method::PATCH, &format!("{SERVICES}/e?fieldManager=m"));
        request.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/apply-patch+yaml"));
        request.body = external.to_string().into();
        assert_eq!(server.handle(request).await.status, 201);
        let (_, found) = send(&server, Method::GET, &format!("{SERVICES}/e"), &Value::Null).await;
        assert_eq!(found["spec"].get("internalTrafficPolicy"), None);
        let owned = &found["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"];
        assert_eq!(owned["f:internalTrafficPolicy"], json!({}), "{found}");
    }
}
