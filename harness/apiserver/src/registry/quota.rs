//! `ResourceQuota` admission: the usage of an object and its comparison with the quotas of its namespace. Pure.
//!
//! See `staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota` and `pkg/quota/v1/evaluator/core`. As there,
//! `hard` and `used` are read from a quota's status, which the quota controller writes.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::json::fields::{array_field, is_empty_value, non_null, object_or_insert, str_field};
use crate::json::{Map, Value};
use crate::metadata;
use crate::quantity::Quantity;
use crate::registry::core::pod::qos;
use crate::registry::lister::ObjectLister;
use crate::registry::resource_list::{ResourceList, add_all, amounts, max_all, pod_resources};
use crate::registry::resource_names::COMPUTE_RESOURCES;

/// A request that quotas may restrict.
#[derive(Clone, Copy)]
pub(crate) struct QuotaRequest<'a> {
    /// Group of the resource.
    pub group: &'a str,
    /// Plural name of the resource.
    pub plural: &'a str,
    /// Subresource of the request.
    pub subresource: &'a str,
    /// The new object.
    pub object: &'a Value,
    /// The old object, for updates.
    pub old: Option<&'a Value>,
    /// Server time.
    pub now: Timestamp,
    /// Other objects: the classes of devices, and the pods for which claims are made.
    pub lookup: &'a dyn ObjectLister,
}

