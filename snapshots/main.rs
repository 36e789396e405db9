//! Every fixture's transcript is a snapshot here. `cargo test --test snapshots`, `cargo insta review`.

use std::io::Write as _;
use std::path::Path;

use libtest_mimic::{Arguments, Failed, Trial};
use plumbline::fixture::parse;
use plumbline::report::Outcome;
use plumbline::runner::suite::{self, RunOptions, TestBed};
use plumbline::snapshot::{self, Group};

fn main() {
    let arguments = Arguments::from_args();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("");
    let (fixtures, snapshots) = (root.join("fixtures"), root.join("snapshots"));
    let groups = match parse::load(&fixtures) {
        Ok(fixtures) => snapshot::groups(fixtures),
        Err(problems) => {
            let _ = writeln!(std::io::stderr(), "{problems}");
            std::process::exit(plumbline::exit::Exit::BadFixtures.code().into());
        }
    };
    let orphans = snapshot::orphans(&snapshots, &groups);
    let mut trials = vec![Trial::test("no-orphans", move || match orphans {
        Ok(orphans) if orphans.is_empty() => Ok(()),
        Ok(orphans) => Err(Failed::from(format!("snapshots without a fixture, delete them: {orphans:#?}"))),
        Err(error) => Err(Failed::from(format!("unable to look for orphans: {error}"))),
    })];
    for group in groups {
        let input = fixtures.join(format!("{}.yaml", group.stem));
        trials.push(Trial::test(group.stem.clone(), move || check(&group, &input)));
    }
    libtest_mimic::run(&arguments, trials).exit();
}

/// Runs the group's fixtures and compares their transcripts with the snapshot.
fn check(group: &Group, input: &Path) -> Result<(), Failed> {
    let arena = TestBed::embedded();
    let mut judged = vec![None; group.fixtures.len()];
    suite::run_all(&group.fixtures, &arena, RunOptions::one_by_one(), |index, result| {
        judged[index] = Some(result);
        true
    });
    let judged: Vec<_> = judged.into_iter().flatten().collect();
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
