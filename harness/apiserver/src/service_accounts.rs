//! The controllers that fill new namespaces, optional: each namespace gets the service account `default` and the config
//! map `kube-root-ca.crt`. They follow `pkg/controller/serviceaccount/serviceaccounts_controller.go` and
//! `pkg/controller/certificates/rootcacertpublisher/publisher.go`.

use std::collections::BTreeSet;

use crate::backoff::Retries;
use crate::cluster_roles::aggregate_cluster_roles;
use crate::controllers::{ControllerClient, MERGE_PATCH, WatchMux, WatchSet};
use crate::json::{Value, json};
use crate::metadata;
use crate::server::ApiServer;
use crate::store::ResourceId;
use crate::token_secrets::fill_token_secrets;

/// Name of the service account.
const ACCOUNT: &str = "default";

/// Name of the config map with the certificate authority.
const AUTHORITY: &str = "kube-root-ca.crt";

/// The annotation of that config map, and its text.
const DESCRIPTION: (&str, &str) = (
    "kubernetes.io/description",
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the \
     internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes \
     clusters.",
);

/// Creates the service account `default` in each active namespace and, if there is an `authority` (in PEM), the config
/// map `kube-root-ca.crt`. Creates them again when they are deleted, and restores the config map's data. Fills token
/// secrets of service accounts and aggregated cluster roles as well. Never returns.
pub async fn publish_service_accounts(server: ApiServer, authority: Option<String>) {
    futures::join!(
        fill_namespaces(&server, authority.as_deref()),
        fill_token_secrets(&server, authority.as_deref()),
        aggregate_cluster_roles(&server),
    );
}

/// Creates the accounts and config maps.
async fn fill_namespaces(server: &ApiServer, authority: Option<&str>) {
    let accounts = ControllerClient::new(server, "plumbline/service-account-controller");
    let publisher = accounts.named("plumbline/root-ca-cert-publisher");
    let [namespaces, account, map] =
        ["namespaces", "serviceaccounts", "configmaps"].map(|resource| ResourceId::new("", resource));
    let watched = vec![namespaces.clone(), account.clone(), map.clone()];
    let mut feed = WatchMux::new(server, WatchSet::Resources(watched));
    let mut retries: Retries<String> = Retries::default();
    loop {
        let mut touched: BTreeSet<String> = BTreeSet::new();
        for (resource, change) in feed.next_until(retries.next()).await {
            for object in change.objects() {
                if resource == namespaces {
                    touched.insert(object.name().to_owned());
                } else if matches!(object.name(), ACCOUNT | AUTHORITY) {
                    touched.insert(object.namespace().to_owned());
                }
            }
        }
        touched.extend(retries.due(server.clock().now()));
        retries.retain(|namespace| is_active(server, namespace));
        for namespace in touched.into_iter().filter(|namespace| is_active(server, namespace)) {
            if server.get(&account, &namespace, ACCOUNT).is_none() {
                let object = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}});
                accounts.create(&format!("/api/v1/namespaces/{namespace}/serviceaccounts"), &object).await;
            }
            if let Some(authority) = authority {
                publish_authority(&publisher, &map, &namespace, authority).await;
            }
            retries.settle(&namespace, accounts.take_refusal(), server.clock().now());
        }
    }
}

fn is_active(server: &ApiServer, namespace: &str) -> bool {
    let found = server.get(&ResourceId::new("", "namespaces"), "", namespace);
    found.is_some_and(|stored| !metadata::is_deleted(&stored.value()))
}

async fn publish_authority(publisher: &ControllerClient, map: &ResourceId, namespace: &str, authority: &str) {
    let collection = format!("/api/v1/namespaces/{namespace}/configmaps");
    let data = json!({"ca.crt": authority});
    match publisher.server().get(map, namespace, AUTHORITY) {
        None => {
            let (annotation, text) = DESCRIPTION;
            let metadata = json!({"name": AUTHORITY, "annotations": {annotation: text}});
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
            publisher.create(&collection, &object).await;
        }
        Some(stored) if stored.value().get("data") != Some(&data) => {
            // Fields that are not the authority's are removed.
            let known = stored.value();
            let mut patch = data;
            for name in known["data"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()) {
                if name != "ca.crt" {
                    patch[name] = Value::Null;
                }
            }
            publisher.patch(&format!("{collection}/{AUTHORITY}"), MERGE_PATCH, &json!({"data": patch})).await;
        }
        Some(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::ApiServerConfig;
    use crate::clock::{Clock, epoch, run_virtual, settle};

    #[test]
    fn namespaces_get_an_account_and_the_authority_again_and_again() {
        run_virtual(async {
            let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
            tokio::spawn(publish_service_accounts(server.clone(), Some("PEM".to_owned())));
            let client = ControllerClient::new(&server, "user");
            let shop = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
            assert!(client.create("/api/v1/namespaces", &shop).await.is_ok());
            settle().await;
            let account = "/api/v1/namespaces/shop/serviceaccounts/default";
            let map = "/api/v1/namespaces/shop/configmaps/kube-root-ca.crt";
            for path in ["/api/v1/namespaces/kube-system/serviceaccounts/default", account, map] {
                assert!(client.send(Method::GET, path, "", None).await.is_ok(), "{path}");
            }
            assert!(client.delete(account, None).await.is_ok());
            assert!(client.patch(map, MERGE_PATCH, &json!({"data": {"ca.crt": "?", "more": "x"}})).await.is_ok());
            settle().await;
            assert!(client.send(Method::GET, account, "", None).await.is_ok(), "it is created again");
            let body = client.send(Method::GET, map, "", None).await.body();
            assert_eq!(body["data"], json!({"ca.crt": "PEM"}));
        })
        .unwrap();
    }
}