/// A quota on any of these requires containers to specify amounts.
const REQUIRED_COMPUTE_RESOURCES: [&str; 6] =
    ["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];

const STORAGE_CLASS: &str = ".storageclass.storage.k8s.io/";

/// End of the name of the devices of a class, after the class.
const DEVICES: &str = ".deviceclass.resource.k8s.io/devices";

/// Begin of the name of the extended resource that each class of devices has, before the class.
const OF_CLASS: &str = "deviceclass.resource.kubernetes.io/";

/// Most devices that a claim can be given.
const MOST_DEVICES: i64 = 32;

impl QuotaRequest<'_> {
    fn is(&self, plural: &str) -> bool {
        self.group.is_empty() && self.plural == plural
    }

    fn is_of_devices(&self) -> bool {
        self.group == "resource.k8s.io" && self.plural == "resourceclaims"
    }

    /// Returns true if such a request can increase the usage.
    pub(crate) fn counts(&self) -> bool {
        let events = self.plural == "events" && matches!(self.group, "" | "events.k8s.io");
        if events {
            return false;
        }
        match (self.subresource, self.old) {
            ("", None) => true,
            ("", Some(old)) if self.is("pods") => has_active_deadline(old) != has_active_deadline(self.object),
            ("", Some(_)) => self.is("services") || self.is("persistentvolumeclaims") || self.is_of_devices(),
            ("resize", Some(_)) => self.is("pods"),
            _ => false,
        }
    }

    /// Returns true if the old object, if there is one, uses other amounts than the new one, or counts in other scopes.
    #[cfg(feature = "controllers")]
    pub(crate) fn changes_usage(&self) -> bool {
        let claims = self.is("persistentvolumeclaims");
        self.old.is_none_or(|old| {
            // The status of a claim has its size and its volume attributes classes.
            (claims && (old["spec"] != self.object["spec"] || old["status"] != self.object["status"]))
                || self.usage(old) != self.usage(self.object)
                || has_active_deadline(old) != has_active_deadline(self.object)
        })
    }

    /// Returns the object count resource, such as `count/deployments.apps`.
    fn count_name(&self) -> String {
        let dot = if self.group.is_empty() { "" } else { "." };
        format!("count/{}{dot}{}", self.plural, self.group)
    }

    /// Returns true if a quota resource applies to objects of this kind.
    pub(crate) fn matches_resource(&self, resource: &str) -> bool {
        if self.is("pods") {
            let extended = resource.strip_prefix("requests.").is_some_and(is_extended);
            let huge = resource.starts_with("hugepages-") || resource.starts_with("requests.hugepages-");
            return COMPUTE_RESOURCES.contains(&resource)
                || matches!(resource, "pods" | "count/pods")
                || huge
                || extended;
        }
        let claim = |resource: &str| matches!(resource, "persistentvolumeclaims" | "requests.storage");
        if self.is("persistentvolumeclaims") && resource.split_once(STORAGE_CLASS).is_some_and(|(_, kind)| claim(kind))
        {
            return true;
        }
        let known = match self.plural {
            _ if self.is_of_devices() => resource.ends_with(DEVICES) || self.is_of_a_class(resource),
            _ if !self.group.is_empty() => false,
            "services" => matches!(resource, "services" | "services.nodeports" | "services.loadbalancers"),
            "persistentvolumeclaims" => claim(resource),
            "configmaps" | "resourcequotas" | "replicationcontrollers" | "secrets" => resource == self.plural,
            _ => false,
        };
        known || resource == self.count_name()
    }

    /// Returns the usage of an object.
    fn usage(&self, object: &Value) -> ResourceList {
        let one = || Quantity::from(1);
        let mut used = ResourceList::from([(self.count_name(), one())]);
        if self.is_of_devices() {
            device_usage(object, &mut used);
            used.extend(self.extended_usage(object, &used));
        }
        if !self.group.is_empty() {
            return used;
        }
        match self.plural {
            "pods" => pod_usage(object, self.now, &mut used),
            "services" => service_usage(object, &mut used),
            "persistentvolumeclaims" => claim_usage(object, &mut used),
            "configmaps" | "resourcequotas" | "replicationcontrollers" | "secrets" => {
                used.insert(self.plural.to_owned(), one());
            }
            _ => {}
        }
        used
    }

    /// Returns the extended resource by which pods request the devices of a class.
    fn extended_name(&self, class: &str) -> Option<String> {
        let class = self.lookup.get("resource.k8s.io", "deviceclasses", "", class)?;
        Some(str_field(&class["spec"], "extendedResourceName").to_owned()).filter(|name| !name.is_empty())
    }

    /// Returns true for requests of an extended resource that a class of devices provides.
    fn is_of_a_class(&self, resource: &str) -> bool {
        let Some(name) = resource.strip_prefix("requests.") else { return false };
        match name.strip_prefix(OF_CLASS) {
            Some(class) => self.lookup.get("resource.k8s.io", "deviceclasses", "", class).is_some(),
            None if is_extended(name) => {
                let classes = self.lookup.list("resource.k8s.io", "deviceclasses", "");
                classes.iter().any(|class| str_field(&class["spec"], "extendedResourceName") == name)
            }
            None => false,
        }
    }

    /// Returns the devices of a claim as extended resources, without those for which its pod is charged:
    /// `addExtendedResourceQuota` in `pkg/quota/v1/evaluator/core/resource_claims.go`.
    fn extended_usage(&self, claim: &Value, devices: &ResourceList) -> ResourceList {
        let mut extended = ResourceList::new();
        for (name, amount) in devices {
            let Some(class) = name.strip_suffix(DEVICES).filter(|class| !class.is_empty()) else { continue };
            extended.insert(format!("requests.{OF_CLASS}{class}"), *amount);
            extended.extend(self.extended_name(class).map(|name| (format!("requests.{name}"), *amount)));
        }
        let mut of_pod = ResourceList::new();
        if let Some(pod) = self.pod_of(claim) {
            pod_usage(&pod, self.now, &mut of_pod);
        }
        let rest = extended.into_iter().map(|(name, amount)| {
            let rest = of_pod.get(&name).map_or(amount, |charged| amount.minus(*charged));
            (name, rest)
        });
        rest.filter(|(_, rest)| rest.sign() > 0).collect()
    }

    /// Returns the pod for whose extended resources the scheduler made a claim, if this is the pod's first such claim:
    /// `getVerifiedPodUsage` in the same file.
    fn pod_of(&self, claim: &Value) -> Option<Value> {
        let namespace = metadata::namespace(claim);
        let owner = owning_pod(claim)?;
        let pod = self.lookup.get("", "pods", namespace, str_field(owner, "name"))?;
        let uid = metadata::uid(&pod);
        if str_field(owner, "uid") != uid {
            return None;
        }
        if let Some(known) = non_null(&pod["status"], "extendedResourceClaimStatus") {
            return (str_field(known, "resourceClaimName") == metadata::name(claim)).then_some(pod);
        }
        let order =
            |claim: &Value| (metadata::text(claim, "creationTimestamp").to_owned(), metadata::name(claim).to_owned());
        let claims = self.lookup.list("resource.k8s.io", "resourceclaims", namespace);
        let is_earlier = |other: &Value| {
            owning_pod(other).is_some_and(|owner| str_field(owner, "uid") == uid) && order(other) < order(claim)
        };
        (!claims.iter().any(is_earlier)).then_some(pod)
    }

    fn matches(&self, quota: &Value, object: &Value) -> bool {
        let spec = quota.get("spec").unwrap_or(&Value::Null);
        let scopes = array_field(spec, "scopes")
            .iter()
            .filter_map(Value::as_str)
            .map(|scope| (scope, "Exists", &[] as &[Value]));
        let selector = spec.get("scopeSelector").map_or(&[][..], |selector| array_field(selector, "matchExpressions"));
        let expressions = selector
            .iter()
            .map(|one| (str_field(one, "scopeName"), str_field(one, "operator"), array_field(one, "values")));
        let fits = |scope| match self.plural {
            "pods" => in_scope(object, scope),
            "persistentvolumeclaims" => claim_in_scope(object, scope),
            _ => false,
        };
        hard(quota).keys().any(|resource| self.matches_resource(resource)) && scopes.chain(expressions).all(fits)
    }
}

