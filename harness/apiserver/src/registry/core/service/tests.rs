//! Tests of allocation and of updates of services.

use rstest::rstest;

use crate::json::fields::array_field;
use crate::json::{Value, json};
use crate::registry::core::service::Service;
use crate::registry::lister::ObjectLister;
use crate::registry::strategy::{Strategy, StrategyContext};
use crate::status::Status;

struct FakeLister(Vec<Value>);

impl ObjectLister for FakeLister {
    fn get(&self, _: &str, _: &str, _: &str, _: &str) -> Option<Value> {
        None
    }

    fn list(&self, _: &str, _: &str, _: &str) -> Vec<Value> {
        self.0.clone()
    }
}

fn create(spec: Value, taken: &FakeLister) -> Result<Value, Status> {
    let ctx = StrategyContext::of_test(taken);
    let mut service = json!({"metadata": {"name": "s", "namespace": "n"}, "spec": spec});
    Service.default(&mut service);
    Service.begin_create(&mut service, &ctx)?;
    Service.prepare_for_create(&mut service, &ctx);
    let errors = Service.validate(&service);
    if !errors.is_empty() {
        return Err(Status::invalid("", "Service", "s", &errors));
    }
    Service.canonicalize(&mut service);
    Ok(service)
}

/// Replaces a service by one with another spec.
fn update(old: &Value, spec: Value, taken: &FakeLister) -> Result<Value, Status> {
    let ctx = StrategyContext::of_test(taken);
    let mut old = old.clone();
    old["metadata"]["resourceVersion"] = "1".into();
    let mut new = json!({"metadata": old["metadata"], "spec": spec});
    Service.default(&mut new);
    Service.begin_update(&mut new, &old, &ctx)?;
    Service.prepare_for_update(&mut new, &old, &ctx);
    let errors = Service.validate_update(&new, &old);
    if !errors.is_empty() {
        return Err(Status::invalid("", "Service", "s", &errors));
    }
    Service.canonicalize(&mut new);
    Ok(new)
}

/// Returns a spec with other values of some fields; null removes one.
fn with(spec: &Value, changes: &Value) -> Value {
    let mut spec = spec.clone();
    let fields = spec.as_object_mut().expect("an object");
    for (field, value) in changes.as_object().expect("an object") {
        match value {
            Value::Null => fields.remove(field.as_str()),
            value => fields.insert(field.to_string(), value.clone()),
        };
    }
    spec
}

#[test]
fn the_lowest_free_address_is_given_out() {
    let none = FakeLister(Vec::new());
    let first = create(json!({"ports": [{"port": 80}]}), &none).expect("created");
    assert_eq!(first["spec"]["clusterIP"], "10.0.0.17");
    assert_eq!(first["spec"]["ipFamilies"], json!(["IPv4"]));
    let mut other = first;
    other["metadata"]["name"] = "other".into();
    let second = create(json!({"ports": [{"port": 80}]}), &FakeLister(vec![other])).expect("created");
    assert_eq!(second["spec"]["clusterIPs"], json!(["10.0.0.18"]));
}

#[rstest]
#[case::without_selector(json!({}), json!(["IPv4", "IPv6"]), "RequireDualStack")]
#[case::with_selector(json!({"a": "b"}), json!(["IPv4"]), "SingleStack")]
fn headless_services_get_families_only(#[case] selector: Value, #[case] families: Value, #[case] policy: &str) {
    let spec = json!({"clusterIP": "None", "selector": selector});
    let service = create(spec, &FakeLister(Vec::new())).expect("created");
    assert_eq!(service["spec"]["clusterIPs"], json!(["None"]));
    assert_eq!(service["spec"]["ipFamilies"], families);
    assert_eq!(service["spec"]["ipFamilyPolicy"], policy);
}

#[test]
fn addresses_outside_of_the_range_are_refused() {
    let spec = json!({"ports": [{"port": 80}], "clusterIP": "10.1.0.77"});
    let refused = create(spec, &FakeLister(Vec::new())).expect_err("out of range");
    assert!(refused.message.ends_with(
        "spec.clusterIPs: Invalid value: [\"10.1.0.77\"]: failed to allocate IP 10.1.0.77: the provided network does not match the current range"
    ));
}

#[test]
fn node_ports_are_given_out_per_protocol() {
    let spec = json!({"type": "NodePort", "ports": [
        {"name": "a", "port": 80}, {"name": "b", "port": 81}, {"name": "c", "port": 80, "protocol": "UDP"}]});
    let service = create(spec, &FakeLister(Vec::new())).expect("created");
    let ports: Vec<i64> =
        array_field(&service["spec"], "ports").iter().filter_map(|p| p["nodePort"].as_i64()).collect();
    assert_eq!(ports, [30_086, 30_087, 30_086]);
}

