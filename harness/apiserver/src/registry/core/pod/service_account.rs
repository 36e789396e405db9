//! The admission plugin `ServiceAccount`: each pod runs as a service account and mounts its token. Clusters have it;
//! envtest and `serve` without kubelets do not.
//!
//! See `plugin/pkg/admission/serviceaccount/admission.go`.

use std::collections::BTreeSet;

use crate::json::fields::{array_field, object_or_insert, str_field};
use crate::json::{Value, json};
use crate::metadata;

/// The service account of pods that name none.
pub(crate) const DEFAULT_ACCOUNT: &str = "default";

/// Prefix of the name of the volume with the token; five characters are generated.
pub(crate) const TOKEN_VOLUME_PREFIX: &str = "kube-api-access-";

/// The directory in which containers find the token.
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Validity of the token in seconds. Upstream's number, which tells the plugin's volumes from those of users.
const TOKEN_SECONDS: i64 = 3607;

/// The annotation of accounts whose pods may only use the secrets that the account names.
const ENFORCE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";

/// The annotation of mirror pods, which kubelets create for static pods.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The lists of containers in a pod, with the word for one in messages.
const CONTAINERS: [(&str, &str); 2] = [("initContainers", "init container"), ("containers", "container")];

/// Returns true if a kubelet created the pod for a static one. Such pods are not changed and have no account.
pub(crate) fn is_mirror(pod: &Value) -> bool {
    metadata::annotations(pod).is_some_and(|annotations| annotations.contains_key(MIRROR))
}

/// Returns the reason to refuse a mirror pod.
pub(crate) fn check_mirror(pod: &Value) -> Result<(), &'static str> {
    let spec = &pod["spec"];
    if !str_field(spec, "serviceAccountName").is_empty() {
        return Err("a mirror pod may not reference service accounts");
    }
    if has_secrets(spec) {
        return Err("a mirror pod may not reference secrets");
    }
    let sources = array_field(spec, "volumes").iter().flat_map(|volume| array_field(&volume["projected"], "sources"));
    if sources.into_iter().any(|source| !source["serviceAccountToken"].is_null()) {
        return Err("a mirror pod may not use ServiceAccountToken volume projections");
    }
    Ok(())
}

/// Returns true if a pod refers to a secret: `VisitPodSecretNames`.
fn has_secrets(spec: &Value) -> bool {
    let containers = ["initContainers", "containers", "ephemeralContainers"];
    let from_environment = containers.iter().flat_map(|list| array_field(spec, list)).any(|container| {
        let sources = array_field(container, "envFrom").iter().map(|source| &source["secretRef"]);
        let keys = array_field(container, "env").iter().map(|variable| &variable["valueFrom"]["secretKeyRef"]);
        sources.chain(keys).any(|reference| !reference.is_null())
    });
    let from_volumes = array_field(spec, "volumes").iter().any(|volume| {
        let projected = array_field(&volume["projected"], "sources");
        let source = volume.as_object().into_iter().flatten().map(|(_, source)| source);
        let references = ["secretRef", "nodePublishSecretRef"];
        !volume["secret"].is_null()
            || !volume["azureFile"].is_null()
            || projected.iter().any(|source| !source["secret"].is_null())
            || source.into_iter().any(|source| references.iter().any(|name| !source[*name].is_null()))
    });
    !array_field(spec, "imagePullSecrets").is_empty() || from_environment || from_volumes
}

/// Gives the pod the name of an account if it has none, and returns the name.
pub(crate) fn name_account(pod: &mut Value) -> String {
    let Some(spec) = object_or_insert(pod, "spec") else { return DEFAULT_ACCOUNT.to_owned() };
    let given = spec.get("serviceAccountName").and_then(Value::as_str).unwrap_or_default();
    let name = if given.is_empty() { DEFAULT_ACCOUNT } else { given }.to_owned();
    for field in ["serviceAccountName", "serviceAccount"] {
        spec.insert(field, name.as_str().into());
    }
    name
}

/// A secret of a pod that its service account does not name, although the account is to name all of them.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnreferencedSecret {
    /// The secret of a volume.
    #[error(
        "volume with secret.secretName=\"{secret}\" is not allowed because service account {account} does not reference that secret"
    )]
    Volume { secret: String, account: String },
    /// The secret of a container's variable.
    #[error(
        "{list} {container} with envVar {variable} referencing secret.secretName=\"{secret}\" is not allowed because service account {account} does not reference that secret"
    )]
    Variable { list: &'static str, container: String, variable: String, secret: String, account: String },
    /// A secret for images.
    #[error(
        "imagePullSecrets[{index}].name=\"{secret}\" is not allowed because service account {account} does not reference that imagePullSecret"
    )]
    Image { index: usize, secret: String, account: String },
}

