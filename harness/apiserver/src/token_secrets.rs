//! Fills secrets of the type `kubernetes.io/service-account-token`, and deletes those whose account is gone. See
//! `pkg/controller/serviceaccount/tokens_controller.go`.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::authn::{Claims, ISSUER};
use crate::backoff::Retries;
use crate::controllers::{ControllerClient, WatchMux, WatchSet};
use crate::json::{Value, json};
use crate::metadata;
use crate::server::ApiServer;
use crate::store::ResourceId;

/// The type of the secrets.
const TYPE: &str = "kubernetes.io/service-account-token";
/// The annotation with the name of the account.
const NAME: &str = "kubernetes.io/service-account.name";
/// The annotation with the uid of the account.
const UID: &str = "kubernetes.io/service-account.uid";
/// The end of tokens that have none: the last second of the year 9999.
const NEVER: i64 = 253_402_300_799;

/// Fills the secrets; `authority` is the certificate authority in PEM. Never returns.
pub(crate) async fn fill_token_secrets(server: &ApiServer, authority: Option<&str>) {
    let agent = ControllerClient::new(server, "plumbline/tokens-controller");
    let [secrets, accounts] = ["secrets", "serviceaccounts"].map(|resource| ResourceId::new("", resource));
    let mut feed = WatchMux::new(server, WatchSet::Resources(vec![secrets.clone(), accounts.clone()]));
    // The names of the secrets of each namespace.
    let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut retries: Retries<(String, String)> = Retries::default();
    loop {
        let mut due = BTreeSet::new();
        let mut touched = BTreeSet::new();
        for (resource, change) in feed.next_until(retries.next()).await {
            if resource == accounts {
                change.add_namespaces(&mut touched);
                continue;
            }
            for stored in change.objects() {
                if stored.field("type") == Some(TYPE) {
                    let namespace = stored.namespace().to_owned();
                    let name = stored.name().to_owned();
                    known.entry(namespace.clone()).or_default().insert(name.clone());
                    due.insert((namespace, name));
                }
            }
        }
        for namespace in touched {
            let names = known.get(&namespace).into_iter().flatten();
            due.extend(names.map(|name| (namespace.clone(), name.clone())));
        }
        due.extend(retries.due(server.clock().now()));
        for key in due {
            if !sync(&agent, [&secrets, &accounts], &key, authority).await
                && let Some(names) = known.get_mut(&key.0)
            {
                names.remove(&key.1);
            }
            retries.settle(&key, agent.take_refusal(), server.clock().now());
        }
    }
}

/// Fills or deletes a secret. Returns false if it does not exist.
async fn sync(
    agent: &ControllerClient,
    [secrets, accounts]: [&ResourceId; 2],
    (namespace, name): &(String, String),
    authority: Option<&str>,
) -> bool {
    let server = agent.server();
    let Some(stored) = server.get(secrets, namespace, name) else { return false };
    let mut secret = stored.value();
    if metadata::is_deleted(&secret) {
        return true;
    }
    let path = format!("/api/v1/namespaces/{namespace}/secrets/{name}");
    let account = metadata::annotation(&secret, NAME).and_then(|account| server.get(accounts, namespace, account));
    let wanted = metadata::annotation(&secret, UID).filter(|uid| !uid.is_empty());
    let Some(account) = account.filter(|account| wanted.is_none_or(|uid| uid == account.uid())) else {
        agent.delete(&path, Some(&json!({"preconditions": {"uid": stored.uid()}}))).await;
        return true;
    };
    let before = secret["data"].clone();
    let is_empty = |field: &str| before[field].as_str().is_none_or(str::is_empty);
    let mut filled = before.as_object().cloned().unwrap_or_default();
    if let Some(authority) = authority {
        filled.insert("ca.crt", STANDARD.encode(authority).into());
    }
    if is_empty("namespace") {
        filled.insert("namespace", STANDARD.encode(namespace).into());
    }
    if is_empty("token") {
        let token = server.tokens().sign(&Claims {
            namespace: namespace.clone(),
            account: account.name().to_owned(),
            uid: account.uid().to_owned(),
            bound: Some(("secret".to_owned(), name.clone(), stored.uid().to_owned())),
            node: None,
            audiences: vec![ISSUER.to_owned()],
            id: stored.uid().to_owned(),
            issued: server.clock().now().as_second(),
            expires: NEVER,
        });
        filled.insert("token", STANDARD.encode(token).into());
    }
    let filled = Value::Object(filled);
    if filled == before {
        return true;
    }
    secret["data"] = filled;
    metadata::set_annotation(&mut secret, NAME, account.name());
    metadata::set_annotation(&mut secret, UID, account.uid());
    agent.replace(&path, &secret).await;
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ApiServerConfig;
    use crate::clock::{Clock, epoch, run_virtual, settle};
    use crate::service_accounts::publish_service_accounts;

    const SECRETS: &str = "/api/v1/namespaces/default/secrets";

    fn secret(name: &str, account: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Secret", "type": TYPE, "metadata": {"name": name, "annotations": {NAME: account}}})
    }

    #[test]
    fn secrets_are_filled_and_go_with_their_account() {
        run_virtual(async {
            let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
            tokio::spawn(publish_service_accounts(server.clone(), Some("pem".to_owned())));
            settle().await;
            let client = ControllerClient::new(&server, "user");
            assert!(client.create(SECRETS, &secret("s", "default")).await.is_ok());
            settle().await;
            let resource = ResourceId::new("", "secrets");
            let found = server.get(&resource, "default", "s").expect("the secret").value();
            let account =
                server.get(&ResourceId::new("", "serviceaccounts"), "default", "default").expect("an account");
            assert_eq!(metadata::annotation(&found, UID), Some(account.uid()));
            let text = |field: &str| {
                let bytes = STANDARD.decode(found["data"][field].as_str().unwrap_or_default()).expect("base 64");
                String::from_utf8(bytes).expect("text")
            };
            assert_eq!((text("ca.crt"), text("namespace")), ("pem".to_owned(), "default".to_owned()));
            let claims = server.valid_token(&text("token")).expect("a valid token");
            assert_eq!(claims.user().name, "system:serviceaccount:default:default");

            assert!(client.delete("/api/v1/namespaces/default/serviceaccounts/default", None).await.is_ok());
            settle().await;
            assert!(server.get(&resource, "default", "s").is_none());
            assert!(server.valid_token(&text("token")).is_none());
            assert!(client.create(SECRETS, &secret("lost", "missing")).await.is_ok());
            settle().await;
            assert!(server.get(&resource, "default", "lost").is_none());
        })
        .expect("a runtime");
    }
}
