//! The config maps and secrets that a pod needs before its volumes are mounted or its containers start. PURE. See
//! `makeEnvironmentVariables` in `pkg/kubelet/kubelet_pods.go`, and `pkg/volume/configmap`, `secret` and `projected`.

use crate::json::Value;
use crate::json::fields::{array_field, str_field};
use crate::metadata;

/// The config map of the cluster's certificates, which is mounted in each pod. A loop makes it, which need not run.
const ROOT_CA: &str = "kube-root-ca.crt";

/// A kind of object with data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConfigKind {
    ConfigMap,
    Secret,
}

impl ConfigKind {
    /// Returns the plural name of the resource.
    pub(super) fn plural(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmaps",
            Self::Secret => "secrets",
        }
    }

    fn missing(self, name: &str) -> String {
        let kind = if self == Self::ConfigMap { "configmap" } else { "secret" };
        format!("{kind} {name:?} not found")
    }

    fn missing_key(self, namespace: &str, name: &str, key: &str) -> String {
        let kind = if self == Self::ConfigMap { "ConfigMap" } else { "Secret" };
        format!("couldn't find key {key} in {kind} {namespace}/{name}")
    }

    fn missing_file(self, key: &str) -> String {
        match self {
            Self::ConfigMap => format!("configmap references non-existent config key: {key}"),
            Self::Secret => format!("references non-existent secret key: {key}"),
        }
    }
}

/// Looks up a config map or secret of the pod's namespace.
pub(super) type Lookup<'l> = dyn Fn(ConfigKind, &str) -> Option<Value> + 'l;

/// Returns true if a pod refers to config maps or secrets.
pub(super) fn has_any(pod: &Value) -> bool {
    let containers = ["initContainers", "containers"].into_iter().flat_map(|list| array_field(&pod["spec"], list));
    let mut volumes = array_field(&pod["spec"], "volumes").iter();
    volumes.any(|volume| ["configMap", "secret", "projected"].iter().any(|kind| volume[*kind].is_object()))
        || containers.into_iter().any(|container| {
            let mut env = array_field(container, "env").iter();
            !array_field(container, "envFrom").is_empty() || env.any(|one| one["valueFrom"].is_object())
        })
}

/// Returns the names of the pod's volumes that cannot be mounted, with the reasons.
pub(super) fn unmounted(pod: &Value, lookup: &Lookup<'_>) -> Vec<(String, String)> {
    let volumes = array_field(&pod["spec"], "volumes").iter();
    let problems = volumes.filter_map(|volume| {
        let own = source_problem(volume, lookup);
        let projected =
            || array_field(&volume["projected"], "sources").iter().find_map(|one| source_problem(one, lookup));
        Some((str_field(volume, "name").to_owned(), own.or_else(projected)?))
    });
    problems.collect()
}

fn source_problem(source: &Value, lookup: &Lookup<'_>) -> Option<String> {
    let secret = &source["secret"];
    // The volume has another name for the field than the projection.
    let secret_name = secret["secretName"].as_str().unwrap_or_else(|| str_field(secret, "name"));
    if secret.is_object() {
        return volume_problem(ConfigKind::Secret, secret, secret_name, lookup);
    }
    let map = &source["configMap"];
    let name = str_field(map, "name");
    if !map.is_object() || name == ROOT_CA {
        return None;
    }
    volume_problem(ConfigKind::ConfigMap, map, name, lookup)
}

fn volume_problem(kind: ConfigKind, source: &Value, name: &str, lookup: &Lookup<'_>) -> Option<String> {
    if source["optional"] == true {
        return None;
    }
    let Some(object) = lookup(kind, name) else { return Some(kind.missing(name)) };
    let mut keys = array_field(source, "items").iter().map(|item| str_field(item, "key"));
    keys.find(|key| !has_key(&object, key)).map(|key| kind.missing_file(key))
}

fn has_key(object: &Value, key: &str) -> bool {
    ["data", "binaryData"].iter().any(|field| object[*field].get(key).is_some())
}

