//! Reports the run to a terminal: a progress bar, a line per suite, failures with expected and observed state, a
//! summary.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use plumbline::transcript::redact;
use similar::{ChangeTag, TextDiff};

use super::progress::ProgressLines;
use super::{Event, Failure, FixtureReport, Outcome, Reporter, RunReport, explain_command, tally};
use crate::cluster::remote::is_real;
use crate::load::MachineLoad;

/// Number of causes whose first failure is reported in full; the others are listed by name.
const FULL_FAILURES: usize = 10;

/// Number of rules of a failed fixture that are shown; `explain` shows all.
const RULES: usize = 3;

/// The word for failures of level `provisional`.
const PROVISIONAL: &str = "FAIL (provisional, does not count)";

/// Writes the report to `out` and the progress bar to standard error.
#[derive(Debug)]
pub struct Terminal<W> {
    out: W,
    colour: bool,
    bar: Option<ProgressBar>,
    /// Progress where there is no terminal.
    lines: ProgressLines,
    explain_flags: String,
    page: Option<String>,
    /// Number of failures so far.
    failed: usize,
}

impl<W: Write> Terminal<W> {
    /// Creates a reporter. `colour`: use ANSI colours in `out`; `progress`: show a bar on standard error.
    pub fn new(out: W, colour: bool, progress: bool) -> Self {
        let bar = progress.then(|| ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10)));
        let lines = ProgressLines::default();
        Self { out, colour, bar, lines, explain_flags: String::new(), page: None, failed: 0 }
    }

    /// Adds flags to the suggested `plumbline explain`, so that it runs the same subject on the same fixtures.
    #[must_use]
    pub fn with_explain_flags(mut self, flags: &str) -> Self {
        flags.clone_into(&mut self.explain_flags);
        self
    }

    /// Adds the HTML report that is written as well, so that each failure names its anchor there.
    #[must_use]
    pub fn with_page(mut self, page: Option<&Path>) -> Self {
        self.page = page.map(|page| page.display().to_string());
        self
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
            let (outcome, sign) = mark(&fixtures);
            let sign = self.outcome(outcome, sign);
            let line = format!("{sign} {name:<16} {:<40} {}", tally(fixtures.iter().copied()), time_of(fixtures));
            writeln!(self.out, "{}", line.trim_end())?;
        }
        Ok(())
    }

    fn failures(&mut self, report: &RunReport) -> io::Result<()> {
        let groups = report.failures_by_cause();
        for (index, group) in groups.iter().enumerate() {
            let Some((first, others)) = group.fixtures.split_first() else { continue };
            if let Some(cause) = group.cause {
                let title = self.paint("1", &cause.title());
                writeln!(self.out, "\n{title}")?;
            }
            let word = self.outcome(Outcome::Fail, if first.has_failed() { "FAIL" } else { PROVISIONAL });
            writeln!(self.out, "\n{word} {}  ({})", first.id, first.place())?;
            if index < FULL_FAILURES {
                self.failure(first)?;
            }
            if !others.is_empty() {
                writeln!(self.out, "  the same in:")?;
            }
            for fixture in others {
                let word = if fixture.has_failed() { "FAIL" } else { PROVISIONAL };
                writeln!(self.out, "    {word} {}  ({})", fixture.id, fixture.place())?;
                if let Some(page) = &self.page {
                    writeln!(self.out, "      {page}#{}", fixture.anchor())?;
                }
            }
        }
        if groups.len() > FULL_FAILURES {
            writeln!(self.out, "\n(details of the first {FULL_FAILURES} of {} causes)", groups.len())?;
        }
        Ok(())
    }

    /// Shows the transcripts of fixtures that passed, if the report has them.
    fn passes(&mut self, report: &RunReport) -> io::Result<()> {
        let has_transcript =
            |fixture: &&FixtureReport| fixture.outcome == Outcome::Pass && !fixture.transcript.is_empty();
        for fixture in report.fixtures.iter().filter(has_transcript) {
            let word = self.outcome(Outcome::Pass, "PASS");
            writeln!(self.out, "\n{word} {}  ({})", fixture.id, fixture.file)?;
            for line in fixture.transcript.lines() {
                writeln!(self.out, "  {line}")?;
            }
        }
        Ok(())
    }

    fn bystanders(&mut self, report: &RunReport) -> io::Result<()> {
        let writes = report.bystander_writes();
        if !writes.is_empty() {
            writeln!(self.out, "\nwrites of the subject's other clients, not judged:")?;
        }
        for write in writes {
            writeln!(self.out, "  {write}")?;
        }
        Ok(())
    }

    fn failure(&mut self, fixture: &FixtureReport) -> io::Result<()> {
        writeln!(self.out, "  promise: {}", fixture.promise)?;
        for line in fixture.rule_lines().iter().take(RULES) {
            writeln!(self.out, "  rule: {line}")?;
        }
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
        let explain = self.paint("2", &explain_command(&fixture.id, &self.explain_flags));
        writeln!(self.out, "  more: {explain}")?;
        self.page.as_ref().map_or(Ok(()), |page| writeln!(self.out, "  page: {page}#{}", fixture.anchor()))
    }

    /// Formats expected and observed state: on one line each if short, otherwise as a line diff.
    fn diff(&self, failure: &Failure) -> String {
        let mut out = String::new();
        let expected = &failure.expected;
        let observed = &failure.observed;
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
        let reasons = report.reasons();
        if !reasons.is_empty() {
            writeln!(self.out)?;
        }
        for reason in reasons {
            writeln!(self.out, "{reason}")?;
        }
        Ok(())
    }

    fn inconclusive(&mut self, report: &RunReport) -> io::Result<()> {
        let fixtures = report.fixtures.iter().filter(|fixture| fixture.outcome == Outcome::Inconclusive);
        for (index, fixture) in fixtures.enumerate() {
            let word = self.outcome(Outcome::Inconclusive, "INCONCLUSIVE");
            let gap = if index == 0 { "\n" } else { "" };
            writeln!(self.out, "{gap}{word} {}: {}", fixture.id, fixture.reason)?;
        }
        Ok(())
    }

    fn summary(&mut self, report: &RunReport) -> io::Result<()> {
        let verdict = match (report.has_failed(), report.is_inconclusive()) {
            (true, _) => Outcome::Fail,
            (false, true) => Outcome::Inconclusive,
            (false, false) => Outcome::Pass,
        };
        let tally = self.outcome(verdict, &tally(&report.fixtures));
        let simulated = Some(time_of(&report.fixtures)).filter(|time| !time.is_empty());
        let times: Vec<String> = simulated.into_iter().chain(report.real_time()).collect();
        let times = if times.is_empty() { String::new() } else { format!(" · {}", times.join(" in ")) };
        writeln!(self.out, "\n{tally} of {}{times}", report.fixtures.len())?;
        if let Some(seed) = report.seed {
            let drawn = if is_real(&report.cluster) { "names and uids" } else { "names, uids, decoys and start times" };
            writeln!(self.out, "{drawn} were drawn: --seed {seed} draws the same")?;
        }
        report.load.as_ref().map_or(Ok(()), |load| writeln!(self.out, "{}", machine(load)))
    }
}

