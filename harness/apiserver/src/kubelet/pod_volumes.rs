//! The claims of a pod that is to be scheduled, and the nodes on which it can have them. PURE. See
//! `volumebinding`, `volumezone` and `volumerestrictions` in `pkg/scheduler/framework/plugins`; the capacity of storage
//! and the limits of drivers (`CSINode`) are not looked at.

use thiserror::Error;

use super::rejection::Rejection;
use crate::json::Value;
use crate::json::fields::{array_field, str_field};
use crate::metadata;
use crate::volumes::matching;
use crate::volumes::{BIND_COMPLETED, NO_PROVISIONER, SELECTED_NODE};

/// The objects to which the volumes of a pod lead.
pub(super) trait VolumeLister {
    /// Returns a claim of the pod's namespace.
    fn claim(&self, name: &str) -> Option<Value>;
    /// Returns a volume.
    fn volume(&self, name: &str) -> Option<Value>;
    /// Returns all volumes.
    fn volumes(&self) -> Vec<Value>;
    /// Returns a storage class.
    fn class(&self, name: &str) -> Option<Value>;
    /// Returns true if a loop binds claims; otherwise, no pod waits for that.
    fn binds(&self) -> bool;
}

/// Says why no node can take a pod with its claims.
#[derive(Debug, PartialEq, Eq, Error)]
pub(super) enum PodVolumesError {
    #[error("pod has unbound immediate PersistentVolumeClaims")]
    Unbound,
    #[error("waiting for ephemeral volume controller to create the persistentvolumeclaim {0:?}")]
    NotCreated(String),
    #[error("persistentvolumeclaim {0:?} not found")]
    NotFound(String),
    #[error("persistentvolumeclaim {claim:?} bound to non-existent persistentvolume {volume:?}")]
    Lost { claim: String, volume: String },
    #[error("persistentvolumeclaim {0:?} is being deleted")]
    Deleted(String),
    #[error("PVC {namespace}/{claim} was not created for pod {namespace}/{pod} (pod is not owner)")]
    OfAnother { namespace: String, claim: String, pod: String },
}

/// The claims of a pod.
#[derive(Debug, Default)]
pub(super) struct PodVolumes {
    /// The names of claims that only one pod may use.
    pub(super) exclusive: Vec<String>,
    /// The volumes of the claims that are bound; `None` if there is no such volume.
    bound: Vec<Option<Value>>,
    /// The claims that are bound once the pod has a node.
    delayed: Vec<DelayedClaim>,
    /// The volumes that may suit them.
    volumes: Vec<Value>,
}

/// A claim that waits for the node of its pod.
#[derive(Debug)]
struct DelayedClaim {
    claim: Value,
    class: Value,
}

/// The step that a claim needs before its pod can be bound to a node.
#[derive(Debug, PartialEq)]
pub(super) enum ClaimStep<'v> {
    /// A volume is reserved for the claim.
    Reserve(&'v Value, &'v Value),
    /// The claim gets the node on which its volume is to be made.
    Select(&'v Value),
    /// Others have to bind the claim.
    Wait,
}

impl PodVolumes {
    /// Looks up the claims of a pod: `podHasPVCs` and `GetPodVolumeClaims`.
    ///
    /// # Errors
    ///
    /// The reason why no node can take the pod.
    pub(super) fn of(pod: &Value, lister: &dyn VolumeLister) -> Result<Self, PodVolumesError> {
        let mut found = Self::default();
        for volume in array_field(&pod["spec"], "volumes") {
            if let Some(claim) = claim_of(pod, volume, lister)? {
                found.add(claim, lister)?;
            }
        }
        if !found.delayed.is_empty() {
            found.volumes = lister.volumes();
        }
        Ok(found)
    }