/// Returns the status of a quota whose namespace has these objects; `None` if the quota has it already. Of the limits
/// only those that `is_counted` are counted: others stay as they were (`syncResourceQuota`).
#[cfg(feature = "controllers")]
pub(crate) fn recount<'o>(
    quota: &Value,
    is_counted: impl Fn(&str) -> bool,
    objects: impl Iterator<Item = QuotaRequest<'o>>,
) -> Option<Value> {
    let hard = quota.pointer("/spec/hard").cloned().unwrap_or_else(|| Value::Object(Map::new()));
    let mut recounted = quota.clone();
    object_or_insert(&mut recounted, "status")?.insert("hard", hard);
    let limits = amounts(recounted.pointer("/status/hard"));
    let mut used = amounts(quota.pointer("/status/used"));
    used.retain(|name, _| limits.contains_key(name));
    used.extend(limits.keys().filter(|name| is_counted(name)).map(|name| (name.clone(), Quantity::from(0))));
    for request in objects.filter(|request| request.matches(&recounted, request.object)) {
        let usage = request.usage(request.object).into_iter().filter(|(name, _)| limits.contains_key(name));
        add_all(&mut used, &usage.collect());
    }
    let known = |field: &str| amounts(quota.pointer(field));
    if known("/status/hard") == limits && known("/status/used") == used {
        return None;
    }
    let used: Map = used.into_iter().map(|(name, amount)| (name, amount.to_string())).collect();
    object_or_insert(&mut recounted, "status")?.insert("used", Value::Object(used));
    Some(recounted["status"].take())
}

/// The reason for which a quota rejects a request.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QuotaError {
    /// Containers have no amounts of resources that the quota restricts: resource and containers.
    #[error(
        "failed quota: {quota}: must specify {}",
        missing.iter().map(|(resource, names)| format!("{resource} for: {}", names.join(","))).collect::<Vec<_>>().join("; ")
    )]
    MissingAmounts { quota: String, missing: Vec<(String, Vec<String>)> },
    /// The usage of these resources has not been counted yet.
    #[error("status unknown for quota: {quota}, resources: {}", resources.join(","))]
    Uncounted { quota: String, resources: Vec<String> },
    /// The object uses less than nothing.
    #[error("quota usage is negative for resource(s): {}", .0.join(","))]
    Negative(Vec<String>),
    /// The usage would exceed the limit.
    #[error("exceeded quota: {quota}, requested: {requested}, used: {used}, limited: {limited}")]
    Exceeded { quota: String, requested: String, used: String, limited: String },
}

