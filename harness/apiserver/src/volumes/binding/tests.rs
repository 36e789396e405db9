//! Tests of the binding of claims.

use std::time::Duration;

use super::*;
use crate::ApiServerConfig;
use crate::clock::{Clock, epoch, run_virtual, settle};
use crate::volumes::release_volumes;

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";

/// Runs a test with both controllers; they write nothing once nothing changes.
async fn world(test: impl AsyncFnOnce(&ApiServer, &ControllerClient)) {
    let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
    tokio::spawn(bind_volumes(server.clone()));
    tokio::spawn(release_volumes(server.clone()));
    test(&server, &ControllerClient::new(&server, "user")).await;
    let before = server.transcript().len();
    server.clock().sleep(Duration::from_hours(1)).await;
    assert_eq!(server.transcript().len(), before, "nothing is written without a change");
}

fn claim(name: &str, class: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": {
        "storageClassName": class, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})
}

fn volume(name: &str, policy: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {
        "persistentVolumeReclaimPolicy": policy, "capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/v"}}})
}

async fn made(client: &ControllerClient, path: &str, object: &Value) {
    let reply = client.create(path, object).await;
    assert!(reply.is_ok(), "{}", reply.body());
}

fn get(server: &ApiServer, resource: &str, name: &str) -> Option<Value> {
    let namespace = if resource == "persistentvolumes" { "" } else { "default" };
    server.get(&ResourceId::new("", resource), namespace, name).map(|stored| stored.value())
}

#[test]
fn a_claim_gets_a_volume_which_is_released_with_it() {
    run_virtual(world(async |server, client| {
        made(client, CLAIMS, &claim("c", "")).await;
        settle().await;
        let shown = |name: &str| get(server, "persistentvolumeclaims", name).expect("the claim");
        assert_eq!(shown("c")["status"], json!({"phase": "Pending"}));
        made(client, VOLUMES, &volume("v", "Retain")).await;
        settle().await;
        let bound = shown("c");
        assert_eq!(bound["spec"]["volumeName"], "v");
        let status = json!({"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"}});
        assert_eq!(bound["status"], status);
        assert_eq!(metadata::annotation(&bound, BIND_COMPLETED), Some("yes"));
        assert_eq!(metadata::annotation(&bound, BOUND_BY_CONTROLLER), Some("yes"));
        let volume = get(server, "persistentvolumes", "v").expect("the volume");
        assert_eq!(
            (&volume["status"]["phase"], &volume["spec"]["claimRef"]["uid"]),
            (&json!("Bound"), &bound["metadata"]["uid"])
        );
        // A second claim does not get the same volume.
        made(client, CLAIMS, &claim("d", "")).await;
        settle().await;
        assert_eq!(shown("d")["status"]["phase"], "Pending");
        assert!(client.delete(&format!("{CLAIMS}/c"), None).await.is_ok());
        settle().await;
        assert_eq!(get(server, "persistentvolumes", "v").expect("it is kept")["status"]["phase"], "Released");
        // The claim of the same name is another one.
        made(client, CLAIMS, &claim("c", "")).await;
        settle().await;
        assert_eq!(shown("c")["status"]["phase"], "Pending");
        // An administrator frees the volume; it goes to the first claim by name.
        client.patch(&format!("{VOLUMES}/v"), MERGE_PATCH, &json!({"spec": {"claimRef": null}})).await;
        settle().await;
        assert_eq!(
            (shown("c")["status"]["phase"].clone(), shown("d")["status"]["phase"].clone()),
            (json!("Bound"), json!("Pending"))
        );
    }))
    .expect("a runtime");
}

