//! Reports the run to a terminal: a progress bar, a line per suite, failures with expected and observed state, a
//! summary.

use std::fmt::Write as _;
use std::io::{self, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use similar::{ChangeTag, TextDiff};

use super::{Event, Failure, FixtureReport, Outcome, Reporter, RunReport, tally};
use crate::transcript::redact;

/// Number of failures reported in full; the others are listed by name.
const FULL_FAILURES: usize = 10;

/// Writes the report to `out` and the progress bar to standard error.
#[derive(Debug)]
pub struct Terminal<W> {
    out: W,
    colour: bool,
    bar: Option<ProgressBar>,
}

impl<W: Write> Terminal<W> {
    /// Creates a reporter. `colour`: use ANSI colours in `out`; `progress`: show a bar on standard error.
    pub fn new(out: W, colour: bool, progress: bool) -> Self {
        let bar = progress.then(|| ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10)));
        Self { out, colour, bar }
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn outcome(&self, outcome: Outcome, text: &str) -> String {
        let code = match outcome {
            Outcome::Pass => "32",
            Outcome::Fail => "1;31",
            _ => "33",
        };
        self.paint(code, text)
    }

    fn suites(&mut self, report: &RunReport) -> io::Result<()> {
        for (name, fixtures) in report.suites() {
            let failed = fixtures.iter().any(|fixture| fixture.has_failed());
            let mark = if failed { Outcome::Fail } else { Outcome::Pass };
            let sign = self.outcome(mark, if failed { "✗" } else { "✓" });
            let line = format!("{sign} {name:<16} {:<40} {}", tally(fixtures.iter().copied()), time_of(fixtures));
            writeln!(self.out, "{}", line.trim_end())?;
        }
        Ok(())
    }

    fn failures(&mut self, report: &RunReport) -> io::Result<()> {
        let failed: Vec<_> = report.fixtures.iter().filter(|fixture| fixture.outcome == Outcome::Fail).collect();
        for (index, fixture) in failed.iter().enumerate() {
            let line = fixture.failures.first().map_or(0, |failure| failure.line);
            let place = if line == 0 { fixture.file.clone() } else { format!("{}:{line}", fixture.file) };
            let word = if fixture.has_failed() { "FAIL" } else { "FAIL (provisional, does not count)" };
            let word = self.outcome(Outcome::Fail, word);
            writeln!(self.out, "\n{word} {}  ({place})", fixture.id)?;
            if index < FULL_FAILURES {
                self.failure(fixture)?;
            }
        }
        if failed.len() > FULL_FAILURES {
            writeln!(self.out, "\n(details of the first {FULL_FAILURES} of {} failures)", failed.len())?;
        }
        Ok(())
    }

    fn failure(&mut self, fixture: &FixtureReport) -> io::Result<()> {
        writeln!(self.out, "  promise: {} [{}]", fixture.promise, fixture.rules.join(" "))?;
        for failure in &fixture.failures {
            let at = failure.at_millis.map(|millis| format!(" at {}", moment(millis))).unwrap_or_default();
            let line = if failure.line == 0 { String::new() } else { format!(" (line {})", failure.line) };
            writeln!(self.out, "  ✗ {}{at}{line}", failure.message.replace('\n', "\n    "))?;
            let diff = self.diff(failure);
            write!(self.out, "{diff}")?;
            if !failure.excerpt.is_empty() {
                writeln!(self.out, "    transcript:")?;
                for line in failure.excerpt.lines() {
                    writeln!(self.out, "      {line}")?;
                }
            }
        }
        for line in fixture.log.iter().take(10) {
            writeln!(self.out, "  log: {line}")?;
        }
        let explain = self.paint("2", &format!("plumbline explain '{}'", fixture.id));
        writeln!(self.out, "  more: {explain}")
    }

    /// Formats expected and observed state: on one line each if short, otherwise as a line diff.
    fn diff(&self, failure: &Failure) -> String {
        let mut out = String::new();
        let (expected, observed) = (&failure.expected, &failure.observed);
        if !expected.contains('\n') && !observed.contains('\n') {
            for (label, text) in [("expected", expected), ("observed", observed)] {
                if !text.is_empty() {
                    let _ = writeln!(out, "    {label}: {text}");
                }
            }
            return out;
        }
        let _ = writeln!(out, "    {} {}", self.paint("31", "-expected"), self.paint("32", "+observed"));
        for change in TextDiff::from_lines(expected, observed).iter_all_changes() {
            let text = change.value().trim_end_matches('\n');
            let line = match change.tag() {
                ChangeTag::Delete => self.paint("31", &format!("-{text}")),
                ChangeTag::Insert => self.paint("32", &format!("+{text}")),
                ChangeTag::Equal => format!(" {text}"),
            };
            let _ = writeln!(out, "    {line}");
        }
        out
    }

    fn skipped(&mut self, report: &RunReport) -> io::Result<()> {
        let mut reasons: std::collections::BTreeMap<(&str, &str), usize> = std::collections::BTreeMap::new();
        for fixture in report.fixtures.iter().filter(|fixture| !fixture.reason.is_empty()) {
            *reasons.entry((fixture.outcome.participle(), &fixture.reason)).or_default() += 1;
        }
        if !reasons.is_empty() {
            writeln!(self.out)?;
        }
        for ((word, reason), count) in reasons {
            writeln!(self.out, "{count} {word}: {reason}")?;
        }
        Ok(())
    }

    fn summary(&mut self, report: &RunReport) -> io::Result<()> {
        let verdict = if report.has_failed() { Outcome::Fail } else { Outcome::Pass };
        let tally = self.outcome(verdict, &tally(&report.fixtures));
        writeln!(
            self.out,
            "\n{tally} of {} · {} in {:.2} s (median {:.1} ms per fixture)",
            report.fixtures.len(),
            time_of(&report.fixtures),
            report.wall_millis as f64 / 1000.0,
            report.median_wall_micros() as f64 / 1000.0,
        )
    }
}