impl<W: Write> Reporter for Terminal<W> {
    fn event(&mut self, event: Event<'_>) -> io::Result<()> {
        match event {
            Event::Started { fixtures, suites, jobs } => {
                let many = |count, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
                let parts = [many(fixtures, "fixture"), many(suites, "suite"), many(jobs, "job")];
                writeln!(self.out, "{}\n", parts.join(", "))?;
                self.out.flush()?;
                // The bar is drawn from here on, below what was written.
                if let Some(bar) = &self.bar {
                    let style = ProgressStyle::with_template("{bar:30} {pos}/{len}, {eta} left {wide_msg}");
                    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
                    bar.set_length(fixtures as u64);
                }
                self.lines.begin(fixtures);
                Ok(())
            }
            Event::Finished(judged) => {
                self.failed += usize::from(judged.report.has_failed());
                if let Some(bar) = &self.bar {
                    let failed = if self.failed > 0 { format!("{} failed · ", self.failed) } else { String::new() };
                    bar.set_message(format!("{failed}{}", judged.report.id));
                    bar.inc(1);
                } else if let Some(line) = self.lines.next(self.failed) {
                    writeln!(io::stderr(), "plumbline: {line}")?;
                }
                Ok(())
            }
            Event::Ended(report) => {
                if let Some(bar) = self.bar.take() {
                    bar.finish_and_clear();
                }
                self.suites(report)?;
                self.passes(report)?;
                self.failures(report)?;
                self.inconclusive(report)?;
                self.skipped(report)?;
                self.bystanders(report)?;
                self.summary(report)?;
                self.out.flush()
            }
        }
    }
}

