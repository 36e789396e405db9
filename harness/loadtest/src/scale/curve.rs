//! The cost of a budget's sync in namespaces of several sizes; it is constant if a sync only reads the budget's own
//! pods.
//!
//! All pods are in one namespace, and every budget has the same number of them. Budgets are changed in turn between two
//! spellings of the same limit: a new generation, one sync, one status, no other event.

use std::path::Path;
use std::time::Duration;

use super::error::ScaleError;
use super::options::ScaleOptions;
use super::progress::ProgressSink;
use super::report::CurvePoint;
use super::run::{BUDGET, LOOK, ScaleBench};
use super::subject::{MeasuredCommand, RunningSubject};
use crate::bench::bodies::{self, LoadSpec};
use crate::bench::load::number_member;

/// Numbers of pods in the namespace.
const SIZES: [usize; 3] = [1_000, 10_000, 50_000];
/// Pods per budget.
const OWN: usize = 50;
/// Pods per node.
const PODS_OF_NODE: usize = 30;
/// Number of budgets that are changed, in turn.
const BUDGETS: usize = 20;
/// Number of changes of each.
const ROUNDS: usize = 50;
/// The same limit for [`OWN`] pods, as a number and as a percentage.
const LIMITS: [&str; 2] = [r#"{"spec":{"maxUnavailable":5}}"#, r#"{"spec":{"maxUnavailable":"10%"}}"#];

/// Measures `command` on a fresh cluster for each size; also returns the cluster's name and version.
pub(super) async fn measure(
    options: &ScaleOptions,
    command: &MeasuredCommand,
    folder: &Path,
    say: ProgressSink<'_>,
) -> Result<(Vec<CurvePoint>, (String, String)), ScaleError> {
    let mut points = Vec::new();
    let mut place = (String::new(), String::new());
    for pods in SIZES {
        let world = LoadSpec {
            nodes: pods / PODS_OF_NODE,
            apps: pods / OWN,
            pods,
            namespaces: 1,
            budget: BUDGET,
            annotated: false,
        };
        let folder = folder.join(format!("curve-{pods}"));
        let mut bench = ScaleBench::start(options, world, &folder, say).await?;
        place = bench.place();
        let point = point(&mut bench, command).await;
        points.push(bench.end(point).await?);
    }
    Ok((points, place))
}

async fn point(bench: &mut ScaleBench<'_>, command: &MeasuredCommand) -> Result<CurvePoint, ScaleError> {
    let pods = bench.model.world.pods;
    let first = bench.first(command).await?;
    if let Some(left) = first.left {
        return Err(ScaleError::Environment(format!("{pods} pods in one namespace: {left}")));
    }
    bench.say(format!("{pods} pods in one namespace: {} syncs", BUDGETS * ROUNDS));
    let processor = |bench: &ScaleBench<'_>| bench.live.as_ref().and_then(RunningSubject::usage).map(|usage| usage.cpu);
    let before = processor(bench).unwrap_or_default();
    let mut connection = bench.endpoint.connect().await?;
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        for app in 0..BUDGETS {
            let namespace = bench.model.world.namespace(app);
            let path = format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/{}", bodies::app(app));
            let begin = bench.clock.elapsed();
            let changed = connection.exchange("PATCH", &path, &[LIMITS[round % 2].as_bytes()], 200).await?;
            let generation = number_member(changed, "generation")
                .ok_or_else(|| crate::bench::BenchError::Reply(format!("no generation after PATCH {path}")))?;
            bench.follower.state().expect_generation(app, generation);
            if let Some(left) = bench.until("curve", |left| left.budgets == 0).await? {
                return Err(ScaleError::Environment(format!("{pods} pods in one namespace, {path}: {left}")));
            }
            let end = bench.follower.state().right_since(app).unwrap_or_default();
            times.push(end.saturating_sub(begin));
        }
    }
    // CPU time is counted in ticks; wait for the cleanup work that belongs to the measurement.
    bench.clock.sleep(LOOK).await;
    let spent = processor(bench).unwrap_or_default().saturating_sub(before);
    times.sort_unstable();
    let middle = times.get(times.len() / 2).copied().unwrap_or_default();
    let syncs = times.len();
    let each = |time: Duration| time.as_secs_f64() / syncs.max(1) as f64;
    Ok(CurvePoint { pods, pods_of_budget: OWN, syncs, cpu_seconds: each(spent), seconds: middle.as_secs_f64() })
}
