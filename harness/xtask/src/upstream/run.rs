//! A run: the selected specs against each server.

use std::path::Path;

use futures::StreamExt as _;
use plumbline_suite::process::{signals, tempdir};

use super::cluster::ServedCluster;
use super::error::UpstreamError;
use super::options::RunOptions;
use super::program::{E2eProgram, SpecOutcome, SpecResult};
use super::report::{SpecComparison, UpstreamReport};
use super::selection::SelectedSpec;

/// Divides the number of parallel specs for those that run again.
const RETRY_SHARE: usize = 3;

/// Returns the version of the test program and the specs that would run.
///
/// # Errors
///
/// Returns an error if the program cannot be run or no spec is selected.
pub(crate) async fn list(options: &RunOptions) -> Result<(String, Vec<SelectedSpec>), UpstreamError> {
    let folder = tempdir::create().map_err(|error| UpstreamError::Process(error.to_string()))?;
    let program = E2eProgram::new(options, folder.path().to_owned());
    selected(options, &program).await
}

async fn selected(
    options: &RunOptions,
    program: &E2eProgram<'_>,
) -> Result<(String, Vec<SelectedSpec>), UpstreamError> {
    let version = program.version().await?;
    let specs = program.specs().await?;
    let all = specs.len();
    let selected = options.rules.select(specs, options.limit);
    if selected.is_empty() { Err(UpstreamError::Nothing(all)) } else { Ok((version, selected)) }
}

/// Runs the selected specs against `plumbline serve`, then against the real cluster if there is one. `progress` gets
/// lines for people.
///
/// # Errors
///
/// Returns an error if a program cannot be run, a server ends before the specs do, or a signal arrives.
pub(crate) async fn run(
    options: &RunOptions,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<UpstreamReport, UpstreamError> {
    tokio::select! {
        biased;
        signal = signals::signalled() => Err(UpstreamError::Interrupted(signal)),
        report = run_to_end(options, progress) => report,
    }
}

async fn run_to_end(options: &RunOptions, progress: &(dyn Fn(&str) + Sync)) -> Result<UpstreamReport, UpstreamError> {
    let temporary = tempdir::create().map_err(|error| UpstreamError::Process(error.to_string()))?;
    let logs = options.logs.clone().unwrap_or_else(|| temporary.path().join("logs"));
    std::fs::create_dir_all(&logs).map_err(UpstreamError::file(&logs))?;
    let program = E2eProgram::new(options, logs.clone());
    let (kubernetes, selected) = selected(options, &program).await?;
    progress(&format!("{} specs of e2e.test {kubernetes} against plumbline serve", selected.len()));
    let mut cluster = ServedCluster::start(options, temporary.path(), &logs).await?;
    let server = Target { name: "serve", kubeconfig: cluster.kubeconfig() };
    let ours = results(&program, server, &selected, options.jobs, progress).await?;
    cluster.check_alive()?;
    cluster.stop().await;
    let real = match &options.beside {
        None => None,
        Some(kubeconfig) => {
            progress(&format!("{} specs against the cluster of {}", selected.len(), kubeconfig.display()));
            let target = Target { name: "real", kubeconfig };
            Some(results(&program, target, &selected, options.jobs, progress).await?)
        }
    };
    let mut real = real.map(Vec::into_iter);
    let compared = selected.into_iter().zip(ours).map(|(selected, ours)| {
        let real = real.as_mut().and_then(Iterator::next);
        SpecComparison::new(selected.spec, ours, real, &options.known)
    });
    let compared: Vec<SpecComparison> = compared.collect();
    Ok(UpstreamReport::new(kubernetes, options, compared))
}

/// A server that specs run against.
#[derive(Clone, Copy)]
struct Target<'a> {
    name: &'static str,
    kubeconfig: &'a Path,
}

/// Runs the specs and returns their results in order. First the parallel ones, then those that must run alone, then
/// once more the ones that failed: on a busy machine limits of upstream's own expire.
async fn results(
    program: &E2eProgram<'_>,
    target: Target<'_>,
    selected: &[SelectedSpec],
    jobs: usize,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Vec<SpecResult>, UpstreamError> {
    let mut results: Vec<Option<SpecResult>> = selected.iter().map(|_| None).collect();
    let (alone, parallel): (Vec<usize>, Vec<usize>) =
        (0..selected.len()).partition(|&index| selected[index].spec.serial);
    let mut done = 0;
    for (numbers, jobs) in [(parallel, jobs), (alone, 1)] {
        let runs = numbers.into_iter().map(|index| async move {
            (index, program.run(target.name, target.kubeconfig, &selected[index], index).await)
        });
        let mut runs = futures::stream::iter(runs).buffer_unordered(jobs);
        while let Some((index, result)) = runs.next().await {
            let result = result?;
            done += 1;
            progress(&format!("{done}/{} {}: {result} {}", selected.len(), target.name, selected[index].spec.text));
            results[index] = Some(result);
        }
    }
    let failed = |index: &usize| results[*index].as_ref().is_some_and(|result| !result.outcome.is_good());
    let (alone, parallel): (Vec<usize>, Vec<usize>) =
        (0..selected.len()).filter(failed).partition(|&index| selected[index].spec.serial);
    for (numbers, jobs) in [(parallel, jobs.div_ceil(RETRY_SHARE)), (alone, 1)] {
        let runs = numbers.into_iter().map(|index| async move {
            (index, program.run(target.name, target.kubeconfig, &selected[index], index).await)
        });
        let mut runs = futures::stream::iter(runs).buffer_unordered(jobs);
        while let Some((index, second)) = runs.next().await {
            let second = second?;
            progress(&format!("again {}: {second} {}", target.name, selected[index].spec.text));
            let was = results[index].as_ref().map(|first| first.outcome);
            if second.outcome.is_good() || was == Some(SpecOutcome::TimedOut) {
                results[index] = Some(second);
            }
        }
    }
    Ok(results.into_iter().flatten().collect())
}
