//! Tests of allocation and of updates of services.

use jiff::Timestamp;
use rstest::rstest;

use crate::authn;
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
    let ctx = StrategyContext { now: Timestamp::UNIX_EPOCH, user: &authn::NO_USER, lookup: taken };
    let mut service = json!({"metadata": {"name": "s", "namespace": "n"}, "spec": spec});
    Service.default(&mut service);
    Service.prepare_for_create(&mut service, &ctx);
    let errors = Service.validate(&service);
    if !errors.is_empty() {
        return Err(Status::invalid("", "Service", "s", &errors));
    }
    Service.begin_create(&mut service, &ctx)?;
    Ok(service)
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
    let ctx = StrategyContext { now: Timestamp::UNIX_EPOCH, user: &authn::NO_USER, lookup: &taken };
    let old = create(json!({"type": "NodePort", "ports": [{"port": 80}]}), &taken).expect("created");
    let mut new = json!({"metadata": old["metadata"], "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
    Service.default(&mut new);
    Service.prepare_for_update(&mut new, &old, &ctx);
    assert_eq!(new["spec"], old["spec"]);
    let mut new = json!({"metadata": old["metadata"], "spec": {"type": "ExternalName", "externalName": "a.b"}});
    Service.default(&mut new);
    Service.prepare_for_update(&mut new, &old, &ctx);
    assert_eq!(new["spec"], json!({"type": "ExternalName", "externalName": "a.b", "sessionAffinity": "None"}));
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
    let ctx = StrategyContext { now: Timestamp::UNIX_EPOCH, user: &authn::NO_USER, lookup: &taken };
    let spec = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80}]});
    let old = create(spec.clone(), &taken).expect("created");
    assert_eq!(old["spec"]["healthCheckNodePort"], 30_087);
    let mut new = json!({"metadata": old["metadata"], "spec": spec});
    Service.default(&mut new);
    Service.prepare_for_update(&mut new, &old, &ctx);
    assert_eq!(new["spec"], old["spec"]);
    let mut cluster = old.clone();
    cluster["spec"]["externalTrafficPolicy"] = "Cluster".into();
    Service.prepare_for_update(&mut cluster, &old, &ctx);
    assert_eq!(cluster["spec"].get("healthCheckNodePort"), None);
}