    fn add(&mut self, claim: Value, lister: &dyn VolumeLister) -> Result<(), PodVolumesError> {
        if array_field(&claim["spec"], "accessModes").iter().any(|mode| mode == "ReadWriteOncePod") {
            self.exclusive.push(metadata::name(&claim).to_owned());
        }
        let volume = str_field(&claim["spec"], "volumeName");
        if !volume.is_empty() && metadata::annotation(&claim, BIND_COMPLETED).is_some() {
            self.bound.push(lister.volume(volume));
            return Ok(());
        }
        if !lister.binds() {
            return Ok(());
        }
        let class = Some(str_field(&claim["spec"], "storageClassName")).filter(|name| !name.is_empty());
        match class.and_then(|name| lister.class(name)) {
            Some(class) if volume.is_empty() && class["volumeBindingMode"] == "WaitForFirstConsumer" => {
                self.delayed.push(DelayedClaim { claim, class });
                Ok(())
            }
            _ => Err(PodVolumesError::Unbound),
        }
    }

    /// Returns why the claims of the pod cannot be used on a node: `FindPodVolumes`.
    pub(super) fn reject(&self, node: &Value) -> Option<Rejection> {
        let is_usable = |volume: &Option<Value>| volume.as_ref().is_none_or(|volume| matching::is_usable(volume, node));
        let mut reasons = Vec::new();
        match self.bound.iter().find(|volume| volume.is_none() || !is_usable(volume)) {
            Some(None) => reasons.push("node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"),
            Some(_) => reasons.push("node(s) didn't match PersistentVolume's node affinity"),
            None => {}
        }
        if self.delayed.iter().any(|delayed| self.step(delayed, node).is_none()) {
            reasons.insert(0, "node(s) didn't find available persistent volumes to bind");
        }
        if reasons.is_empty() && self.bound.iter().flatten().any(|volume| !is_in_zone(volume, node)) {
            reasons.push("node(s) had no available volume zone");
        }
        let reasons: Vec<String> = reasons.into_iter().map(str::to_owned).collect();
        (!reasons.is_empty()).then_some(Rejection { reasons, is_resolvable: false })
    }

    /// Returns what the claims need before the pod is bound to a node.
    pub(super) fn steps(&self, node: &Value) -> Vec<ClaimStep<'_>> {
        self.delayed.iter().filter_map(|delayed| self.step(delayed, node)).collect()
    }

    /// Returns what a claim needs on a node; `None` if it cannot be bound there.
    fn step<'v>(&'v self, DelayedClaim { claim, class }: &'v DelayedClaim, node: &Value) -> Option<ClaimStep<'v>> {
        if let Some(selected) = metadata::annotation(claim, SELECTED_NODE) {
            return (selected == metadata::name(node)).then_some(ClaimStep::Wait);
        }
        if let Some(volume) = matching::best(claim, &self.volumes, Some(node), false) {
            let reserved = !volume["spec"]["claimRef"].is_null();
            return Some(if reserved { ClaimStep::Wait } else { ClaimStep::Reserve(volume, claim) });
        }
        let provisioner = str_field(class, "provisioner");
        let is_possible = !provisioner.is_empty() && provisioner != NO_PROVISIONER && allows(class, node);
        is_possible.then_some(ClaimStep::Select(claim))
    }
}

/// Returns true if volumes of a class can be made on a node: `MatchTopologySelectorTerms` in
/// `staging/src/k8s.io/component-helpers/scheduling/corev1/helpers.go`.
fn allows(class: &Value, node: &Value) -> bool {
    let topologies = array_field(class, "allowedTopologies");
    let is_met = |expression: &Value| {
        let label = metadata::label(node, str_field(expression, "key"));
        label.is_some_and(|label| array_field(expression, "values").iter().any(|value| value == label))
    };
    let suits = |term: &Value| {
        let expressions = array_field(term, "matchLabelExpressions");
        !expressions.is_empty() && expressions.iter().all(is_met)
    };
    topologies.is_empty() || topologies.iter().any(suits)
}

