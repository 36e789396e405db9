//! The result of a run: a table by suite, and each difference.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use super::options::RunOptions;
use super::program::{SpecOutcome, SpecResult};
use super::selection::Difference;
use super::spec::Spec;

/// Longest message of a failure in the human report, in characters.
const MESSAGE_MAX: usize = 300;

/// A spec with its results.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SpecComparison {
    /// The spec.
    #[serde(flatten)]
    pub(crate) spec: Spec,
    /// The result against `plumbline serve`.
    pub(crate) ours: SpecResult,
    /// The result against the real cluster, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) real: Option<SpecResult>,
    /// The comparison.
    pub(crate) verdict: Verdict,
    /// The reason of a known difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}

/// The comparison of two results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Verdict {
    /// Both passed, or both skipped themselves; without a real cluster: ours did.
    Same,
    /// It passed on the real cluster, or there is none, and not here.
    New,
    /// The same, and the difference is known.
    Known,
    /// It failed on both: it says nothing about the server.
    FailsOnBoth,
    /// It passed here, and not on the real cluster.
    OnlyHere,
}

impl SpecComparison {
    /// Compares the results of a spec.
    pub(super) fn new(spec: Spec, ours: SpecResult, real: Option<SpecResult>, known: &[Difference]) -> Self {
        let reason = known.iter().find(|known| known.covers(&spec)).map(|known| known.reason.clone());
        let verdict = match &real {
            // A spec that passes on the real cluster must not skip itself here.
            Some(real) if real.outcome == ours.outcome && ours.outcome.is_good() => Verdict::Same,
            Some(_) if ours.outcome == SpecOutcome::Passed => Verdict::OnlyHere,
            Some(real) if !real.outcome.is_good() => Verdict::FailsOnBoth,
            None if ours.outcome.is_good() => Verdict::Same,
            _ if reason.is_some() => Verdict::Known,
            _ => Verdict::New,
        };
        let reason = reason.filter(|_| verdict == Verdict::Known);
        Self { spec, ours, real, verdict, reason }
    }
}

/// Counts of one suite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SuiteCounts {
    /// Specs that ran.
    pub(crate) specs: usize,
    /// Passed on the real cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) real: Option<usize>,
    /// Passed on `plumbline serve`.
    pub(crate) ours: usize,
    /// Passed on `plumbline serve`, of those that pass on the real cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) both: Option<usize>,
}

impl SuiteCounts {
    fn add(&mut self, comparison: &SpecComparison) {
        let passed = |result: &SpecResult| usize::from(result.outcome == SpecOutcome::Passed);
        let ours = passed(&comparison.ours);
        self.specs += 1;
        self.ours += ours;
        if let Some(real) = &comparison.real {
            *self.real.get_or_insert(0) += passed(real);
            *self.both.get_or_insert(0) += ours * passed(real);
        }
    }
}

/// The result of a run.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UpstreamReport {
    /// Version of the test program.
    pub(crate) kubernetes: String,
    /// Flags of `plumbline serve`.
    pub(crate) serve: Vec<String>,
    /// The controllers beside it.
    pub(crate) controllers: &'static str,
    /// Counts by suite: all specs.
    pub(crate) suites: BTreeMap<String, SuiteCounts>,
    /// Counts by suite: the specs for conformance.
    pub(crate) conformance: BTreeMap<String, SuiteCounts>,
    /// All specs.
    pub(crate) specs: Vec<SpecComparison>,
    /// Known differences that did not occur although their specs ran.
    pub(crate) unused: Vec<String>,
}

impl UpstreamReport {
    pub(super) fn new(kubernetes: String, options: &RunOptions, specs: Vec<SpecComparison>) -> Self {
        let mut suites: BTreeMap<String, SuiteCounts> = BTreeMap::new();
        let mut conformance: BTreeMap<String, SuiteCounts> = BTreeMap::new();
        for spec in &specs {
            suites.entry(spec.spec.suite.clone()).or_default().add(spec);
            if spec.spec.conformance {
                conformance.entry(spec.spec.suite.clone()).or_default().add(spec);
            }
        }
        let is_unused = |known: &&Difference| {
            let mut ran = specs.iter().filter(|spec| known.covers(&spec.spec)).peekable();
            ran.peek().is_some() && ran.all(|spec| spec.verdict == Verdict::Same)
        };
        let unused = options.known.iter().filter(is_unused).map(|known| known.specs().to_owned()).collect();
        let controllers = if options.controller_manager.is_some() { "kube-controller-manager" } else { "plumbline" };
        Self { kubernetes, serve: options.serve.clone(), controllers, suites, conformance, specs, unused }
    }

    /// Returns true if there is a difference that is not known.
    #[must_use]
    pub(crate) fn has_new_differences(&self) -> bool {
        self.with(Verdict::New).next().is_some()
    }

    fn with(&self, verdict: Verdict) -> impl Iterator<Item = &SpecComparison> {
        self.specs.iter().filter(move |spec| spec.verdict == verdict)
    }

