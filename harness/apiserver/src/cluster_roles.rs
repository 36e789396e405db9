//! Fills aggregated cluster roles with the rules of the roles that they select. See
//! `pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go`.

use std::collections::BTreeSet;

use http::Method;

use crate::backoff::Retries;
use crate::controllers::{ControllerClient, WatchMux, WatchSet};
use crate::json::fields::array_field;
use crate::json::{Map, Value, json};
use crate::metadata;
use crate::registry::label_selector;
use crate::server::ApiServer;
use crate::store::ResourceId;

const PATH: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

/// Fills the roles. Never returns.
pub(crate) async fn aggregate_cluster_roles(server: &ApiServer) {
    let agent = ControllerClient::new(server, "plumbline/clusterrole-aggregation-controller");
    let resource = ResourceId::new("rbac.authorization.k8s.io", "clusterroles");
    let mut feed = WatchMux::new(server, WatchSet::Resources(vec![resource.clone()]));
    let mut retries: Retries<String> = Retries::default();
    loop {
        let is_changed = !feed.next_until(retries.next()).await.is_empty();
        let roles: Vec<Value> = server.list(&resource, None).iter().map(|stored| server.decoded(stored)).collect();
        let mut due: BTreeSet<String> = retries.due(server.clock().now());
        if is_changed {
            let aggregated = roles.iter().filter(|role| role["aggregationRule"].is_object());
            due.extend(aggregated.map(|role| metadata::name(role).to_owned()));
        }
        for role in roles.iter().filter(|role| due.contains(metadata::name(role))) {
            let rules = rules(role, &roles);
            if rules.as_slice() != array_field(role, "rules") {
                let name = metadata::name(role);
                let applied = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                    "metadata": {"name": name}, "rules": rules});
                let path = format!("{PATH}/{name}?fieldManager=clusterrole-aggregation-controller&force=true");
                agent.send(Method::PATCH, &path, "application/apply-patch+yaml", Some(&applied)).await;
            }
        }
        let refused = agent.take_refusal();
        for name in due {
            retries.settle(&name, refused, server.clock().now());
        }
    }
}

/// Returns the rules of the roles that a role selects, each once, in the order of selectors and names.
fn rules(role: &Value, all: &[Value]) -> Vec<Value> {
    let mut rules: Vec<Value> = Vec::new();
    let none = Value::Object(Map::new());
    for selector in array_field(&role["aggregationRule"], "clusterRoleSelectors") {
        for other in all.iter().filter(|other| metadata::name(other) != metadata::name(role)) {
            let labels = other["metadata"].get("labels").filter(|labels| labels.is_object()).unwrap_or(&none);
            if label_selector::matches(Some(selector), Some(labels)) == Some(true) {
                for rule in array_field(other, "rules") {
                    if !rules.contains(rule) {
                        rules.push(rule.clone());
                    }
                }
            }
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ApiServerConfig;
    use crate::clock::{Clock, epoch, run_virtual, settle};
    use crate::service_accounts::publish_service_accounts;

    #[test]
    fn roles_have_the_rules_of_those_that_they_select() {
        run_virtual(async {
            let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
            tokio::spawn(publish_service_accounts(server.clone(), None));
            let client = ControllerClient::new(&server, "user");
            let rule = |resource: &str| json!({"apiGroups": [""], "resources": [resource], "verbs": ["get"]});
            let part = |name: &str, resource: &str| {
                json!({"metadata": {"name": name, "labels": {"part": "yes"}}, "rules": [rule(resource), rule("pods")]})
            };
            let whole = json!({"metadata": {"name": "whole"}, "rules": null,
                "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"part": "yes"}}]}});
            for role in [whole, part("b", "nodes"), part("a", "secrets")] {
                assert!(client.create(PATH, &role).await.is_ok());
            }
            settle().await;
            let rules = || {
                let stored = server.get(&ResourceId::new("rbac.authorization.k8s.io", "clusterroles"), "", "whole");
                stored.expect("the role").value()["rules"].clone()
            };
            assert_eq!(rules(), json!([rule("secrets"), rule("pods"), rule("nodes")]));
            client.delete(&format!("{PATH}/a"), None).await;
            settle().await;
            assert_eq!(rules(), json!([rule("nodes"), rule("pods")]));
            let before = server.revision();
            server.clock().sleep(Duration::from_hours(1)).await;
            assert_eq!(server.revision(), before, "nothing is written without a change");
        })
        .expect("a runtime");
    }
}
