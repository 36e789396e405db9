//! Fault injection: the third patch of a config map fails with 409, and the client sees it.

use std::error::Error;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use plumbline_apiserver::ApiServer;
use plumbline_apiserver::clock::run_virtual;
use plumbline_apiserver::faults::FaultRuleSpec;
use serde_json::json;

async fn example() -> Result<Vec<String>, Box<dyn Error>> {
    let server = ApiServer::builder().build();
    server.seed([json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})])?;
    let rule: FaultRuleSpec = serde_json::from_value(json!({
        "name": "third patch",
        "on": {"verbs": ["patch"], "resource": "configmaps"},
        "nth": 3,
        "count": 1,
        "verdict": {"reply": {"code": 409, "message": "the object has been modified"}},
    }))?;
    server.faults().arm(rule.into());

    let maps: Api<ConfigMap> = Api::default_namespaced(server.client("patcher"));
    let mut lines = Vec::new();
    for number in 1..=4 {
        let patch = Patch::Merge(json!({"data": {"count": number.to_string()}}));
        lines.push(match maps.patch("a", &PatchParams::default(), &patch).await {
            Ok(_) => format!("patch {number}: ok"),
            Err(kube::Error::Api(status)) => format!("patch {number}: {} {}", status.code, status.message),
            Err(error) => return Err(error.into()),
        });
    }
    lines.push(format!("the rule hit {} request", server.faults().hits("third patch")));
    Ok(lines)
}

#[expect(clippy::print_stdout, reason = "this is the output of the example")]
fn main() -> Result<(), Box<dyn Error>> {
    for line in run_virtual(example())?? {
        println!("{line}");
    }
    Ok(())
}