/// Returns the outcome of a suite and its sign. A suite in which nothing was shown has no tick.
fn mark(fixtures: &[&FixtureReport]) -> (Outcome, &'static str) {
    let has = |outcome: Outcome| fixtures.iter().any(|fixture| fixture.outcome == outcome);
    if fixtures.iter().any(|fixture| fixture.has_failed()) {
        (Outcome::Fail, "✗")
    } else if has(Outcome::Inconclusive) {
        (Outcome::Inconclusive, "?")
    } else if fixtures.iter().any(|fixture| fixture.outcome.has_run()) {
        (Outcome::Pass, "✓")
    } else {
        (Outcome::Skip, "-")
    }
}

/// Describes the load of the machine.
fn machine(load: &MachineLoad) -> String {
    let average = load.load_average.map(|average| format!(", load average up to {average:.1}")).unwrap_or_default();
    let repeated = match load.repeated {
        0 => String::new(),
        count => format!(", {count} repeated alone"),
    };
    let seconds = |millis: u64| millis as f64 / 1000.0;
    format!(
        "{} jobs on {} cores{average}, timers up to {:.3} s late (95 %: {:.3} s){repeated}",
        load.jobs,
        load.cores,
        seconds(load.lateness.max_millis),
        seconds(load.lateness.p95_millis)
    )
}

pub(super) fn moment(millis: u64) -> String {
    redact::at(std::time::Duration::from_millis(millis))
}