/// The labels of volumes and nodes with zones and regions, the older ones each with the present one.
const TOPOLOGY_LABELS: [(&str, &str); 4] = [
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("topology.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("topology.kubernetes.io/region", "topology.kubernetes.io/region"),
];

/// Returns true if a node is in the zones and regions of a volume's labels: `Filter` of `VolumeZone`. A node without
/// such labels is in all.
fn is_in_zone(volume: &Value, node: &Value) -> bool {
    if TOPOLOGY_LABELS.iter().all(|(name, _)| metadata::label(node, name).is_none()) {
        return true;
    }
    TOPOLOGY_LABELS.iter().all(|(name, present)| {
        let Some(zones) = metadata::label(volume, name) else { return true };
        let own = metadata::label(node, name).or_else(|| metadata::label(node, present));
        own.is_some_and(|own| zones.split("__").any(|zone| zone == own))
    })
}

/// Returns the claim of a pod's volume, if it has one.
fn claim_of(pod: &Value, volume: &Value, lister: &dyn VolumeLister) -> Result<Option<Value>, PodVolumesError> {
    let is_ephemeral = volume["ephemeral"].is_object();
    let name = match volume["persistentVolumeClaim"]["claimName"].as_str() {
        Some(name) => name.to_owned(),
        None if is_ephemeral && lister.binds() => format!("{}-{}", metadata::name(pod), str_field(volume, "name")),
        None => return Ok(None),
    };
    let Some(claim) = lister.claim(&name) else {
        return Err(if is_ephemeral { PodVolumesError::NotCreated(name) } else { PodVolumesError::NotFound(name) });
    };
    if claim["status"]["phase"] == "Lost" {
        let volume = str_field(&claim["spec"], "volumeName").to_owned();
        return Err(PodVolumesError::Lost { claim: name, volume });
    }
    if metadata::is_deleted(&claim) {
        return Err(PodVolumesError::Deleted(name));
    }
    let owns = || metadata::controller(&claim).is_some_and(|owner| owner["uid"] == metadata::uid(pod));
    if is_ephemeral && !owns() {
        let namespace = metadata::namespace(pod).to_owned();
        return Err(PodVolumesError::OfAnother { namespace, claim: name, pod: metadata::name(pod).to_owned() });
    }
    Ok(Some(claim))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::json::json;

    /// The claim `c`, the volume `v` of the node `n`, and classes.
    struct ClaimLister(Value);

    impl VolumeLister for ClaimLister {
        fn claim(&self, name: &str) -> Option<Value> {
            Some(self.0.clone()).filter(|claim| metadata::name(claim) == name)
        }

        fn volume(&self, name: &str) -> Option<Value> {
            self.volumes().into_iter().find(|volume| metadata::name(volume) == name)
        }

        fn volumes(&self) -> Vec<Value> {
            let here = json!({"key": "host", "operator": "In", "values": ["n"]});
            vec![json!({"metadata": {"name": "v"}, "status": {"phase": "Available"}, "spec": {
                "storageClassName": "local", "capacity": {"storage": "1Gi"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}}}})]
        }

        fn class(&self, name: &str) -> Option<Value> {
            let class = |provisioner: &str, mode: &str| json!({"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode});
            match name {
                "local" => Some(class(NO_PROVISIONER, "WaitForFirstConsumer")),
                "slow" => Some(class("example.com/p", "WaitForFirstConsumer")),
                "zonal" => {
                    let mut class = class("example.com/p", "WaitForFirstConsumer");
                    let zone = json!({"key": "host", "values": ["n"]});
                    class["allowedTopologies"] = json!([{"matchLabelExpressions": [zone]}]);
                    Some(class)
                }
                "fast" => Some(class("example.com/p", "Immediate")),
                _ => None,
            }
        }

        fn binds(&self) -> bool {
            true
        }
    }

    const UNBOUND: &str = "pod has unbound immediate PersistentVolumeClaims";
    const AFFINITY: &str = "node(s) didn't match PersistentVolume's node affinity";
    const NONE: &str = "node(s) didn't find available persistent volumes to bind";
    const GONE: &str = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";

    fn found(claim: Value) -> Result<PodVolumes, PodVolumesError> {
        let mut claim = claim;
        claim["spec"]["resources"] = json!({"requests": {"storage": "1Gi"}});
        let pod = json!({"metadata": {"name": "p", "namespace": "d"},
            "spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}});
        PodVolumes::of(&pod, &ClaimLister(claim))
    }

    fn node(name: &str) -> Value {
        json!({"metadata": {"name": name, "labels": {"host": name}}})
    }

    fn bound(volume: &str) -> Value {
        json!({"metadata": {"name": "c", "annotations": {BIND_COMPLETED: "yes"}}, "spec": {"volumeName": volume}})
    }

    fn unbound(class: &str) -> Value {
        json!({"metadata": {"name": "c"}, "spec": {"storageClassName": class}})
    }

    /// As in the tables of `volume_binding_test.go` and `binder_test.go`: no node at all, or the nodes `n` and `m`.
    #[rstest]
    #[case::missing(json!({"metadata": {"name": "d"}}), "persistentvolumeclaim \"c\" not found")]
    #[case::lost(json!({"metadata": {"name": "c"}, "spec": {"volumeName": "w"}, "status": {"phase": "Lost"}}),
        "persistentvolumeclaim \"c\" bound to non-existent persistentvolume \"w\"")]
    #[case::no_class(unbound(""), UNBOUND)]
    #[case::unknown_class(unbound("x"), UNBOUND)]
    #[case::immediate(unbound("fast"), UNBOUND)]
    #[case::named(json!({"metadata": {"name": "c"}, "spec": {"storageClassName": "slow", "volumeName": "v"}}), UNBOUND)]
    fn some_claims_keep_their_pod_from_all_nodes(#[case] claim: Value, #[case] expected: &str) {
        assert_eq!(found(claim).expect_err("no node").to_string(), expected);
    }

    #[rstest]
    #[case::bound(bound("v"), "", AFFINITY)]
    #[case::gone(bound("w"), GONE, GONE)]
    #[case::by_hand(unbound("local"), "", NONE)]
    #[case::made(unbound("slow"), "", "")]
    #[case::made_in_some_places(unbound("zonal"), "", NONE)]
    #[case::selected(json!({"metadata": {"name": "c", "annotations": {SELECTED_NODE: "m"}}, "spec": {"storageClassName": "slow"}}), NONE, "")]
    fn claims_decide_about_nodes(#[case] claim: Value, #[case] n: &str, #[case] m: &str) {
        let volumes = found(claim).expect("nodes are asked");
        let shown = |name: &str| volumes.reject(&node(name)).map(|found| found.reasons.join(", ")).unwrap_or_default();
        assert_eq!((shown("n").as_str(), shown("m").as_str()), (n, m));
    }

    /// As `TestSingleZone`, `TestMultiZone` and `TestWithBinding` in `volume_zone_test.go`.
    #[rstest]
    #[case::none(json!({}), json!({"topology.kubernetes.io/zone": "a"}), true)]
    #[case::same(json!({"topology.kubernetes.io/zone": "a"}), json!({"topology.kubernetes.io/zone": "a"}), true)]
    #[case::other(json!({"topology.kubernetes.io/zone": "a"}), json!({"topology.kubernetes.io/zone": "b"}), false)]
    #[case::several(json!({"topology.kubernetes.io/zone": "a__b"}), json!({"topology.kubernetes.io/zone": "b"}), true)]
    #[case::older(json!({"failure-domain.beta.kubernetes.io/zone": "a"}), json!({"topology.kubernetes.io/zone": "a"}), true)]
    #[case::region(json!({"topology.kubernetes.io/region": "r"}), json!({"topology.kubernetes.io/zone": "a"}), false)]
    #[case::unlabelled(json!({"topology.kubernetes.io/zone": "a"}), json!({}), true)]
    fn volumes_are_in_zones(#[case] volume: Value, #[case] node: Value, #[case] expected: bool) {
        let [volume, mut node] = [volume, node].map(|labels| json!({"metadata": {"name": "x", "labels": labels}}));
        assert_eq!(is_in_zone(&volume, &node), expected);
        let volumes = PodVolumes { bound: vec![Some(volume)], ..PodVolumes::default() };
        metadata::set(&mut node, "name", "n");
        let reasons = volumes.reject(&node).map(|found| found.reasons);
        assert_eq!(reasons, (!expected).then(|| vec!["node(s) had no available volume zone".to_owned()]));
    }

    #[test]
    fn claims_need_a_volume_or_a_node() {
        let local = found(unbound("local")).expect("found");
        assert!(
            matches!(local.steps(&node("n")).as_slice(), [ClaimStep::Reserve(volume, _)] if metadata::name(volume) == "v")
        );
        let slow = found(unbound("slow")).expect("found");
        assert!(matches!(slow.steps(&node("n")).as_slice(), [ClaimStep::Select(_)]));
        assert!(found(bound("v")).expect("found").steps(&node("n")).is_empty());
    }
}