/// Applies the account to the pod: the token's volume, whose name is made by `volume_name`, and the secrets for images.
///
/// # Errors
///
/// A secret that the account does not name, if it is to name all of them.
pub(crate) fn admit(
    pod: &mut Value,
    account: &Value,
    volume_name: impl FnOnce() -> String,
) -> Result<(), UnreferencedSecret> {
    let own = pod["spec"]["automountServiceAccountToken"].as_bool();
    if own.or_else(|| account["automountServiceAccountToken"].as_bool()).unwrap_or(true) {
        mount_token(pod, volume_name);
    }
    let Some(spec) = object_or_insert(pod, "spec") else { return Ok(()) };
    let secrets = array_field(account, "imagePullSecrets");
    if spec.get("imagePullSecrets").and_then(Value::as_array).is_none_or(Vec::is_empty) && !secrets.is_empty() {
        let names = secrets.iter().map(|secret| json!({"name": secret["name"]}));
        spec.insert("imagePullSecrets", names.collect::<Vec<_>>().into());
    }
    let enforced = metadata::annotations(account).and_then(|all| all.get(ENFORCE_SECRETS)).and_then(Value::as_str);
    if matches!(enforced, Some("1" | "t" | "T" | "TRUE" | "true" | "True")) {
        check_secrets(&pod["spec"], account)?;
    }
    Ok(())
}

/// Mounts the token in each container that has nothing at its path, and adds the volume if one needs it.
fn mount_token(pod: &mut Value, volume_name: impl FnOnce() -> String) {
    let spec = &pod["spec"];
    let mounts = |container: &Value| {
        array_field(container, "volumeMounts").iter().any(|mount| str_field(mount, "mountPath") == MOUNT_PATH)
    };
    if CONTAINERS.iter().flat_map(|(list, _)| array_field(spec, list)).all(mounts) {
        return;
    }
    let mut names = array_field(spec, "volumes").iter().map(|volume| str_field(volume, "name"));
    let known = names.find(|name| name.starts_with(TOKEN_VOLUME_PREFIX)).map(str::to_owned);
    let is_new = known.is_none();
    let name = known.unwrap_or_else(volume_name);
    let Some(spec) = object_or_insert(pod, "spec") else { return };
    let mount = json!({"name": name, "readOnly": true, "mountPath": MOUNT_PATH});
    for (list, _) in CONTAINERS {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if !mounts(container) {
                append(container, "volumeMounts", mount.clone());
            }
        }
    }
    if is_new && let Some(spec) = pod.get_mut("spec") {
        append(spec, "volumes", token_volume(&name));
    }
}

/// Appends `value` to the list `field` of `object`.
fn append(object: &mut Value, field: &str, value: Value) {
    let Some(object) = object.as_object_mut() else { return };
    match object.get_mut(field).and_then(Value::as_array_mut) {
        Some(list) => list.push(value),
        None => {
            object.insert(field, Value::Array(vec![value]));
        }
    }
}