#[test]
fn volumes_and_claims_that_name_each_other_are_bound() {
    run_virtual(world(async |server, client| {
        let mut named = claim("named", "");
        named["spec"]["volumeName"] = json!("v");
        made(client, CLAIMS, &named).await;
        let mut reserved = volume("r", "Delete");
        reserved["spec"]["claimRef"] = json!({"namespace": "default", "name": "later"});
        made(client, VOLUMES, &reserved).await;
        settle().await;
        assert_eq!(get(server, "persistentvolumes", "r").expect("r")["status"]["phase"], "Available");
        for (path, object) in [(VOLUMES, volume("v", "Retain")), (CLAIMS, claim("later", ""))] {
            made(client, path, &object).await;
        }
        settle().await;
        for (name, volume) in [("named", "v"), ("later", "r")] {
            let claim = get(server, "persistentvolumeclaims", name).expect(name);
            assert_eq!((&claim["spec"]["volumeName"], &claim["status"]["phase"]), (&json!(volume), &json!("Bound")));
        }
        // The policy Delete, of a volume that a user has made on a host.
        assert!(client.delete(&format!("{CLAIMS}/later"), None).await.is_ok());
        settle().await;
        let message = "host_path deleter only supports /tmp/.+ but received provided /v";
        let status = get(server, "persistentvolumes", "r").expect("it is kept")["status"].clone();
        assert_eq!((&status["phase"], &status["message"]), (&json!("Failed"), &json!(message)));
        // A bound claim whose volume is taken away is lost.
        let open = json!({"metadata": {"finalizers": null}});
        client.patch(&format!("{VOLUMES}/v"), MERGE_PATCH, &open).await;
        assert!(client.delete(&format!("{VOLUMES}/v"), None).await.is_ok());
        settle().await;
        assert_eq!(get(server, "persistentvolumeclaims", "named").expect("named")["status"], json!({"phase": "Lost"}));
    }))
    .expect("a runtime");
}

#[test]
fn kinds_class_makes_a_volume_on_the_node_of_the_pod() {
    run_virtual(world(async |server, client| {
        let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": LOCAL_PATH,
            "metadata": {"name": "standard"}, "volumeBindingMode": "WaitForFirstConsumer", "reclaimPolicy": "Delete"});
        made(client, "/apis/storage.k8s.io/v1/storageclasses", &class).await;
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"kubernetes.io/hostname": "n"}}});
        made(client, "/api/v1/nodes", &node).await;
        made(client, CLAIMS, &claim("c", "standard")).await;
        settle().await;
        assert_eq!(get(server, "persistentvolumeclaims", "c").expect("c")["status"]["phase"], "Pending");
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": "n",
            "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}});
        made(client, "/api/v1/namespaces/default/pods", &pod).await;
        settle().await;
        let claim = get(server, "persistentvolumeclaims", "c").expect("c");
        let name = format!("pvc-{}", metadata::uid(&claim));
        assert_eq!((&claim["spec"]["volumeName"], &claim["status"]["phase"]), (&json!(name), &json!("Bound")));
        let volume = get(server, "persistentvolumes", &name).expect("the volume");
        assert_eq!(volume["status"]["phase"], "Bound");
        assert_eq!(metadata::annotation(&volume, PROVISIONED_BY), Some(LOCAL_PATH));
        for path in ["/api/v1/namespaces/default/pods/p?gracePeriodSeconds=0", &format!("{CLAIMS}/c")] {
            assert!(client.delete(path, None).await.is_ok(), "{path}");
        }
        settle().await;
        assert!(get(server, "persistentvolumes", &name).is_none());
    }))
    .expect("a runtime");
}

/// See `syncUnboundClaim` in `pkg/controller/volume/persistentvolume/pv_controller.go`.
#[test]
fn a_claim_that_waits_says_why() {
    run_virtual(world(async |server, client| {
        tokio::spawn(crate::events::publish_events(server.clone()));
        settle().await;
        let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "example.com/x",
            "metadata": {"name": "late"}, "volumeBindingMode": "WaitForFirstConsumer"});
        made(client, "/apis/storage.k8s.io/v1/storageclasses", &class).await;
        for (name, class) in [("late", "late"), ("none", ""), ("unknown", "missing")] {
            made(client, CLAIMS, &claim(name, class)).await;
        }
        settle().await;
        let mut found: Vec<(String, String, String)> = server
            .list(&ResourceId::new("", "events"), None)
            .iter()
            .map(|stored| {
                let event = stored.value();
                let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
                (text(&event["involvedObject"]["name"]), text(&event["reason"]), text(&event["type"]))
            })
            .collect();
        found.sort();
        let expected = [
            ("late", "WaitForFirstConsumer", "Normal"),
            ("none", "FailedBinding", "Normal"),
            ("unknown", "ProvisioningFailed", "Warning"),
        ];
        let expected = expected.map(|(name, reason, kind)| (name.to_owned(), reason.to_owned(), kind.to_owned()));
        assert_eq!(found, expected);
    }))
    .expect("a runtime");
}

