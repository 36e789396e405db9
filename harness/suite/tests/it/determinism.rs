//! Runs a sample of the suite twice with different numbers of jobs; the bytes must be the same. `just repeat` runs all
//! of it.

use plumbline::fixture::Fixture;
use plumbline_suite::runner::suite::{self, RunOptions, TestBed};

use crate::support::all_fixtures;

/// One fixture in this many is in the sample.
const EVERY: usize = 20;

/// Runs `fixtures` and returns for each its id, its transcript as text, and the record itself with UIDs, versions and
/// bodies.
fn run(fixtures: &[Fixture], jobs: usize) -> Vec<(String, String, String)> {
    let test_bed = TestBed::embedded();
    let mut results = vec![None; fixtures.len()];
    suite::run_all(fixtures, &test_bed, RunOptions { jobs, ..RunOptions::one_by_one() }, |index, judged| {
        let record: Vec<String> = judged.entries.iter().map(|entry| format!("{entry:?}\n")).collect();
        results[index] = Some((judged.report.id, judged.transcript, record.concat()));
        true
    });
    results.into_iter().flatten().collect()
}

#[test]
fn transcripts_do_not_depend_on_the_run_or_on_the_number_of_jobs() {
    let fixtures: Vec<_> = all_fixtures().iter().step_by(EVERY).cloned().collect();
    // The two runs differ in which fixtures run at the same time. `just repeat` compares whole runs with 1 to 8 jobs.
    let first = run(&fixtures, 2);
    assert_eq!(first.len(), fixtures.len());
    let jobs = 5;
    for (one, other) in first.iter().zip(run(&fixtures, jobs)) {
        similar_asserts(&one.1, &other.1, &one.0, jobs);
        similar_asserts(&one.2, &other.2, &one.0, jobs);
    }
}

/// Shows the first lines that differ instead of megabytes.
fn similar_asserts(one: &str, other: &str, id: &str, jobs: usize) {
    if one == other {
        return;
    }
    let differing = one.lines().zip(other.lines()).find(|(one, other)| one != other);
    panic!("{id}: with {jobs} jobs another transcript ({} and {} bytes): {differing:#?}", one.len(), other.len());
}
