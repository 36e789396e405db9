//! `--use-service-account-credentials` of our program, over HTTPS, with the roles of `controllers/deploy/rbac.yaml`
//! enforced: each controller acts as a service account of its own and needs no other rights.

use std::path::{Path, PathBuf};
use std::process::Output;

use crate::source_files::repository;
use crate::support::{self, controllers};

/// A fixture for each controller that ends within seconds.
const FIXTURES: [&str; 4] = [
    "disruption/owners-mixed",
    "podgc/unscheduled-terminating",
    "taint-eviction/untolerated-is-immediate",
    "ttl/equal-value-is-not-written",
];

fn deployed_roles() -> PathBuf {
    repository().join("controllers/deploy/rbac.yaml")
}

/// Runs the fixtures against our program with `flags` and the roles of `role`.
fn run(flags: &str, role: &Path) -> Output {
    let program = controllers();
    let subject = format!(
        "{} --kubeconfig={{kubeconfig}} --controllers={{controllers}} --leader-elect=false --secure-port=0 \
         --kube-api-qps=0 {flags} {{flags}}",
        program.display()
    );
    let mut command = support::program();
    command.args(["run", "--cluster", "fake", "--command", &subject, "--subject-role"]).arg(role).args(FIXTURES);
    command.output().expect("the program starts")
}

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}

#[test]
fn each_controller_acts_as_its_own_account() {
    let output = run("--use-service-account-credentials", &deployed_roles());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
}

#[test]
fn without_the_flag_the_programs_own_account_may_not_write() {
    let output = run("", &deployed_roles());
    assert_eq!(output.status.code(), Some(100), "{}", text(&output));
}

#[test]
fn an_account_without_its_role_may_not_write() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rbac.yaml");
    let roles = std::fs::read_to_string(deployed_roles()).expect("the roles");
    let subject = |name: &str| format!("- kind: ServiceAccount\n  name: {name}\n");
    std::fs::write(&file, roles.replace(&subject("ttl-controller"), &subject("disruption-controller")))
        .expect("written");
    let output = run("--use-service-account-credentials", &file);
    let text = text(&output);
    assert_eq!(output.status.code(), Some(100), "{text}");
    let failed = |suite: &str| text.lines().any(|line| line.contains('✗') && line.contains(suite));
    assert!(failed("ttl") && !failed("taint-eviction"), "{text}");
}