#[test]
fn updates_keep_what_was_given_out() {
    let taken = FakeLister(Vec::new());
    let old = create(json!({"type": "NodePort", "ports": [{"port": 80}]}), &taken).expect("created");
    let same = update(&old, json!({"type": "NodePort", "ports": [{"port": 80}]}), &taken).expect("updated");
    assert_eq!(same["spec"], old["spec"]);
    let external = json!({"type": "ExternalName", "externalName": "a.b"});
    for kept in [json!({}), old["spec"].clone()] {
        let new = update(&old, with(&kept, &with(&external, &json!({"ports": null}))), &taken).expect("updated");
        let fields = ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"];
        assert!(fields.iter().all(|field| new["spec"].get(*field).is_none()), "{new}");
    }
}

/// `TestValidateServiceUpdate` of `pkg/apis/core/validation/validation_test.go`, `TestPatchAllocatedValues` and the
/// updates in `pkg/registry/core/service/storage/storage_test.go`, as far as a cluster with IPv4 has them.
#[rstest]
#[case::address(json!({}), json!({"clusterIP": "10.0.0.99", "clusterIPs": null}),
    "spec.clusterIPs[0]: Invalid value: [\"10.0.0.99\"]: may not change once set")]
#[case::both_addresses(json!({}), json!({"clusterIP": "10.0.0.99", "clusterIPs": ["10.0.0.99"]}),
    "spec.clusterIPs[0]: Invalid value: [\"10.0.0.99\"]: may not change once set")]
#[case::headless(json!({}), json!({"clusterIP": "None"}),
    "spec.clusterIPs[0]: Invalid value: [\"None\"]: may not change once set")]
#[case::one_of_both_addresses(json!({}), json!({"clusterIPs": ["10.0.0.99"]}),
    "spec.clusterIPs: Invalid value: [\"10.0.0.99\"]: first value must match `clusterIP`")]
#[case::external(json!({}), json!({"type": "ExternalName", "externalName": "a", "clusterIP": "10.0.0.99"}),
    "spec.clusterIPs: Forbidden: may not be set for ExternalName services")]
#[case::class(json!({"type": "LoadBalancer", "loadBalancerClass": "a/b"}), json!({"loadBalancerClass": "a/c"}),
    "spec.loadBalancerClass: Invalid value: \"a/c\": may not change once set")]
#[case::no_class(json!({"type": "LoadBalancer", "loadBalancerClass": "a/b"}), json!({"loadBalancerClass": null}),
    "spec.loadBalancerClass: Invalid value: null: may not change once set")]
#[case::health_check(json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"}),
    json!({"healthCheckNodePort": 30_500}), "spec.healthCheckNodePort: Forbidden: field is immutable")]
#[case::families(json!({"clusterIP": "None"}), json!({"selector": {"a": "b"}}),
    "[spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services, spec.ipFamilies[1]: Invalid value: \"IPv6\": not configured on this cluster]")]
#[case::fewer_families(json!({"clusterIP": "None"}), json!({"ipFamilies": ["IPv4"]}),
    "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": must be 'SingleStack' to release the secondary IP family")]
#[case::node_port(json!({"type": "NodePort"}), json!({"ports": [{"port": 80, "nodePort": 1}]}),
    "spec.ports[0].nodePort: Invalid value: 1: provided port is not in the valid range. The range of valid ports is 30000-32767")]
#[case::no_node_ports(json!({"type": "NodePort"}), json!({"type": "ClusterIP", "ports": [{"port": 80, "nodePort": 30_500}]}),
    "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'")]
#[case::affinity(json!({}), json!({"sessionAffinity": "x"}),
    "spec.sessionAffinity: Unsupported value: \"x\": supported values: \"ClientIP\", \"None\"")]
fn updates_are_refused(#[case] first: Value, #[case] changes: Value, #[case] why: &str) {
    let taken = FakeLister(Vec::new());
    let old = create(with(&json!({"ports": [{"port": 80}]}), &first), &taken).expect("created");
    let refused = update(&old, with(&old["spec"], &changes), &taken).expect_err("refused");
    assert_eq!(refused.message, format!("Service \"s\" is invalid: {why}"));
}

/// `validateLoadBalancerClassField` runs twice in an update.
#[test]
fn a_class_is_judged_twice_in_updates() {
    let taken = FakeLister(Vec::new());
    let old = create(json!({"ports": [{"port": 80}]}), &taken).expect("created");
    let refused = update(&old, with(&old["spec"], &json!({"loadBalancerClass": "a/b"})), &taken).expect_err("refused");
    let details = refused.details.expect("details");
    let causes: Vec<_> = details.causes.iter().map(|cause| cause.field.as_str()).collect();
    assert_eq!(causes, ["spec.loadBalancerClass"; 2]);
}

/// Node ports that an update omits stay, by the names of ports; those that do not apply any more go.
#[rstest]
#[case::by_name(json!({"type": "NodePort", "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]}),
    json!({"ports": [{"name": "b", "port": 82}, {"name": "c", "port": 80}]}), &[30_087, 30_088])]
#[case::used(json!({"type": "NodePort", "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]}),
    json!({"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81, "nodePort": 30_086}]}), &[30_088, 30_086])]
#[case::added(json!({"ports": [{"port": 80}]}), json!({"type": "NodePort"}), &[30_086])]
#[case::removed(json!({"type": "NodePort", "ports": [{"port": 80}]}), json!({"type": "ClusterIP"}), &[0])]
#[case::not_automatic(json!({"ports": [{"port": 80}]}),
    json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false}), &[0])]
