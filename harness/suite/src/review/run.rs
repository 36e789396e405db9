//! Runs all fixtures of a repository with our own controllers, and compares their transcripts with the snapshots.

use std::path::Path;

use plumbline::fixture::{Level, Problems, parse};

use super::SnapshotChange;
use super::history::seen;
use crate::cluster::{EmbeddedCluster, Role, RoleError};
use crate::report::{JudgedRun, Outcome};
use crate::runner::suite::{self, RunOptions, TestBed};
use crate::snapshot;

/// The role of our own controllers.
const ROLE: &str = "controllers/deploy/rbac.yaml";

/// The differences and failures that a run saw.
#[derive(Debug, Default)]
pub struct SeenRun {
    /// The transcripts that differ from their snapshots.
    pub changes: Vec<SnapshotChange>,
    /// A line for each fixture that fails its expectations.
    pub failures: Vec<String>,
}

/// Reasons why nothing can be run.
#[derive(Debug, thiserror::Error)]
pub enum SeenRunError {
    /// The fixtures are invalid.
    #[error("{0}")]
    Fixtures(Problems),
    /// The role cannot be used.
    #[error(transparent)]
    Role(#[from] RoleError),
}

/// Runs all fixtures of the repository at `folder`, in virtual time.
///
/// # Errors
///
/// Returns an error if the fixtures or the role of our controllers are not usable.
pub fn run(folder: &Path) -> Result<SeenRun, SeenRunError> {
    let fixtures = parse::load(&folder.join("fixtures")).map_err(SeenRunError::Fixtures)?;
    let role = folder.join(ROLE);
    let role = if role.is_file() { Some(Role::read(&role)?) } else { None };
    let mut out = SeenRun::default();
    for group in snapshot::groups(fixtures) {
        let Some(kubernetes) = EmbeddedCluster::release_for(&group.fixtures) else { continue };
        // The objects of the role would change what fixtures of the API server alone show.
        let is_server_alone = group.fixtures.iter().all(|fixture| fixture.controllers.is_empty());
        let role = role.clone().filter(|_| !is_server_alone);
        let cluster = std::sync::Arc::new(EmbeddedCluster { role, kubernetes });
        let bed = TestBed { cluster, ..TestBed::embedded() };
        let mut judged: Vec<Option<JudgedRun>> = vec![None; group.fixtures.len()];
        suite::run_all(&group.fixtures, &bed, RunOptions::one_by_one(), |index, result| {
            judged[index] = Some(result);
            true
        });
        let judged: Vec<JudgedRun> = judged.into_iter().flatten().collect();
        for (fixture, run) in group.fixtures.iter().zip(&judged) {
            if run.report.outcome == Outcome::Fail && fixture.level != Level::Provisional {
                let first = run.report.failures.first().map(ToString::to_string).unwrap_or_default();
                out.failures.push(format!("{}: {}", fixture.id, first.replace('\n', "; ")));
            }
        }
        let accepted = snapshot::file(&folder.join("snapshots"), &group.stem);
        out.changes.extend(seen(folder, &accepted, Some(group.text(&judged))));
    }
    Ok(out)
}