/// See `assignDefaultStorageClass` in `pkg/controller/volume/persistentvolume/pv_controller.go`.
#[test]
fn a_claim_without_a_class_gets_the_default_one_later() {
    run_virtual(world(async |server, client| {
        let mut unclassed = claim("c", "");
        unclassed["spec"]["storageClassName"] = Value::Null;
        made(client, CLAIMS, &unclassed).await;
        made(client, CLAIMS, &claim("none", "")).await;
        settle().await;
        let mut class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
            "provisioner": "example.com/x", "metadata": {"name": "standard"}});
        metadata::set_annotation(&mut class, default_class::STORAGE_CLASS[0], "true");
        made(client, "/apis/storage.k8s.io/v1/storageclasses", &class).await;
        settle().await;
        let class = |name: &str| {
            let claim = get(server, "persistentvolumeclaims", name).expect("a claim");
            claim["spec"]["storageClassName"].clone()
        };
        assert_eq!((class("c"), class("none")), (json!("standard"), json!("")));
    }))
    .expect("a runtime");
}

/// `syncHandler` of the expand controller: an event each time a claim grows.
#[test]
fn a_claim_that_grows_waits_for_a_resizer() {
    run_virtual(world(async |server, client| {
        tokio::spawn(crate::events::publish_events(server.clone()));
        let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "c"},
            "provisioner": "a.b", "allowVolumeExpansion": true});
        made(client, "/apis/storage.k8s.io/v1/storageclasses", &class).await;
        let mut own = volume("v", "Retain");
        own["spec"]["storageClassName"] = json!("c");
        made(client, VOLUMES, &own).await;
        made(client, CLAIMS, &claim("c", "c")).await;
        settle().await;
        let counts = || -> Vec<i64> {
            let events = server.list(&ResourceId::new("", "events"), Some("default"));
            let events = events.iter().map(|event| event.value());
            let of_growth = events.filter(|event| event["reason"] == "ExternalExpanding");
            of_growth.filter_map(|event| event["count"].as_i64()).collect()
        };
        assert_eq!(counts(), [0_i64; 0]);
        for (size, expected) in [("5Gi", 1), ("6Gi", 2)] {
            let growth = json!({"spec": {"resources": {"requests": {"storage": size}}}});
            let patched = client.patch(&format!("{CLAIMS}/c"), MERGE_PATCH, &growth).await;
            assert!(patched.is_ok(), "{}", patched.message());
            let label = json!({"metadata": {"labels": {"size": size}}});
            client.patch(&format!("{CLAIMS}/c"), MERGE_PATCH, &label).await;
            settle().await;
            assert_eq!(counts(), [expected]);
        }
        // What an external resizer writes; the kubelet of the first pod does the rest.
        let grown = json!({"spec": {"capacity": {"storage": "6Gi"}}});
        assert!(client.patch(&format!("{VOLUMES}/v"), MERGE_PATCH, &grown).await.is_ok());
        let pending = json!({"status": {"allocatedResources": {"storage": "6Gi"},
            "allocatedResourceStatuses": {"storage": "NodeResizePending"},
            "conditions": [{"type": "FileSystemResizePending", "status": "True"}]}});
        assert!(client.patch(&format!("{CLAIMS}/c/status"), MERGE_PATCH, &pending).await.is_ok());
        settle().await;
        let status = || get(server, "persistentvolumeclaims", "c").expect("a claim")["status"].clone();
        assert_eq!(status()["capacity"]["storage"], "2Gi");
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": "n",
            "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}});
        made(client, "/api/v1/namespaces/default/pods", &pod).await;
        settle().await;
        let status = status();
        assert_eq!(
            (&status["capacity"]["storage"], &status["allocatedResources"]["storage"]),
            (&json!("6Gi"), &json!("6Gi"))
        );
        let is_empty = |field: &str| crate::json::fields::is_empty_value(status.get(field));
        assert!(is_empty("conditions") && is_empty("allocatedResourceStatuses"), "{status}");
    }))
    .expect("a runtime");
}

/// Returns kind, reason and message of the events about claims and volumes.
fn warnings(server: &ApiServer) -> Vec<String> {
    let all = server.list(&ResourceId::new("", "events"), None);
    let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
    let mut shown: Vec<String> = all
        .iter()
        .map(|stored| stored.value())
        .filter(|event| event["type"] == "Warning")
        .map(|event| {
            let about = text(&event["involvedObject"]["name"]);
            format!("{about} {}: {}", text(&event["reason"]), text(&event["message"]))
        })
        .collect();
    shown.sort();
    shown
}

