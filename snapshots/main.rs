//! Runs every fixture once and compares its transcript with the snapshot: `cargo test --test snapshots`,
//! `cargo insta review`.
//!
//! The server enforces `controllers/deploy/rbac.yaml` during the run, each controller with the rights of its own
//! account, and a run of the whole suite must need every right that the roles grant.

mod rights;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use parking_lot::Mutex;
use plumbline::fixture::parse;
use plumbline_suite::cluster::EmbeddedCluster;
use plumbline_suite::report::Outcome;
use plumbline_suite::runner::suite::{self, RunOptions, TestBed};
use plumbline_suite::snapshot::{self, Group};

/// The rights that were needed, each with the first fixture that needed it.
type Needed = Arc<Mutex<BTreeMap<(&'static str, rights::Right), String>>>;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    // A snapshot that differs is a panic: its message has the difference, and where the panic was says nothing.
    std::panic::set_hook(Box::new(|panic| {
        let _ = writeln!(std::io::stderr(), "{panic}");
    }));
    let root = rights::repository();
    let (fixtures, snapshots) = (root.join("fixtures"), root.join("snapshots"));
    let groups = match parse::load(&fixtures) {
        Ok(fixtures) => snapshot::groups(fixtures),
        Err(problems) => {
            let _ = writeln!(std::io::stderr(), "{problems}");
            return ExitCode::from(plumbline_suite::exit::Exit::BadFixtures.code());
        }
    };
    let orphans = snapshot::orphans(&snapshots, &groups);
    let mut trials = vec![Trial::test("no-orphans", move || match orphans {
        Ok(orphans) if orphans.is_empty() => Ok(()),
        Ok(orphans) => Err(Failed::from(format!("snapshots without a fixture, delete them: {orphans:#?}"))),
        Err(error) => Err(Failed::from(format!("unable to look for orphans: {error}"))),
    })];
    let roles: [(&str, fn()); 4] = [
        ("role/a-smaller-role-is-noticed", rights::a_smaller_role_is_noticed),
        ("role/a-controller-has-no-rights-of-another", rights::a_controller_has_no_rights_of_another),
        ("role/only-two-controllers-may-delete-pods", rights::only_two_controllers_may_delete_pods),
        ("role/leases-have-a-role-of-their-own", rights::leases_have_a_role_of_their_own),
    ];
    for (name, check) in roles {
        trials.push(Trial::test(name, move || {
            check();
            Ok(())
        }));
    }
    let needed = Needed::default();
    for group in groups {
        let input = fixtures.join(format!("{}.yaml", group.stem));
        let needed = needed.clone();
        trials.push(Trial::test(group.stem.clone(), move || check(&group, &input, &needed)));
    }
    let all = trials.len();
    let conclusion = libtest_mimic::run(&arguments, trials);
    if usize::try_from(conclusion.num_passed).is_ok_and(|passed| passed == all) {
        let problems = rights::compare(&needed.lock());
        if !problems.is_empty() {
            let _ = writeln!(std::io::stderr(), "controllers/deploy/rbac.yaml:\n{}", problems.join("\n"));
            return ExitCode::FAILURE;
        }
    }
    conclusion.exit_code()
}

/// Runs the group's fixtures and compares their transcripts with the snapshot.
fn check(group: &Group, input: &Path, needed: &Needed) -> Result<(), Failed> {
    let kubernetes = EmbeddedCluster::release_for(&group.fixtures)
        .ok_or_else(|| Failed::from(format!("{}: the API server behaves as none of its releases", group.stem)))?;
    // Fixtures of the API server alone show resourceVersions, which the objects of the role would change.
    let bed = if group.fixtures.iter().all(|fixture| fixture.controllers.is_empty()) {
        TestBed::embedded_at(kubernetes)
    } else {
        rights::confined(&rights::role_file(), kubernetes)
    };
    let mut judged = vec![None; group.fixtures.len()];
    suite::run_all(&group.fixtures, &bed, RunOptions::one_by_one(), |index, result| {
        judged[index] = Some(result);
        true
    });
    let judged: Vec<_> = judged.into_iter().flatten().collect();
    let mut needed = needed.lock();
    for judged in &judged {
        for right in judged.entries.iter().filter_map(rights::required) {
            needed.entry(right).or_insert_with(|| judged.report.id.clone());
        }
    }
    drop(needed);
    let mut reports = judged.iter().map(|judged| &judged.report);
    let provisional = group.fixtures.iter().all(|fixture| fixture.level == plumbline::fixture::Level::Provisional);
    if let Some(report) = reports.find(|report| report.outcome == Outcome::Fail && !provisional) {
        let failures: Vec<String> = report.failures.iter().map(ToString::to_string).collect();
        return Err(Failed::from(format!("{}: {}\n\n{}", report.id, failures.join("\n"), report.transcript)));
    }
    let (suite, name) = group.parts();
    let mut settings = insta::Settings::new();
    settings.set_snapshot_path(suite);
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.set_input_file(input);
    settings.set_description(group.fixtures.first().map_or("", |fixture| &fixture.promise));
    settings.bind(|| insta::assert_snapshot!(name, group.text(&judged)));
    Ok(())
}