/// Returns the changed quotas, with the usage after the request.
///
/// # Errors
///
/// The reason for which the request is rejected.
pub(crate) fn add_usage(quotas: &[Value], request: &QuotaRequest<'_>) -> Result<Vec<Value>, QuotaError> {
    let mut concerned = Vec::new();
    for quota in quotas.iter().filter(|quota| request.matches(quota, request.object)) {
        let hard = hard(quota);
        let restricted: Vec<&str> =
            hard.keys().map(String::as_str).filter(|name| request.matches_resource(name)).collect();
        if request.is("pods") {
            let missing = missing_amounts(request.object, &restricted);
            if !missing.is_empty() {
                return Err(QuotaError::MissingAmounts { quota: metadata::name(quota).to_owned(), missing });
            }
        }
        let used = amounts(quota.pointer("/status/used"));
        if restricted.iter().any(|name| !used.contains_key(*name)) {
            let resources = restricted.into_iter().map(str::to_owned).collect();
            return Err(QuotaError::Uncounted { quota: metadata::name(quota).to_owned(), resources });
        }
        concerned.push((quota, hard, used));
    }
    let usage = request.usage(request.object);
    let negative: Vec<String> =
        usage.iter().filter(|(_, amount)| amount.sign() < 0).map(|(name, _)| name.clone()).collect();
    if !negative.is_empty() {
        return Err(QuotaError::Negative(negative));
    }
    let mut charged = Vec::new();
    for (quota, hard, used) in concerned {
        let before = request.old.filter(|old| request.matches(quota, old)).map(|old| request.usage(old));
        let wanted = usage.iter().filter_map(|(name, amount)| {
            let delta = before.as_ref().and_then(|before| before.get(name)).map_or(*amount, |own| amount.minus(*own));
            (delta.sign() > 0 && hard.contains_key(name)).then(|| (name.clone(), delta))
        });
        let wanted: ResourceList = wanted.collect();
        if let Some(changed) = add(quota, &hard, used, &wanted)? {
            charged.push(changed);
        }
    }
    Ok(charged)
}

/// Adds `wanted` to the usage of a quota; `None` if there is nothing to add.
fn add(
    quota: &Value,
    hard: &ResourceList,
    mut used: ResourceList,
    wanted: &ResourceList,
) -> Result<Option<Value>, QuotaError> {
    if wanted.is_empty() {
        return Ok(None);
    }
    let now = used.clone();
    let mut exceeded = Vec::new();
    for (name, amount) in wanted {
        let sum = used.get(name).map_or(*amount, |own| own.plus(*amount));
        if hard.get(name).is_some_and(|most| sum > *most) {
            exceeded.push(name.as_str());
        }
        used.insert(name.clone(), sum);
    }
    if !exceeded.is_empty() {
        let show = |amounts: &ResourceList| {
            let shown = exceeded.iter().filter_map(|name| amounts.get(*name).map(|amount| format!("{name}={amount}")));
            shown.collect::<Vec<_>>().join(",")
        };
        return Err(QuotaError::Exceeded {
            quota: metadata::name(quota).to_owned(),
            requested: show(wanted),
            used: show(&now),
            limited: show(hard),
        });
    }
    let mut changed = quota.clone();
    if let Some(status) = object_or_insert(&mut changed, "status") {
        let used: Map = used.into_iter().map(|(name, amount)| (name, amount.to_string())).collect();
        status.insert("used", Value::Object(used));
    }
    Ok(Some(changed))
}

fn hard(quota: &Value) -> ResourceList {
    amounts(quota.pointer("/status/hard"))
}