    /// Writes the table and the differences for people.
    ///
    /// # Errors
    ///
    /// Returns the error of `out`.
    pub(crate) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let serve = self.serve.join(" ");
        writeln!(
            out,
            "e2e.test {} against plumbline serve {serve}, controllers: {}",
            self.kubernetes, self.controllers
        )?;
        writeln!(out)?;
        self.write_table(out)?;
        for (verdict, title) in [
            (Verdict::New, "new differences"),
            (Verdict::Known, "known differences"),
            (Verdict::OnlyHere, "pass on plumbline serve alone"),
            (Verdict::FailsOnBoth, "fail on both"),
        ] {
            let specs: Vec<&SpecComparison> = self.with(verdict).collect();
            if !specs.is_empty() {
                writeln!(out, "\n{title}: {}", specs.len())?;
            }
            specs.into_iter().try_for_each(|spec| write_difference(out, spec))?;
        }
        if !self.unused.is_empty() {
            writeln!(out, "\nknown differences that did not occur; remove them from differences.yaml:")?;
            self.unused.iter().try_for_each(|specs| writeln!(out, "  {specs}"))?;
        }
        Ok(())
    }

    fn write_table(&self, out: &mut impl Write) -> io::Result<()> {
        let is_compared = self.specs.iter().any(|spec| spec.real.is_some());
        let total = |counts: &BTreeMap<String, SuiteCounts>| {
            counts.values().fold(SuiteCounts::default(), |sum, one| SuiteCounts {
                specs: sum.specs + one.specs,
                real: one.real.map(|real| real + sum.real.unwrap_or(0)).or(sum.real),
                ours: sum.ours + one.ours,
                both: one.both.map(|both| both + sum.both.unwrap_or(0)).or(sum.both),
            })
        };
        let names = ["all specs", "of these [Conformance]"];
        let totals = [total(&self.suites), total(&self.conformance)];
        let rows =
            self.suites.iter().map(|(name, counts)| (name.as_str(), *counts)).chain(names.into_iter().zip(totals));
        let heads = if is_compared { &["specs", "real", "ours", "both"][..] } else { &["specs", "passed"] };
        write!(out, "{:<24}", "suite")?;
        heads.iter().try_for_each(|head| write!(out, "{head:>8}"))?;
        writeln!(out)?;
        for (name, counts) in rows {
            write!(out, "{name:<24}{:>8}", counts.specs)?;
            if is_compared {
                write!(out, "{:>8}", counts.real.unwrap_or(0))?;
            }
            write!(out, "{:>8}", counts.ours)?;
            if is_compared {
                write!(out, "{:>8}", counts.both.unwrap_or(0))?;
            }
            writeln!(out)?;
        }
        Ok(())
    }
}

fn write_difference(out: &mut impl Write, spec: &SpecComparison) -> io::Result<()> {
    writeln!(out, "  {}", spec.spec.text)?;
    if let Some(reason) = &spec.reason {
        writeln!(out, "    reason: {reason}")?;
    }
    let results = [("here", Some(&spec.ours)), ("real", spec.real.as_ref())];
    for (name, result) in results.into_iter().filter_map(|(name, result)| Some((name, result?))) {
        let message = result.message.split_whitespace().collect::<Vec<_>>().join(" ");
        let message: String = message.chars().take(MESSAGE_MAX).collect();
        writeln!(out, "    {name}: {}", [result.to_string(), message, result.place.clone()].join(" ").trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use SpecOutcome::{Failed, Passed, Skipped};

    fn result(outcome: SpecOutcome) -> SpecResult {
        SpecResult { outcome, message: String::new(), place: String::new(), seconds: 1.0 }
    }

    fn compared(ours: SpecOutcome, real: Option<SpecOutcome>) -> SpecComparison {
        let spec = Spec { text: "a".to_owned(), suite: "apps".to_owned(), conformance: true, serial: false };
        SpecComparison::new(spec, result(ours), real.map(result), &[])
    }

    #[rstest]
    #[case(Passed, None, Verdict::Same)]
    #[case(Failed, None, Verdict::New)]
    #[case(Passed, Some(Passed), Verdict::Same)]
    #[case(Failed, Some(Passed), Verdict::New)]
    #[case(Skipped, Some(Passed), Verdict::New)]
    #[case(Skipped, Some(Skipped), Verdict::Same)]
    #[case(Failed, Some(Failed), Verdict::FailsOnBoth)]
    #[case(Passed, Some(Failed), Verdict::OnlyHere)]
    #[case(Passed, Some(Skipped), Verdict::OnlyHere)]
    #[case(Failed, Some(Skipped), Verdict::New)]
    fn results_are_compared(#[case] ours: SpecOutcome, #[case] real: Option<SpecOutcome>, #[case] expected: Verdict) {
        assert_eq!(compared(ours, real).verdict, expected);
    }

    #[test]
    fn suites_are_counted() {
        let mut counts = SuiteCounts::default();
        for spec in [compared(Passed, Some(Passed)), compared(Failed, Some(Passed)), compared(Passed, Some(Failed))] {
            counts.add(&spec);
        }
        assert_eq!(counts, SuiteCounts { specs: 3, real: Some(2), ours: 2, both: Some(1) });
    }
}