/// Formats the total time of the fixtures, virtual or real; empty if none has run.
pub(crate) fn time_of<'a>(fixtures: impl IntoIterator<Item = &'a FixtureReport>) -> String {
    let sum =
        |(millis, micros), fixture: &FixtureReport| (millis + fixture.virtual_millis, micros + fixture.wall_micros);
    match fixtures.into_iter().filter(|fixture| fixture.outcome.has_run()).fold((0, 0), sum) {
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
    use rstest::rstest;

    use super::super::tests::canned;
    use super::*;
    use crate::load::Lateness;
    use crate::report::JudgedRun;

    #[test]
    fn time_is_said_to_be_virtual_only_where_it_is() {
        let fixture = |virtual_millis, wall_micros| {
            let one = canned().fixtures.remove(0);
            FixtureReport { virtual_millis, wall_micros, ..one }
        };
        let described = |fixtures: &[FixtureReport]| time_of(fixtures);
        assert_eq!(described(&[fixture(60_000, 900), fixture(60_000, 900)]), "2 min of virtual time");
        assert_eq!(described(&[fixture(0, 60_000_000), fixture(0, 61_000_000)]), "2 min on the wall clock");
        assert_eq!(described(&[fixture(0, 0)]), "", "skipped");
    }

    #[rstest]
    #[case::passed(&[Outcome::Skip, Outcome::Pass], (Outcome::Pass, "✓"))]
    #[case::failed(&[Outcome::Pass, Outcome::Inconclusive, Outcome::Fail], (Outcome::Fail, "✗"))]
    #[case::inconclusive(&[Outcome::Pass, Outcome::Inconclusive], (Outcome::Inconclusive, "?"))]
    #[case::nothing_ran(&[Outcome::Skip, Outcome::NotRun, Outcome::Unsupported], (Outcome::Skip, "-"))]
    #[case::nothing_selected(&[], (Outcome::Skip, "-"))]
    fn a_suite_has_a_tick_if_something_passed(#[case] outcomes: &[Outcome], #[case] expected: (Outcome, &str)) {
        let one = canned().fixtures.remove(0);
        let fixtures: Vec<_> =
            outcomes.iter().map(|outcome| FixtureReport { outcome: *outcome, ..one.clone() }).collect();
        assert_eq!(mark(&fixtures.iter().collect::<Vec<_>>()), expected);
    }

    #[test]
    fn a_busy_machine_and_inconclusive_fixtures_are_described() {
        let mut report = canned();
        for fixture in &mut report.fixtures {
            (fixture.outcome, fixture.reason) = (Outcome::Inconclusive, "the subject was stopped".to_owned());
        }
        let lateness = Lateness { max_millis: 1234, p95_millis: 12 };
        report.load = Some(MachineLoad { cores: 2, jobs: 16, load_average: Some(18.3), lateness, repeated: 3 });
        insta::assert_snapshot!(ended(&report), @r"
        ? podgc            1 inconclusive                           2 min of virtual time
        ? ttl              2 inconclusive                           2 min of virtual time

        INCONCLUSIVE podgc/orphaned: the subject was stopped
        INCONCLUSIVE ttl/far: the subject was stopped
        INCONCLUSIVE ttl/near: the subject was stopped

        3 inconclusive of 3 · 4 min of virtual time in 1.23 s (median 1.5 ms per fixture)
        16 jobs on 2 cores, load average up to 18.3, timers up to 1.234 s late (95 %: 0.012 s), 3 repeated alone
        ");
    }

    fn ended(report: &RunReport) -> String {
        let mut out = Vec::new();
        let mut terminal = Terminal::new(&mut out, false, false).with_explain_flags("--command 'me {flags}'");
        terminal.event(Event::Ended(report)).expect("memory can be written");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn failures_of_one_cause_are_shown_once() {
        let mut fixtures = canned().fixtures;
        let same =
            FixtureReport { id: "podgc/same".to_owned(), level: "provisional".to_owned(), ..fixtures[0].clone() };
        fixtures[2].bystanders = vec!["python POST leases/me".to_owned()];
        fixtures.push(same);
        let text = ended(&RunReport::new("me", "fake", 1234, fixtures));
        let part = &text[text.find("\n2 of 2").expect("a group")..text.find("\n1 passed").expect("a summary")];
        insta::assert_snapshot!(part, @r"
        2 of 2 failures share: pods/a must exist until t=+59s

        FAIL podgc/orphaned  (fixtures/podgc/orphaned.yaml:12)
          promise: A pod of a missing node is deleted after 40 s.
          rule: BR-24-03: an orphan is deleted after 40 s
          ✗ pods/a must exist until t=+59s at t=+40s (line 12)
            -expected +observed
            -phase: Running
            +phase: Failed
             ready: true
            transcript:
              t=+40s    podgc          DELETE pods/a 200
          log: WARN it was me
          more: plumbline explain podgc/orphaned --command 'me {flags}'
          the same in:
            FAIL (provisional, does not count) podgc/same  (fixtures/podgc/orphaned.yaml:12)

        1 skipped: needs faults

        writes of the subject's other clients, not judged:
          python POST leases/me in 1 fixture
        ");
    }

    #[test]
    fn transcripts_of_passes_are_shown_if_the_report_has_them() {
        let mut fixtures = canned().fixtures;
        fixtures[2].transcript = "t=+1s     ttl            PATCH  nodes/n1 200\n".to_owned();
        let text = ended(&RunReport::new("me", "fake", 1234, fixtures));
        let shown = "\nPASS ttl/near  (fixtures/ttl/near.yaml)\n  t=+1s     ttl            PATCH  nodes/n1 200\n";
        assert!(text.contains(shown), "{text}");
        assert!(!ended(&canned()).contains("PASS"));
    }

    #[test]
    fn report_of_a_canned_run() {
        let report = canned();
        let mut out = Vec::new();
        let mut terminal = Terminal::new(&mut out, false, false);
        terminal.event(Event::Started { fixtures: 3, suites: 2, jobs: 2 }).expect("memory can be written");
        for fixture in &report.fixtures {
            let report = fixture.clone();
            let transcript = fixture.transcript.clone();
            let judged = JudgedRun {
                report,
                transcript,
                clients: std::collections::BTreeSet::new(),
                entries: Vec::new(),
                deliveries: Vec::new(),
                initial: std::sync::Arc::default(),
                start: jiff::Timestamp::default(),
                leeway: std::time::Duration::ZERO,
                load: crate::load::RunLoad::default(),
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
          promise: A pod of a missing node is deleted after 40 s.
          rule: BR-24-03: an orphan is deleted after 40 s
          ✗ pods/a must exist until t=+59s at t=+40s (line 12)
            -expected +observed
            -phase: Running
            +phase: Failed
             ready: true
            transcript:
              t=+40s    podgc          DELETE pods/a 200
          log: WARN it was me
          more: plumbline explain podgc/orphaned

        1 skipped: needs faults

        1 passed, 1 failed, 1 skipped of 3 · 4 min of virtual time in 1.23 s (median 1.5 ms per fixture)
        ");
    }
}