fn has_active_deadline(pod: &Value) -> bool {
    pod.pointer("/spec/activeDeadlineSeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds >= 0)
}

/// Returns the owner reference of a claim to the pod for whose extended resources it was made.
fn owning_pod(claim: &Value) -> Option<&Value> {
    let is_extended = metadata::annotation(claim, "resource.kubernetes.io/extended-resource-claim") == Some("true");
    metadata::controller(claim)
        .filter(|owner| is_extended && str_field(owner, "kind") == "Pod" && str_field(owner, "apiVersion") == "v1")
}

/// Returns true for extended resources, those of classes of devices included.
fn is_extended(name: &str) -> bool {
    if name.starts_with(OF_CLASS) {
        return true;
    }
    name.split_once('/').is_some_and(|(domain, _)| domain != "kubernetes.io" && !domain.ends_with(".kubernetes.io"))
}

/// Returns true if a claim is in a scope, of which claims have one: their classes of attributes.
fn claim_in_scope(claim: &Value, (scope, operator, values): (&str, &str, &[Value])) -> bool {
    let pointers = [
        "/spec/volumeAttributesClassName",
        "/status/currentVolumeAttributesClassName",
        "/status/modifyVolumeStatus/targetVolumeAttributesClassName",
    ];
    let classes: Vec<&Value> =
        pointers.iter().filter_map(|pointer| claim.pointer(pointer)).filter(|class| *class != "").collect();
    let listed = |class: &Value| values.contains(class);
    scope == "VolumeAttributesClass"
        && match operator {
            "Exists" => !classes.is_empty(),
            "DoesNotExist" => classes.is_empty(),
            "In" => classes.iter().any(|class| listed(class)),
            _ => classes.is_empty() || classes.iter().any(|class| !listed(class)),
        }
}

fn in_scope(pod: &Value, (scope, operator, values): (&str, &str, &[Value])) -> bool {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    match scope {
        "Terminating" => has_active_deadline(pod),
        "NotTerminating" => !has_active_deadline(pod),
        "BestEffort" => qos::class(spec) == "BestEffort",
        "NotBestEffort" => qos::class(spec) != "BestEffort",
        "PriorityClass" => {
            let class = str_field(spec, "priorityClassName");
            let listed = values.iter().any(|value| value == class);
            match operator {
                "Exists" => !class.is_empty(),
                "DoesNotExist" => class.is_empty(),
                "In" => !class.is_empty() && listed,
                _ => class.is_empty() || !listed,
            }
        }
        "CrossNamespacePodAffinity" => crosses_namespaces(spec),
        _ => false,
    }
}

fn crosses_namespaces(spec: &Value) -> bool {
    let crosses = |term: &Value| {
        !array_field(term, "namespaces").is_empty()
            || term.get("namespaceSelector").is_some_and(|selector| !selector.is_null())
    };
    ["podAffinity", "podAntiAffinity"].into_iter().any(|kind| {
        let Some(affinity) = spec.pointer(&format!("/affinity/{kind}")) else { return false };
        array_field(affinity, "requiredDuringSchedulingIgnoredDuringExecution").iter().any(crosses)
            || array_field(affinity, "preferredDuringSchedulingIgnoredDuringExecution")
                .iter()
                .filter_map(|weighted| weighted.get("podAffinityTerm"))
                .any(crosses)
    })
}

/// Returns the `restricted` resources of which containers specify no amounts, with these containers.
fn missing_amounts(pod: &Value, restricted: &[&str]) -> Vec<(String, Vec<String>)> {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let own =
        |field: &str| spec.pointer(&format!("/resources/{field}")).is_some_and(|list| !is_empty_value(Some(list)));
    if own("requests") || own("limits") {
        return Vec::new();
    }
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for container in array_field(spec, "containers").iter().chain(array_field(spec, "initContainers")) {
        let list = |field: &str| amounts(container.pointer(&format!("/resources/{field}")));
        let said = to_quota_resources(&list("requests"), &list("limits"));
        for name in
            restricted.iter().filter(|name| REQUIRED_COMPUTE_RESOURCES.contains(name) && !said.contains_key(**name))
        {
            missing.entry(name).or_default().insert(str_field(container, "name"));
        }
    }
    let owned = |names: BTreeSet<&str>| names.into_iter().map(str::to_owned).collect();
    missing.into_iter().map(|(resource, names)| (resource.to_owned(), owned(names))).collect()
}

/// Converts requests and limits to quota resources.
fn to_quota_resources(requests: &ResourceList, limits: &ResourceList) -> ResourceList {
    let mut all = ResourceList::from([("pods".to_owned(), Quantity::from(1))]);
    for (name, amount) in requests {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-") {
            all.insert(name.clone(), *amount);
        } else if !is_extended(name) {
            continue;
        }
        all.insert(format!("requests.{name}"), *amount);
    }
    for name in ["cpu", "memory", "ephemeral-storage"] {
        if let Some(amount) = limits.get(name) {
            all.insert(format!("limits.{name}"), *amount);
        }
    }
    all
}