/// Returns the volume with the token, the cluster's certificate authority and the namespace.
fn token_volume(name: &str) -> Value {
    let namespace = json!({"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}});
    json!({"name": name, "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]}})
}

/// Refuses secrets that the account does not name.
fn check_secrets(spec: &Value, account: &Value) -> Result<(), UnreferencedSecret> {
    let account_name = || metadata::name(account).to_owned();
    let names = |field: &str| -> BTreeSet<String> {
        array_field(account, field).iter().map(|secret| str_field(secret, "name").to_owned()).collect()
    };
    let mountable = names("secrets");
    let pullable = names("imagePullSecrets");
    for source in array_field(spec, "volumes").iter().map(|volume| &volume["secret"]).filter(|it| !it.is_null()) {
        let secret = str_field(source, "secretName");
        if !mountable.contains(secret) {
            return Err(UnreferencedSecret::Volume { secret: secret.to_owned(), account: account_name() });
        }
    }
    for (list, word) in CONTAINERS {
        for container in array_field(spec, list) {
            for variable in array_field(container, "env") {
                let reference = &variable["valueFrom"]["secretKeyRef"];
                let secret = str_field(reference, "name");
                if !reference.is_null() && !mountable.contains(secret) {
                    return Err(UnreferencedSecret::Variable {
                        list: word,
                        container: str_field(container, "name").to_owned(),
                        variable: str_field(variable, "name").to_owned(),
                        secret: secret.to_owned(),
                        account: account_name(),
                    });
                }
            }
        }
    }
    for (index, reference) in array_field(spec, "imagePullSecrets").iter().enumerate() {
        let secret = str_field(reference, "name");
        if !pullable.contains(secret) {
            return Err(UnreferencedSecret::Image { index, secret: secret.to_owned(), account: account_name() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn admitted(mut pod: Value, account: &Value) -> Result<Value, UnreferencedSecret> {
        name_account(&mut pod);
        admit(&mut pod, account, || "kube-api-access-abcde".to_owned())?;
        Ok(pod["spec"].clone())
    }

    fn account() -> Value {
        json!({"metadata": {"name": "default"}})
    }

    #[test]
    fn a_pod_gets_the_default_account_and_its_token() {
        let pod = json!({"spec": {"initContainers": [{"name": "i"}], "containers": [{"name": "c"}]}});
        let spec = admitted(pod, &account()).unwrap();
        let mount = json!({"name": "kube-api-access-abcde", "readOnly": true, "mountPath": MOUNT_PATH});
        assert_eq!((&spec["serviceAccountName"], &spec["serviceAccount"]), (&json!("default"), &json!("default")));
        for list in ["initContainers", "containers"] {
            assert_eq!(spec[list][0]["volumeMounts"], json!([mount]), "{list}");
        }
        assert_eq!(spec["volumes"], json!([token_volume("kube-api-access-abcde")]));
        assert_eq!(spec.get("imagePullSecrets"), None);
    }

    #[rstest]
    #[case::pod_decides(json!({"automountServiceAccountToken": false}), json!({"automountServiceAccountToken": true}), 0)]
    #[case::account_decides(json!({}), json!({"automountServiceAccountToken": false}), 0)]
    #[case::pod_before_account(json!({"automountServiceAccountToken": true}), json!({"automountServiceAccountToken": false}), 1)]
    #[case::mounted_already(json!({"containers": [{"name": "c", "volumeMounts": [{"name": "v", "mountPath": MOUNT_PATH}]}]}), json!({}), 0)]
    #[case::volume_of_the_user(json!({"volumes": [{"name": "kube-api-access-mine"}]}), json!({}), 1)]
    fn a_token_is_mounted_where_it_is_wanted(#[case] own: Value, #[case] more: Value, #[case] volumes: usize) {
        let mut pod = json!({"spec": {"containers": [{"name": "c"}]}});
        pod["spec"].as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        let mut account = account();
        account.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let spec = admitted(pod, &account).unwrap();
        assert_eq!(array_field(&spec, "volumes").len(), volumes, "{spec}");
    }

    #[test]
    fn secrets_for_images_come_from_the_account_unless_the_pod_has_its_own() {
        let mut account = account();
        account["imagePullSecrets"] = json!([{"name": "registry"}]);
        let pod = json!({"spec": {"containers": []}});
        assert_eq!(admitted(pod, &account).unwrap()["imagePullSecrets"], json!([{"name": "registry"}]));
        let own = json!([{"name": "own"}]);
        let pod = json!({"spec": {"containers": [], "imagePullSecrets": own}});
        assert_eq!(admitted(pod, &account).unwrap()["imagePullSecrets"], own);
    }

    #[rstest]
    #[case(json!({"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}), "volume with secret.secretName=\"s\" is not allowed because service account default does not reference that secret")]
    #[case(json!({"initContainers": [{"name": "i", "env": [{"name": "E", "valueFrom": {"secretKeyRef": {"name": "s"}}}]}]}), "init container i with envVar E referencing secret.secretName=\"s\" is not allowed because service account default does not reference that secret")]
    #[case(json!({"imagePullSecrets": [{"name": "s"}]}), "imagePullSecrets[0].name=\"s\" is not allowed because service account default does not reference that imagePullSecret")]
    fn an_account_can_limit_secrets(#[case] spec: Value, #[case] expected: &str) {
        let pod = json!({"spec": spec});
        let mut account = account();
        assert!(admitted(pod.clone(), &account).is_ok());
        account["metadata"]["annotations"] = json!({ENFORCE_SECRETS: "true"});
        assert_eq!(admitted(pod.clone(), &account).unwrap_err().to_string(), expected);
        account["secrets"] = json!([{"name": "s"}]);
        account["imagePullSecrets"] = json!([{"name": "s"}]);
        assert!(admitted(pod, &account).is_ok());
    }

    #[rstest]
    #[case(json!({"serviceAccountName": "a"}), Err("a mirror pod may not reference service accounts"))]
    #[case(json!({"volumes": [{"secret": {"secretName": "s"}}]}), Err("a mirror pod may not reference secrets"))]
    #[case(json!({"containers": [{"envFrom": [{"secretRef": {"name": "s"}}]}]}), Err("a mirror pod may not reference secrets"))]
    #[case(json!({"volumes": [{"csi": {"nodePublishSecretRef": {"name": "s"}}}]}), Err("a mirror pod may not reference secrets"))]
    #[case(json!({"volumes": [{"projected": {"sources": [{"serviceAccountToken": {}}]}}]}), Err("a mirror pod may not use ServiceAccountToken volume projections"))]
    #[case(json!({"containers": [{"name": "c"}]}), Ok(()))]
    fn mirror_pods_have_no_account(#[case] spec: Value, #[case] expected: Result<(), &str>) {
        let pod = json!({"metadata": {"annotations": {MIRROR: "x"}}, "spec": spec});
        assert!(is_mirror(&pod));
        assert_eq!(check_mirror(&pod), expected);
    }
}
