//! The volume that suits a claim. PURE. See `FindMatchingVolume` in
//! `staging/src/k8s.io/component-helpers/storage/volume/pv_helpers.go`.

use crate::json::Value;
use crate::json::fields::array_field;
use crate::metadata;
use crate::node_selector::has_labels;
use crate::quantity::Quantity;
use crate::registry::label_selector;

/// Returns the volume for a claim: one that is reserved for it, or else the smallest one that suits it. With a `node`,
/// volumes have to be usable there. `reserved_only` is set for claims that wait for their pod.
pub(crate) fn best<'v>(
    claim: &Value,
    volumes: &'v [Value],
    node: Option<&Value>,
    reserved_only: bool,
) -> Option<&'v Value> {
    let mut candidates: Vec<&Value> = volumes
        .iter()
        .filter(|volume| !metadata::is_deleted(volume) && fits(claim, volume))
        .filter(|volume| node.is_none_or(|node| is_usable(volume, node)))
        .collect();
    if let Some(reserved) = candidates.iter().find(|volume| is_reserved_for(volume, claim)) {
        return Some(reserved);
    }
    candidates.retain(|volume| {
        !reserved_only
            && volume["status"]["phase"] == "Available"
            && volume["spec"]["claimRef"].is_null()
            && has_modes(volume, claim)
            && is_selected(claim, volume)
    });
    // Names decide between volumes of one size, so that the choice is the same in each run.
    candidates.into_iter().min_by_key(|volume| (capacity(volume), metadata::name(volume)))
}

/// Returns the reason why a claim cannot have the volume that it names: `checkVolumeSatisfyClaim` in
/// `pkg/controller/volume/persistentvolume/pv_controller.go`.
pub(super) fn mismatch(claim: &Value, volume: &Value) -> Option<String> {
    if metadata::is_deleted(volume) {
        return Some(format!("the volume is marked for deletion {:?}", metadata::name(volume)));
    }
    let why = if !is_large_enough(claim, volume) {
        "requested PV is too small"
    } else if !agrees(claim, volume, "storageClassName", "") {
        "storageClassName does not match"
    } else if !agrees(claim, volume, "volumeAttributesClassName", "") {
        "volumeAttributesClassName does not match"
    } else if !has_mode(claim, volume) {
        "incompatible volumeMode"
    } else if !has_modes(volume, claim) {
        "incompatible accessMode"
    } else {
        return None;
    };
    Some(why.to_owned())
}

/// Returns true if a volume is a file system or a device, as the claim wants it.
pub(super) fn has_mode(claim: &Value, volume: &Value) -> bool {
    agrees(claim, volume, "volumeMode", "Filesystem")
}

/// Returns true if a claim and a volume have the same text in a field of their specs, which has a default.
fn agrees(claim: &Value, volume: &Value, field: &str, default: &str) -> bool {
    let text = |object: &Value| object["spec"][field].as_str().unwrap_or(default).to_owned();
    text(claim) == text(volume)
}

fn is_large_enough(claim: &Value, volume: &Value) -> bool {
    capacity(volume) >= Quantity::of(&claim["spec"]["resources"]["requests"]["storage"])
}

/// Returns true if size, class, mode and attributes of the volume suit the claim.
fn fits(claim: &Value, volume: &Value) -> bool {
    is_large_enough(claim, volume)
        && has_mode(claim, volume)
        && ["storageClassName", "volumeAttributesClassName"].iter().all(|field| agrees(claim, volume, field, ""))
}

fn capacity(volume: &Value) -> Option<Quantity> {
    Quantity::of(&volume["spec"]["capacity"]["storage"])
}

fn has_modes(volume: &Value, claim: &Value) -> bool {
    let offered = array_field(&volume["spec"], "accessModes");
    array_field(&claim["spec"], "accessModes").iter().all(|mode| offered.contains(mode))
}

/// Returns true if the claim's selector, if it has one, matches the volume.
fn is_selected(claim: &Value, volume: &Value) -> bool {
    let selector = &claim["spec"]["selector"];
    selector.is_null() || label_selector::matches(Some(selector), Some(&volume["metadata"]["labels"])) == Some(true)
}

/// Returns true if pods on the node can use the volume.
pub(crate) fn is_usable(volume: &Value, node: &Value) -> bool {
    let required = &volume["spec"]["nodeAffinity"]["required"];
    !required.is_object() || has_labels(node, required)
}