/// Adds the usage of a pod, unless it has terminated.
fn pod_usage(pod: &Value, now: Timestamp, used: &mut ResourceList) {
    let status = pod.get("status").unwrap_or(&Value::Null);
    if matches!(str_field(status, "phase"), "Failed" | "Succeeded") {
        return;
    }
    let metadata = pod.get("metadata").unwrap_or(&Value::Null);
    let grace = metadata.get("deletionGracePeriodSeconds").and_then(Value::as_i64);
    if let (Ok(deleted), Some(grace)) = (str_field(metadata, "deletionTimestamp").parse::<Timestamp>(), grace)
        && now.as_second() > deleted.as_second().saturating_add(grace)
    {
        return;
    }
    used.extend(to_quota_resources(&pod_resources(pod, "requests"), &pod_resources(pod, "limits")));
}

fn service_usage(service: &Value, used: &mut ResourceList) {
    let spec = service.get("spec").unwrap_or(&Value::Null);
    let ports = array_field(spec, "ports");
    let given = ports.iter().filter(|port| port.get("nodePort").and_then(Value::as_i64).unwrap_or(0) != 0).count();
    let (balancers, node_ports) = match str_field(spec, "type") {
        "NodePort" => (0, ports.len()),
        "LoadBalancer" if spec.get("allocateLoadBalancerNodePorts") == Some(&Value::Bool(false)) => (1, given),
        "LoadBalancer" => (1, ports.len()),
        _ => (0, 0),
    };
    let count = |number: usize| Quantity::from(i64::try_from(number).unwrap_or(i64::MAX));
    used.insert("services".to_owned(), Quantity::from(1));
    used.insert("services.loadbalancers".to_owned(), count(balancers));
    used.insert("services.nodeports".to_owned(), count(node_ports));
}

fn claim_usage(claim: &Value, used: &mut ResourceList) {
    const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
    let annotated = metadata::annotation(claim, BETA_CLASS).unwrap_or_default();
    let class = if annotated.is_empty() {
        claim.get("spec").map_or("", |s| str_field(s, "storageClassName"))
    } else {
        annotated
    };
    let storage = |pointer: &str| claim.pointer(pointer).and_then(Quantity::of);
    let wanted =
        storage("/spec/resources/requests/storage").map(|wanted| match storage("/status/allocatedResources/storage") {
            Some(given) if given > wanted => given,
            _ => wanted,
        });
    let mut count = |resource: &str, amount: Quantity| {
        used.insert(resource.to_owned(), amount);
        if !class.is_empty() {
            used.insert(format!("{class}{STORAGE_CLASS}{resource}"), amount);
        }
    };
    count("persistentvolumeclaims", Quantity::from(1));
    if let Some(wanted) = wanted {
        count("requests.storage", wanted.rounded_up());
    }
}