impl<W: Write> Reporter for Terminal<W> {
    fn event(&mut self, event: Event<'_>) -> io::Result<()> {
        match event {
            Event::Started { fixtures, suites, jobs } => {
                if let Some(bar) = &self.bar {
                    bar.set_length(fixtures as u64);
                    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}");
                    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
                }
                let many = |count, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
                let parts = [many(fixtures, "fixture"), many(suites, "suite"), many(jobs, "job")];
                writeln!(self.out, "{}\n", parts.join(", "))
            }
            Event::Finished(judged) => {
                if let Some(bar) = &self.bar {
                    bar.set_message(judged.report.id.clone());
                    bar.inc(1);
                }
                Ok(())
            }
            Event::Ended(report) => {
                if let Some(bar) = self.bar.take() {
                    bar.finish_and_clear();
                }
                self.suites(report)?;
                self.failures(report)?;
                self.skipped(report)?;
                self.summary(report)?;
                self.out.flush()
            }
        }
    }
}

fn moment(millis: u64) -> String {
    redact::at(std::time::Duration::from_millis(millis))
}

/// Formats the total time of the fixtures, virtual or real; empty if none has run.
fn time_of<'a>(fixtures: impl IntoIterator<Item = &'a FixtureReport>) -> String {
    let sum =
        |(millis, micros), fixture: &FixtureReport| (millis + fixture.virtual_millis, micros + fixture.wall_micros);
    match fixtures.into_iter().fold((0, 0), sum) {
        (0, 0) => String::new(),
        (0, micros) => format!("{} on the wall clock", hours(micros / 1000)),
        (millis, _) => format!("{} of virtual time", hours(millis)),
    }
}

/// Formats a duration: `14.2 h`, `12 min`, `40 s`.
fn hours(millis: u64) -> String {
    let seconds = millis / 1000;
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{:.1} h", seconds as f64 / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::canned;
    use super::*;
    use crate::report::JudgedRun;

    #[test]
    fn time_is_said_to_be_virtual_only_where_it_is() {
        let fixture = |virtual_millis, wall_micros| {
            let one = canned().fixtures.remove(0);
            FixtureReport { virtual_millis, wall_micros, ..one }
        };
        let told = |fixtures: &[FixtureReport]| time_of(fixtures);
        assert_eq!(told(&[fixture(60_000, 900), fixture(60_000, 900)]), "2 min of virtual time");
        assert_eq!(told(&[fixture(0, 60_000_000), fixture(0, 61_000_000)]), "2 min on the wall clock");
        assert_eq!(told(&[fixture(0, 0)]), "", "skipped");
    }

    #[test]
    fn report_of_a_canned_run() {
        let report = canned();
        let mut out = Vec::new();
        let mut terminal = Terminal::new(&mut out, false, false);
        terminal.event(Event::Started { fixtures: 3, suites: 2, jobs: 2 }).expect("memory can be written");
        for fixture in &report.fixtures {
            let (report, transcript) = (fixture.clone(), fixture.transcript.clone());
            let judged = JudgedRun {
                report,
                transcript,
                entries: Vec::new(),
                start: jiff::Timestamp::default(),
                leeway: std::time::Duration::ZERO,
                objects: Vec::new(),
            };
            terminal.event(Event::Finished(&judged)).expect("memory can be written");
        }
        terminal.event(Event::Ended(&report)).expect("memory can be written");
        insta::assert_snapshot!(String::from_utf8(out).expect("UTF-8"), @r"
        3 fixtures, 2 suites, 2 jobs

        ✗ podgc            1 failed                                 2 min of virtual time
        ✓ ttl              1 passed, 1 skipped                      2 min of virtual time

        FAIL podgc/orphaned  (fixtures/podgc/orphaned.yaml:12)
          promise: A pod of a missing node is deleted after 40 s. [BR-24-03]
          ✗ pods/a must exist until t=+59s at t=+40s (line 12)
            -expected +observed
            -phase: Running
            +phase: Failed
             ready: true
            transcript:
              t=+40s    podgc          DELETE pods/a 200
          log: WARN it was me
          more: plumbline explain 'podgc/orphaned'

        1 skipped: needs faults

        1 passed, 1 failed, 1 skipped of 3 · 4 min of virtual time in 1.23 s (median 1.5 ms per fixture)
        ");
    }
}