#[case::kept_by_balancer(json!({"type": "NodePort", "ports": [{"port": 80}]}),
    json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false}), &[30_086])]
fn node_ports_follow_updates(#[case] first: Value, #[case] changes: Value, #[case] expected: &[i64]) {
    let taken = FakeLister(Vec::new());
    let old = create(first, &taken).expect("created");
    let new = update(&old, with(&old["spec"], &changes), &taken).expect("updated");
    let ports: Vec<i64> =
        array_field(&new["spec"], "ports").iter().map(|port| port["nodePort"].as_i64().unwrap_or(0)).collect();
    assert_eq!(ports, expected);
}

/// `beginCreate` in `pkg/registry/core/service/storage/storage.go` comes before the conflict of names.
#[test]
fn a_service_of_the_same_name_holds_its_address_and_ports() {
    let none = FakeLister(Vec::new());
    let spec = json!({"type": "NodePort", "clusterIP": "10.0.0.41", "ports": [{"port": 80, "nodePort": 30_086}]});
    let same = FakeLister(vec![create(spec.clone(), &none).expect("created")]);
    let why = "failed to allocate IP 10.0.0.41: provided IP is already allocated";
    assert!(create(spec, &same).expect_err("taken").message.ends_with(why));
    let port = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30_086}]});
    assert!(create(port, &same).expect_err("taken").message.ends_with("provided port is already allocated"));
}

#[test]
fn a_node_port_is_taken_for_all_protocols() {
    let none = FakeLister(Vec::new());
    let mut other =
        create(json!({"type": "NodePort", "ports": [{"port": 80, "protocol": "UDP"}]}), &none).expect("created");
    other["metadata"]["name"] = "other".into();
    let taken = FakeLister(vec![other]);
    let spec = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30_086}]});
    let refused = create(spec.clone(), &taken).expect_err("taken");
    let why = "spec.ports[0].nodePort: Invalid value: 30086: provided port is already allocated";
    assert_eq!(refused.message, format!("Service \"s\" is invalid: {why}"));
    let old = create(json!({"ports": [{"port": 80}]}), &taken).expect("created");
    assert_eq!(update(&old, spec, &taken).expect_err("taken").message, refused.message);
    let twice = json!({"type": "NodePort", "ports": [
        {"name": "a", "port": 80, "nodePort": 30_500}, {"name": "b", "port": 81, "nodePort": 30_500}]});
    let refused = update(&old, twice, &none).expect_err("twice");
    assert_eq!((refused.code, refused.message.as_str()), (500, "duplicate nodePort: {TCP 30500}"));
    let local = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30_086,
        "ports": [{"port": 80}]});
    let refused = create(local, &taken).expect_err("taken");
    let why = "failed to allocate requested HealthCheck NodePort 30086: provided port is already allocated";
    assert_eq!((refused.code, refused.message), (500, format!("Internal error occurred: {why}")));
}

/// Messages of kube-apiserver 1.36 with IPv4 only.
#[rstest]
#[case::family(json!({"ipFamilies": ["IPv6"]}), "spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster")]
#[case::families(json!({"ipFamilies": ["IPv4", "IPv6"]}),
    "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified")]
#[case::addresses(json!({"clusterIPs": ["10.0.0.50", "10.0.0.51"]}),
    "[spec.clusterIPs: Invalid value: [\"10.0.0.50\",\"10.0.0.51\"]: must be empty when `clusterIP` is not specified, spec.clusterIPs: Invalid value: [\"10.0.0.50\",\"10.0.0.51\"]: may specify no more than one IP for each IP family]")]
#[case::ranges(json!({"loadBalancerSourceRanges": ["x"]}),
    "[spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer', spec.LoadBalancerSourceRanges[0]: Invalid value: \"x\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)]")]
#[case::health_check(json!({"healthCheckNodePort": 30000}),
    "spec.healthCheckNodePort: Invalid value: 30000: may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'")]
#[case::class(json!({"loadBalancerClass": "x"}), "spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'")]
fn what_does_not_fit_is_refused(#[case] more: Value, #[case] why: &str) {
    let mut spec = json!({"ports": [{"port": 80}]});
    spec.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    let refused = create(spec, &FakeLister(Vec::new())).expect_err("refused");
    assert_eq!(refused.message, format!("Service \"s\" is invalid: {why}"));
}

#[test]
fn local_balancers_get_a_port_for_health_checks_and_keep_it() {
    let taken = FakeLister(Vec::new());
    let spec = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80}]});
    let old = create(spec.clone(), &taken).expect("created");
    assert_eq!(old["spec"]["healthCheckNodePort"], 30_087);
    assert_eq!(update(&old, spec, &taken).expect("updated")["spec"], old["spec"]);
    let cluster = with(&old["spec"], &json!({"externalTrafficPolicy": "Cluster"}));
    assert_eq!(update(&old, cluster, &taken).expect("updated")["spec"].get("healthCheckNodePort"), None);
}