/// Adds the devices that a resource claim may be given, by class; of alternatives, the most of each class. See
/// `pkg/quota/v1/evaluator/core/resource_claims.go`.
fn device_usage(claim: &Value, used: &mut ResourceList) {
    let class = |request: &Value| format!("{}{DEVICES}", str_field(request, "deviceClassName"));
    let devices = |request: &Value| match str_field(request, "allocationMode") {
        "ExactCount" => Quantity::from(request.get("count").and_then(Value::as_i64).unwrap_or(0)),
        "All" => Quantity::from(MOST_DEVICES),
        _ => Quantity::from(0),
    };
    let requests = claim.pointer("/spec/devices/requests").and_then(Value::as_array);
    for request in requests.into_iter().flatten() {
        let mut wanted = ResourceList::new();
        if let Some(exactly) = request.get("exactly").filter(|exactly| exactly.is_object()) {
            wanted.insert(class(exactly), devices(exactly));
        }
        for alternative in array_field(request, "firstAvailable") {
            max_all(&mut wanted, &ResourceList::from([(class(alternative), devices(alternative))]));
        }
        add_all(used, &wanted);
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::json::json;

    fn quota(hard: Value, used: Value) -> Value {
        json!({"metadata": {"name": "small"}, "status": {"hard": hard, "used": used}})
    }

    fn pod(cpu: Option<&str>) -> Value {
        let resources = cpu.map_or_else(|| json!({}), |cpu| json!({"requests": {"cpu": cpu}}));
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "resources": resources}]}})
    }

    fn ask<'a>(plural: &'a str, object: &'a Value, old: Option<&'a Value>) -> QuotaRequest<'a> {
        QuotaRequest { group: "", plural, subresource: "", object, old, now: Timestamp::UNIX_EPOCH, lookup: &Devices }
    }

    /// The class `a` provides `x.io/gpu`; the pod `p` requests one, and has the claims `c` and `d`.
    struct Devices;

    impl ObjectLister for Devices {
        fn get(&self, _: &str, resource: &str, namespace: &str, name: &str) -> Option<Value> {
            self.list("", resource, namespace).into_iter().find(|object| metadata::name(object) == name)
        }

        fn list(&self, _: &str, resource: &str, _: &str) -> Vec<Value> {
            match resource {
                "deviceclasses" => vec![
                    json!({"metadata": {"name": "a"}, "spec": {"extendedResourceName": "x.io/gpu"}}),
                    json!({"metadata": {"name": "b"}, "spec": {}}),
                ],
                "pods" => vec![json!({"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": [
                    {"resources": {"requests": {"x.io/gpu": "1", "deviceclass.resource.kubernetes.io/b": "1"}}}]}})],
                "resourceclaims" => vec![made_claim("c"), made_claim("d")],
                _ => Vec::new(),
            }
        }
    }

    fn made_claim(name: &str) -> Value {
        let request =
            |class: &str| json!({"exactly": {"deviceClassName": class, "allocationMode": "ExactCount", "count": 2}});
        json!({"metadata": {"name": name, "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": true}]},
            "spec": {"devices": {"requests": [request("a"), request("b")]}}})
    }

    /// `TestResourceClaimEvaluatorUsage` and `TestResourceClaimEvaluatorMatchingResources` in
    /// `pkg/quota/v1/evaluator/core/resource_claims_test.go`: the pod is charged for one of two devices, by its first
    /// claim.
    #[rstest]
    #[case("c", "requests.x.io/gpu", "1")]
    #[case("c", "requests.deviceclass.resource.kubernetes.io/a", "2")]
    #[case("c", "requests.deviceclass.resource.kubernetes.io/b", "1")]
    #[case("d", "requests.x.io/gpu", "2")]
    fn claims_are_counted_as_extended_resources(#[case] name: &str, #[case] resource: &str, #[case] expected: &str) {
        let claim = made_claim(name);
        let request = QuotaRequest { group: "resource.k8s.io", ..ask("resourceclaims", &claim, None) };
        assert!(request.matches_resource(resource) && ask("pods", &claim, None).matches_resource(resource));
        assert_eq!(request.usage(&claim).get(resource).map(ToString::to_string).as_deref(), Some(expected));
        for other in ["requests.y.io/gpu", "requests.deviceclass.resource.kubernetes.io/z"] {
            assert!(!request.matches_resource(other), "{other}");
        }
    }

    #[test]
    fn claims_of_devices_are_counted_by_class() {
        let exactly = |class: &str, count: i64| json!({"exactly": {"deviceClassName": class, "allocationMode": "ExactCount", "count": count}});
        let all = json!({"exactly": {"deviceClassName": "b", "allocationMode": "All"}});
        let either = json!({"firstAvailable": [
            {"deviceClassName": "a", "allocationMode": "ExactCount", "count": 2},
            {"deviceClassName": "a", "allocationMode": "ExactCount", "count": 5},
            {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1},
        ]});
        let claim = json!({"spec": {"devices": {"requests": [exactly("a", 1), all, either]}}});
        let request = QuotaRequest { group: "resource.k8s.io", ..ask("resourceclaims", &claim, None) };
        let name = |class: &str| format!("{class}.deviceclass.resource.k8s.io/devices");
        let usage = request.usage(&claim);
        let used = ["a", "b", "c"].map(|class| usage.get(&name(class)).map(ToString::to_string));
        assert_eq!(used, ["6", "32", "1"].map(|amount| Some(amount.to_owned())));
        assert!(
            request.matches_resource(&name("a")) && request.matches_resource("count/resourceclaims.resource.k8s.io")
        );
        assert!(!ask("pods", &claim, None).matches_resource(&name("a")) && !request.matches_resource("pods"));
    }

    // Messages recorded from kube-apiserver 1.36.
    #[rstest]
    #[case(
        Some("700m"),
        "exceeded quota: small, requested: requests.cpu=700m, used: requests.cpu=400m, limited: requests.cpu=1"
    )]
    #[case(None, "failed quota: small: must specify requests.cpu for: c")]
    fn a_pod_that_is_too_much(#[case] cpu: Option<&str>, #[case] expected: &str) {
        let quotas = [quota(json!({"pods": "2", "requests.cpu": "1"}), json!({"pods": "1", "requests.cpu": "400m"}))];
        assert_eq!(add_usage(&quotas, &ask("pods", &pod(cpu), None)).unwrap_err().to_string(), expected);
    }

    #[test]
    fn what_fits_is_charged() {
        let quotas = [quota(json!({"pods": "2", "requests.cpu": "1"}), json!({"pods": "0", "requests.cpu": "0"}))];
        let charged = add_usage(&quotas, &ask("pods", &pod(Some("400m")), None)).unwrap();
        assert_eq!(charged[0]["status"]["used"], json!({"pods": "1", "requests.cpu": "400m"}));
    }

    #[test]
    fn a_quota_without_status_is_refused_only_where_it_says_something() {
        let object = json!({"metadata": {"name": "x"}});
        let unknown = [quota(json!({"configmaps": "4"}), json!({}))];
        assert_eq!(
            add_usage(&unknown, &ask("configmaps", &object, None)).unwrap_err().to_string(),
            "status unknown for quota: small, resources: configmaps"
        );
        assert_eq!(add_usage(&unknown, &ask("secrets", &object, None)), Ok(Vec::new()));
        let fresh = [json!({"metadata": {"name": "new"}, "spec": {"hard": {"configmaps": "0"}}})];
        assert_eq!(add_usage(&fresh, &ask("configmaps", &object, None)), Ok(Vec::new()));
    }

    #[test]
    fn an_update_is_charged_with_the_difference() {
        let service = |kind: &str| json!({"metadata": {"name": "s"}, "spec": {"type": kind, "ports": [{"port": 1}, {"port": 2}]}});
        let quotas = [quota(
            json!({"services": "1", "services.nodeports": "2"}),
            json!({"services": "1", "services.nodeports": "0"}),
        )];
        let old = service("ClusterIP");
        let new = service("NodePort");
        let charged = add_usage(&quotas, &ask("services", &new, Some(&old))).unwrap();
        assert_eq!(charged[0]["status"]["used"], json!({"services": "1", "services.nodeports": "2"}));
        assert_eq!(add_usage(&quotas, &ask("services", &old, Some(&new))), Ok(Vec::new()));
    }

    #[rstest]
    #[case("In", json!(["gold"]), json!("gold"), true)]
    #[case("In", json!(["gold"]), json!("silver"), false)]
    #[case("In", json!(["gold"]), Value::Null, false)]
    #[case("NotIn", json!(["gold"]), json!("silver"), true)]
    #[case("Exists", json!([]), json!("gold"), true)]
    #[case("DoesNotExist", json!([]), Value::Null, true)]
    fn claims_have_the_scope_of_their_class(
        #[case] operator: &str,
        #[case] values: Value,
        #[case] class: Value,
        #[case] charged: bool,
    ) {
        let mut scoped = quota(json!({"persistentvolumeclaims": "1"}), json!({"persistentvolumeclaims": "0"}));
        scoped["spec"] = json!({"scopeSelector": {"matchExpressions": [
            {"scopeName": "VolumeAttributesClass", "operator": operator, "values": values}]}});
        let mut claim = json!({"spec": {}});
        if !class.is_null() {
            claim["spec"]["volumeAttributesClassName"] = class;
        }
        let asked = add_usage(&[scoped], &ask("persistentvolumeclaims", &claim, None));
        assert_eq!(asked.unwrap().len(), usize::from(charged));
    }

    #[rstest]
    #[case(json!(["BestEffort"]), None, true)]
    #[case(json!(["BestEffort"]), Some("1"), false)]
    #[case(json!(["NotBestEffort"]), Some("1"), true)]
    #[case(json!(["NotTerminating", "BestEffort"]), None, true)]
    fn a_scope_must_fit(#[case] scopes: Value, #[case] cpu: Option<&str>, #[case] charged: bool) {
        let mut scoped = quota(json!({"pods": "5"}), json!({"pods": "0"}));
        scoped["spec"] = json!({"scopes": scopes});
        assert_eq!(add_usage(&[scoped], &ask("pods", &pod(cpu), None)).unwrap().len(), usize::from(charged));
    }
}