/// Returns why a container cannot start.
pub(super) fn container_problem(pod: &Value, container: &Value, lookup: &Lookup<'_>) -> Option<String> {
    let namespace = metadata::namespace(pod);
    let all = array_field(container, "envFrom").iter().find_map(|source| {
        let refs = [(ConfigKind::ConfigMap, &source["configMapRef"]), (ConfigKind::Secret, &source["secretRef"])];
        refs.into_iter().find_map(|(kind, given)| {
            let name = str_field(given, "name");
            let is_missing = given.is_object() && given["optional"] != true && lookup(kind, name).is_none();
            is_missing.then(|| kind.missing(name))
        })
    });
    let one = || {
        array_field(container, "env").iter().find_map(|variable| {
            let from = &variable["valueFrom"];
            let refs = [(ConfigKind::ConfigMap, &from["configMapKeyRef"]), (ConfigKind::Secret, &from["secretKeyRef"])];
            refs.into_iter().filter(|(_, given)| given.is_object() && given["optional"] != true).find_map(
                |(kind, given)| {
                    let name = str_field(given, "name");
                    let key = str_field(given, "key");
                    let Some(object) = lookup(kind, name) else { return Some(kind.missing(name)) };
                    (object["data"].get(key).is_none()).then(|| kind.missing_key(namespace, name, key))
                },
            )
        })
    };
    all.or_else(one)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::json::json;

    /// The config map and the secret `there` with the key `k`.
    fn there(_: ConfigKind, name: &str) -> Option<Value> {
        (name == "there").then(|| json!({"data": {"k": "v"}}))
    }

    #[rstest]
    #[case(json!({"configMap": {"name": "there"}}), None)]
    #[case(json!({"configMap": {"name": "gone"}}), Some("configmap \"gone\" not found"))]
    #[case(json!({"configMap": {"name": "gone", "optional": true}}), None)]
    #[case(json!({"configMap": {"name": "there", "items": [{"key": "x", "path": "p"}]}}), Some("configmap references non-existent config key: x"))]
    #[case(json!({"secret": {"secretName": "gone"}}), Some("secret \"gone\" not found"))]
    #[case(json!({"secret": {"secretName": "there", "items": [{"key": "x", "path": "p"}]}}), Some("references non-existent secret key: x"))]
    #[case(json!({"projected": {"sources": [{"serviceAccountToken": {}}, {"configMap": {"name": "kube-root-ca.crt"}}]}}), None)]
    #[case(json!({"projected": {"sources": [{"secret": {"name": "gone"}}]}}), Some("secret \"gone\" not found"))]
    #[case(json!({"emptyDir": {}}), None)]
    fn volumes_need_their_objects(#[case] volume: Value, #[case] expected: Option<&str>) {
        let mut volume = volume;
        volume["name"] = json!("v");
        let pod = json!({"spec": {"volumes": [volume]}});
        let expected: Vec<(String, String)> =
            expected.map(|why| ("v".to_owned(), why.to_owned())).into_iter().collect();
        assert_eq!(unmounted(&pod, &there), expected);
    }

    #[rstest]
    #[case(json!({"envFrom": [{"configMapRef": {"name": "gone"}}]}), Some("configmap \"gone\" not found"))]
    #[case(json!({"envFrom": [{"secretRef": {"name": "gone", "optional": true}}]}), None)]
    #[case(json!({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "gone", "key": "k"}}}]}), Some("secret \"gone\" not found"))]
    #[case(json!({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "there", "key": "x"}}}]}), Some("couldn't find key x in Secret d/there"))]
    #[case(json!({"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "there", "key": "x"}}}]}), Some("couldn't find key x in ConfigMap d/there"))]
    #[case(json!({"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "there", "key": "x", "optional": true}}}]}), None)]
    #[case(json!({"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "there", "key": "k"}}}]}), None)]
    #[case(json!({"env": [{"name": "A", "value": "b"}]}), None)]
    fn containers_need_their_variables(#[case] container: Value, #[case] expected: Option<&str>) {
        let pod = json!({"metadata": {"namespace": "d"}, "spec": {"containers": [container]}});
        assert_eq!(container_problem(&pod, &container, &there).as_deref(), expected);
        assert!(has_any(&pod) || container["env"][0]["valueFrom"].is_null());
    }
}
