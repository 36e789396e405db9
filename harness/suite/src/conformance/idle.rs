//! The fixtures that a program passes that does nothing: `fixtures/idle.yaml`.
//!
//! Many promises say what must not happen. A pass of such a fixture alone shows no work, so reports count them, and a
//! profile needs others. `cargo run -p xtask -- idle` measures them with [`passed`], and a test compares the file.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::sync::Arc;

use plumbline::fixture::decode::Cursor;
use plumbline::fixture::schema::{Record, must};
use plumbline::fixture::{Controller, Fixture, Problems};
use plumbline_apiserver::KubernetesVersion;

use crate::cluster::EmbeddedCluster;
use crate::plan::{Filter, Plan};
use crate::report::{Event, Outcome, Reporter};
use crate::runner::suite::{self, RunOptions, TestBed};
use crate::strict;
use crate::subject::client_factory::ClientFactory;
use crate::subject::task::{RunningTask, TaskController, TaskSubject};
use crate::subject::{Launch, SubjectError};

/// The file below the fixtures folder.
pub const FILE: &str = "idle.yaml";

/// Schema of the file.
const RECORD: Record = Record {
    name: "idle",
    doc: "What a program passes that does nothing.",
    fields: &[must("passed", "list of ids", "Ids of the fixtures.")],
};

const HEAD: &str = "\
# The fixtures that a program passes that lists everything once and then does nothing. Reports count them, and a profile
# needs passes of others. Measured: `cargo run -p xtask -- idle` writes this file, and a test compares it.
passed:
";

/// Reads the file.
///
/// # Errors
///
/// Returns every problem with its line.
pub fn load(file: &Path) -> Result<BTreeSet<String>, Problems> {
    strict::load(file, |cursor| {
        let list = cursor.record(&RECORD)?.get("passed")?;
        Some(list.list().iter().filter_map(Cursor::words).collect())
    })
}

/// Returns the content of the file for these ids.
#[must_use]
pub fn text(passed: &BTreeSet<String>) -> String {
    let mut out = HEAD.to_owned();
    for id in passed {
        let _ = writeln!(out, "- {id}");
    }
    out
}

/// Runs all fixtures that have controllers against a program that does nothing, in virtual time, and returns the ids of
/// those that passed. A fixture is run on the first release in which it holds.
///
/// # Errors
///
/// Never: nothing is written.
pub fn passed(fixtures: &[Fixture], jobs: usize) -> io::Result<BTreeSet<String>> {
    let mut judged: Vec<Fixture> = fixtures.iter().filter(|fixture| !fixture.controllers.is_empty()).cloned().collect();
    let mut passed = BTreeSet::new();
    for kubernetes in KubernetesVersion::ALL {
        let cluster = EmbeddedCluster { kubernetes, ..EmbeddedCluster::default() };
        let test_bed = TestBed::new(Arc::new(cluster), Arc::new(TaskSubject::new(Idler)));
        let mut offered = test_bed.capabilities();
        offered.features = ["*".to_owned()].into();
        let plan = Plan::new(&judged, &offered, &Filter::default());
        let options = RunOptions { jobs, ..RunOptions::one_by_one() };
        let report = suite::run(&plan, &test_bed, options, &mut Silent)?;
        let ids = report.fixtures.into_iter().filter(|fixture| fixture.outcome == Outcome::Pass);
        passed.extend(ids.map(|fixture| fixture.id));
        judged.retain(|fixture| !offered.release.is_some_and(|release| fixture.releases.contains(release)));
    }
    Ok(passed)
}

/// Reports nothing.
struct Silent;

impl Reporter for Silent {
    fn event(&mut self, _: Event<'_>) -> io::Result<()> {
        Ok(())
    }
}

/// A program that lists everything once and then does nothing.
struct Idler;

/// The collections that it lists.
const COLLECTIONS: [&str; 3] = ["/api/v1/nodes", "/api/v1/pods", "/apis/policy/v1/poddisruptionbudgets"];

impl TaskController for Idler {
    fn name(&self) -> String {
        "idle".to_owned()
    }

    fn controllers(&self) -> BTreeSet<Controller> {
        Controller::ALL.into()
    }

    fn start(&self, launch: &Launch<'_>) -> Result<RunningTask, SubjectError> {
        let factory = ClientFactory::new(launch.access, launch.clock)?;
        let client = factory.client("idle/1 shared-informers");
        Ok(RunningTask::spawn(factory, async move {
            for path in COLLECTIONS {
                if let Ok(request) = http::Request::get(path).body(Vec::new()) {
                    // What it would do with the answer is nothing.
                    let _ = client.request_text(request).await;
                }
            }
            std::future::pending::<Result<(), Infallible>>().await
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_reads_as_it_was_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join(FILE);
        let ids: BTreeSet<String> = ["ttl/b[up-100]", "podgc/a"].map(str::to_owned).into();
        std::fs::write(&file, text(&ids)).expect("a writable folder");
        assert_eq!(load(&file).expect("a good file"), ids);
        std::fs::write(&file, "pased: []\n").expect("a writable folder");
        assert!(load(&file).expect_err("a bad file").to_string().contains("did you mean `passed`?"));
    }
}
