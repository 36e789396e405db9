//! Versions that Kubernetes removed, as kubectl sees them: `serve --legacy-apis`.

use super::{Session, in_virtual_time};

const MANIFESTS: &str = "
apiVersion: apiextensions.k8s.io/v1beta1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {plural: widgets, kind: Widget, shortNames: [wd]}
  version: v1
  additionalPrinterColumns: [{name: Size, type: integer, JSONPath: .spec.size}]
  validation: {openAPIV3Schema: {properties: {spec: {properties: {size: {type: integer}}}}}}
---
apiVersion: policy/v1beta1
kind: PodDisruptionBudget
metadata: {name: b}
spec: {minAvailable: 1, selector: {}}
---
apiVersion: batch/v1beta1
kind: CronJob
metadata: {name: j}
spec:
  schedule: '0 * * * *'
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}
";

const KINDS: [&str; 3] = [
    "customresourcedefinition.apiextensions.k8s.io/widgets.example.com",
    "poddisruptionbudget.policy/b",
    "cronjob.batch/j",
];

#[test]
fn old_manifests_are_applied_and_read_in_both_versions() {
    in_virtual_time(|| {
        let Some(session) = Session::start(&["--loops", "none", "--legacy-apis"]) else { return };
        let file = session.file("old.yaml", MANIFESTS);
        let outcome = |what: &str| KINDS.map(|kind| format!("{kind} {what}\n")).concat();
        session.expect(&format!("apply -f {file}"), &outcome("created"));
        session.expect(&format!("apply -f {file}"), &outcome("unchanged"));
        session.expect(&format!("apply --server-side --force-conflicts -f {file}"), &outcome("serverside-applied"));
        let warning = session.say("get cronjobs.v1beta1.batch").err;
        let text =
            "Warning: batch/v1beta1 CronJob is deprecated in v1.21+, unavailable in v1.25+; use batch/v1 CronJob";
        assert!(warning.contains(text), "{warning}");
        let marked = "deprecated-v1beta1-empty-selector-match";
        session.expect(
            "get poddisruptionbudgets.v1beta1.policy b -o jsonpath={.apiVersion}{.spec.selector}",
            "policy/v1beta1{}\n",
        );
        session.expect_in("get pdb b -o yaml", &["apiVersion: policy/v1\n", marked, "operator: Exists"]);
        session.expect("patch cronjobs.v1beta1.batch j -p {\"spec\":{\"suspend\":true}}", "cronjob.batch/j patched\n");
        session.expect("get cronjob j -o jsonpath={.apiVersion}{.spec.suspend}", "batch/v1true\n");
        session.expect_in("explain pdb.spec --api-version=policy/v1beta1", &["VERSION: v1beta1", "minAvailable"]);
        session.expect_in(
            "get crd widgets.example.com -o jsonpath={.spec.versions[0].additionalPrinterColumns}",
            &["\"jsonPath\":\".spec.size\""],
        );
        let widget = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nspec: {size: 3, other: x}\n";
        let widget = session.file("w.yaml", widget);
        session.expect(&format!("apply -f {widget}"), "widget.example.com/w created\n");
        session.expect("get wd", "NAME SIZE\nw 3\n");
        session.expect("get wd w -o jsonpath={.spec.other}", "x\n");
        session.expect(
            "delete poddisruptionbudgets.v1beta1.policy b",
            "poddisruptionbudget.policy \"b\" deleted from default namespace\n",
        );
        session
            .expect_in(&format!("delete -f {file} --ignore-not-found"), &["customresourcedefinition", "cronjob.batch"]);
    });
}