/// `syncUnboundClaim`, `syncBoundClaim` and `syncVolume` in `pkg/controller/volume/persistentvolume/pv_controller.go`.
#[test]
fn claims_say_why_they_have_no_volume() {
    run_virtual(world(async |server, client| {
        tokio::spawn(crate::events::publish_events(server.clone()));
        settle().await;
        let named = |name: &str, volume: &str, size: &str| {
            let mut named = claim(name, "");
            named["spec"]["volumeName"] = json!(volume);
            named["spec"]["resources"]["requests"]["storage"] = json!(size);
            named
        };
        made(client, VOLUMES, &volume("v", "Retain")).await;
        made(client, CLAIMS, &named("large", "v", "5Gi")).await;
        settle().await;
        made(client, CLAIMS, &named("small", "v", "1Gi")).await;
        settle().await;
        made(client, CLAIMS, &named("late", "v", "1Gi")).await;
        let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "hand"},
            "provisioner": "kubernetes.io/no-provisioner"});
        made(client, "/apis/storage.k8s.io/v1/storageclasses", &class).await;
        made(client, CLAIMS, &claim("by-hand", "hand")).await;
        settle().await;
        let mut expected = vec![
            "by-hand ProvisioningFailed: no volume plugin matched name: kubernetes.io/no-provisioner",
            "large FailedBinding: volume \"v\" already bound to a different claim.",
            "large VolumeMismatch: Cannot bind to requested volume \"v\": requested PV is too small",
            "late FailedBinding: volume \"v\" already bound to a different claim.",
        ];
        assert_eq!(warnings(server), expected);
        let open = json!({"metadata": {"finalizers": null}});
        client.patch(&format!("{VOLUMES}/v"), MERGE_PATCH, &open).await;
        assert!(client.delete(&format!("{VOLUMES}/v"), None).await.is_ok());
        settle().await;
        expected.push("small ClaimLost: Bound claim has lost its PersistentVolume. Data on the volume is lost!");
        assert_eq!(warnings(server), expected);
    }))
    .expect("a runtime");
}

/// `setClaimProvisioner`, `reclaimVolume` and `unbindVolume`: a provisioner under test finds its claims, and deletes
/// the volumes that it made.
#[test]
fn volumes_of_others_are_left_to_their_provisioner() {
    run_virtual(world(async |server, client| {
        let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "theirs"},
            "provisioner": "example.com/p", "reclaimPolicy": "Delete"});
        made(client, "/apis/storage.k8s.io/v1/storageclasses", &class).await;
        made(client, CLAIMS, &claim("c", "theirs")).await;
        settle().await;
        let found = get(server, "persistentvolumeclaims", "c").expect("c");
        assert_eq!(FOR_PROVISIONER.map(|name| metadata::annotation(&found, name)), [Some("example.com/p"); 2]);
        let theirs = |name: &str, claim: &Value| {
            let mut theirs = volume(name, "Delete");
            theirs["spec"]["storageClassName"] = json!("theirs");
            theirs["spec"]["claimRef"] = reference(claim);
            metadata::set_annotation(&mut theirs, PROVISIONED_BY, "example.com/p");
            theirs
        };
        made(client, VOLUMES, &theirs("v", &found)).await;
        settle().await;
        let phase = |name: &str| get(server, "persistentvolumes", name).expect(name)["status"]["phase"].clone();
        assert_eq!(phase("v"), "Bound");
        // A second one for the same claim is not needed, one that a user has reserved is free again.
        made(client, VOLUMES, &theirs("w", &found)).await;
        let mut reserved = volume("u", "Retain");
        reserved["spec"]["claimRef"] = reference(&found);
        made(client, VOLUMES, &reserved).await;
        settle().await;
        assert_eq!((phase("w"), phase("u")), (json!("Released"), json!("Available")));
        let reserved = get(server, "persistentvolumes", "u").expect("u")["spec"]["claimRef"].clone();
        assert_eq!((&reserved["name"], reserved.get("uid")), (&json!("c"), None));
        assert!(client.delete(&format!("{CLAIMS}/c"), None).await.is_ok());
        settle().await;
        assert_eq!(phase("v"), "Released", "its provisioner deletes it");
    }))
    .expect("a runtime");
}