/// Returns true if the volume is reserved for the claim, by its uid or only by its name.
pub(super) fn is_reserved_for(volume: &Value, claim: &Value) -> bool {
    let reference = &volume["spec"]["claimRef"];
    let uid = reference["uid"].as_str().unwrap_or_default();
    reference["namespace"] == metadata::namespace(claim)
        && reference["name"] == metadata::name(claim)
        && (uid.is_empty() || uid == metadata::uid(claim))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::json::json;

    fn claim(more: &Value) -> Value {
        let mut claim = json!({"metadata": {"name": "c", "namespace": "n", "uid": "u"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}});
        claim["spec"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        claim
    }

    fn volume(name: &str, size: &str, more: &Value) -> Value {
        let mut volume = json!({"metadata": {"name": name, "labels": {"tier": "db"}}, "status": {"phase": "Available"},
            "spec": {"accessModes": ["ReadWriteOnce", "ReadOnlyMany"], "capacity": {"storage": size}}});
        volume["spec"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        volume
    }

    fn name(claim: &Value, volumes: &[Value], reserved_only: bool) -> Option<String> {
        best(claim, volumes, None, reserved_only).map(|volume| metadata::name(volume).to_owned())
    }

    #[rstest]
    #[case::smallest(json!({}), Some("three"))]
    #[case::class(json!({"storageClassName": "fast"}), Some("fast"))]
    #[case::empty_class(json!({"storageClassName": ""}), Some("three"))]
    #[case::selector(json!({"selector": {"matchLabels": {"tier": "web"}}}), None)]
    #[case::modes(json!({"accessModes": ["ReadWriteMany"]}), None)]
    #[case::block(json!({"volumeMode": "Block"}), None)]
    #[case::too_large(json!({"resources": {"requests": {"storage": "9Gi"}}}), None)]
    fn the_smallest_volume_that_suits_is_chosen(#[case] more: Value, #[case] expected: Option<&str>) {
        let volumes = [
            volume("four", "4Gi", &json!({})),
            volume("three", "3Gi", &json!({})),
            volume("one", "1Gi", &json!({})),
            volume("fast", "8Gi", &json!({"storageClassName": "fast"})),
            volume("taken", "2Gi", &json!({"claimRef": {"namespace": "n", "name": "other"}})),
        ];
        assert_eq!(name(&claim(&more), &volumes, false).as_deref(), expected);
        assert_eq!(name(&claim(&more), &volumes, true), None);
    }

    /// The order and the words of `checkVolumeSatisfyClaim`.
    #[rstest]
    #[case::suits(json!({}), "4Gi", json!({}), None)]
    #[case::small(json!({"storageClassName": "a"}), "1Gi", json!({}), Some("requested PV is too small"))]
    #[case::class(json!({"storageClassName": "a", "volumeMode": "Block"}), "4Gi", json!({}), Some("storageClassName does not match"))]
    #[case::attributes(json!({"volumeAttributesClassName": "a"}), "4Gi", json!({}), Some("volumeAttributesClassName does not match"))]
    #[case::mode(json!({"volumeMode": "Block", "accessModes": ["ReadWriteMany"]}), "4Gi", json!({}), Some("incompatible volumeMode"))]
    #[case::access(json!({"accessModes": ["ReadWriteMany"]}), "4Gi", json!({}), Some("incompatible accessMode"))]
    fn a_named_volume_has_to_suit(
        #[case] more: Value,
        #[case] size: &str,
        #[case] spec: Value,
        #[case] expected: Option<&str>,
    ) {
        assert_eq!(mismatch(&claim(&more), &volume("v", size, &spec)).as_deref(), expected);
    }

    #[test]
    fn a_reserved_volume_comes_first_if_it_is_large_enough() {
        let reserved = |size: &str, uid: &str| {
            let reference = json!({"namespace": "n", "name": "c", "uid": uid});
            [volume("free", "2Gi", &json!({})), volume("mine", size, &json!({"claimRef": reference}))]
        };
        assert_eq!(name(&claim(&json!({})), &reserved("9Gi", ""), true).as_deref(), Some("mine"));
        assert_eq!(name(&claim(&json!({})), &reserved("9Gi", "u"), false).as_deref(), Some("mine"));
        assert_eq!(name(&claim(&json!({})), &reserved("9Gi", "of an earlier claim"), false).as_deref(), Some("free"));
        assert_eq!(name(&claim(&json!({})), &reserved("1Gi", ""), false).as_deref(), Some("free"));
    }

    #[test]
    fn a_local_volume_is_for_its_node_only() {
        let affinity = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": ["a"]}]}]}});
        let volumes = [volume("local", "2Gi", &json!({"nodeAffinity": affinity}))];
        let node = |host: &str| json!({"metadata": {"name": host, "labels": {"kubernetes.io/hostname": host}}});
        assert!(best(&claim(&json!({})), &volumes, Some(&node("a")), false).is_some());
        assert!(best(&claim(&json!({})), &volumes, Some(&node("b")), false).is_none());
    }
}
