//! Reports the run as Markdown, for job summaries and pull requests: failures by their cause, with transcripts to
//! unfold.

use std::io::{self, Write};

use super::grouping::SharedCause;
use super::terminal::{moment, time_of};
use super::{Event, FailedFixtures, Failure, FixtureReport, Outcome, Reporter, RunReport, explain_command, tally};

/// Number of causes whose first failure is reported in full.
const FULL_FAILURES_OF_PAGE: usize = 20;

/// Writes the document when the run has ended.
#[derive(Debug)]
pub struct Markdown<W> {
    /// The destination.
    pub out: W,
    /// Flags for `plumbline explain`.
    pub explain_flags: String,
}

impl<W: Write> Reporter for Markdown<W> {
    fn event(&mut self, event: Event<'_>) -> io::Result<()> {
        let Event::Ended(report) = event else { return Ok(()) };
        self.head(report)?;
        let groups = report.failures_by_cause();
        for (index, group) in groups.iter().enumerate() {
            self.group(group, index < FULL_FAILURES_OF_PAGE)?;
        }
        self.list("Not run or flaky", &report.reasons())?;
        let writes: Vec<String> = report.bystander_writes().iter().map(ToString::to_string).collect();
        self.list("Writes of the subject's other clients, not judged", &writes)?;
        self.passes(report)?;
        self.out.flush()
    }
}

impl<W: Write> Markdown<W> {
    fn head(&mut self, report: &RunReport) -> io::Result<()> {
        let tally_of_all = tally(&report.fixtures);
        let total = report.fixtures.len();
        writeln!(self.out, "# {} on {}: {tally_of_all} of {total}\n", escaped(&report.subject), report.cluster)?;
        writeln!(self.out, "| suite | outcome | time |\n| --- | --- | --- |")?;
        for (name, fixtures) in report.suites() {
            let outcome = tally(fixtures.iter().copied());
            writeln!(self.out, "| {} | {outcome} | {} |", escaped(name), time_of(fixtures))?;
        }
        Ok(())
    }

    fn group(&mut self, group: &FailedFixtures<'_>, full: bool) -> io::Result<()> {
        let Some(first) = group.fixtures.first() else { return Ok(()) };
        let title = group.cause.map_or_else(|| format!("FAIL {}", first.id), SharedCause::title);
        writeln!(self.out, "\n## {}\n", escaped(&title))?;
        for fixture in &group.fixtures {
            let note = if fixture.has_failed() { "" } else { " (provisional, does not count)" };
            writeln!(self.out, "- `{}` {}{note}", fixture.id, escaped(&fixture.place()))?;
        }
        if full { self.failure(first) } else { Ok(()) }
    }

    fn failure(&mut self, fixture: &FixtureReport) -> io::Result<()> {
        writeln!(self.out, "\n{}\n", escaped(&fixture.promise))?;
        for line in fixture.rule_lines() {
            writeln!(self.out, "- {}", escaped(&line))?;
        }
        writeln!(self.out)?;
        let line = |failure: &Failure| {
            let at = failure.at_millis.map(|millis| format!("{}: ", moment(millis))).unwrap_or_default();
            format!("{at}{failure}")
        };
        self.fenced(&fixture.failures.iter().map(line).collect::<Vec<_>>().join("\n"))?;
        self.unfold(fixture)?;
        self.fenced(&explain_command(&fixture.id, &self.explain_flags))
    }

    /// Writes the transcripts of fixtures that passed, if the report has them.
    fn passes(&mut self, report: &RunReport) -> io::Result<()> {
        let mut passed = report.fixtures.iter().filter(|fixture| fixture.outcome == Outcome::Pass).peekable();
        if passed.peek().is_some_and(|fixture| !fixture.transcript.is_empty()) {
            writeln!(self.out, "\n## Transcripts of fixtures that passed")?;
        }
        passed.try_for_each(|fixture| self.unfold(fixture))
    }

    fn unfold(&mut self, fixture: &FixtureReport) -> io::Result<()> {
        if fixture.transcript.is_empty() {
            return Ok(());
        }
        writeln!(self.out, "\n<details><summary>transcript of {}</summary>\n", escaped(&fixture.id))?;
        self.fenced(&fixture.transcript)?;
        writeln!(self.out, "\n</details>\n")
    }

    fn list(&mut self, title: &str, lines: &[String]) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        writeln!(self.out, "\n## {title}\n")?;
        lines.iter().try_for_each(|line| writeln!(self.out, "- {}", escaped(line)))
    }

    /// Writes a code block whose fence does not occur in the text.
    fn fenced(&mut self, text: &str) -> io::Result<()> {
        let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
        let fence = "`".repeat(3.max(longest + 1));
        writeln!(self.out, "{fence}text\n{}\n{fence}", text.trim_end())
    }
}

/// Escapes what Markdown would read as HTML or as a column.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::super::tests::canned;
    use super::*;

    fn text(report: &RunReport) -> String {
        let mut out = Vec::new();
        let mut markdown = Markdown { out: &mut out, explain_flags: "--command me".to_owned() };
        markdown.event(Event::Ended(report)).expect("memory can be written");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn document_of_a_canned_run() {
        let mut fixtures = canned().fixtures;
        let same =
            FixtureReport { id: "podgc/same".to_owned(), level: "provisional".to_owned(), ..fixtures[0].clone() };
        fixtures.push(same);
        insta::assert_snapshot!(text(&RunReport::new("me", "fake", 1234, fixtures)), @r"
        # me on fake: 1 passed, 2 failed, 1 skipped of 4

        | suite | outcome | time |
        | --- | --- | --- |
        | podgc | 2 failed | 4 min of virtual time |
        | ttl | 1 passed, 1 skipped | 2 min of virtual time |

        ## 2 of 2 failures share: pods/a must exist until t=+59s

        - `podgc/orphaned` fixtures/podgc/orphaned.yaml:12
        - `podgc/same` fixtures/podgc/orphaned.yaml:12 (provisional, does not count)

        A pod of a missing node is deleted after 40 s.

        - BR-24-03: an orphan is deleted after 40 s

        ```text
        t=+40s: pods/a must exist until t=+59s
        expected: phase: Running
        ready: true
        observed: phase: Failed
        ready: true
        ```

        <details><summary>transcript of podgc/orphaned</summary>

        ```text
        t=+40s    podgc          DELETE pods/a 200
        ```

        </details>

        ```text
        plumbline explain podgc/orphaned --command me
        ```

        ## Not run or flaky

        - 1 skipped: needs faults
        ");
    }

    /// Text from the subject cannot leave its block.
    #[test]
    fn hostile_text_stays_text() {
        let mut fixtures = canned().fixtures;
        fixtures[0].promise = "<script>a|b</script>".to_owned();
        fixtures[0].transcript = "````\n<img>\n".to_owned();
        fixtures[2].transcript = "passed\n".to_owned();
        let text = text(&RunReport::new("me", "fake", 1, fixtures));
        assert!(text.contains("&lt;script>a\\|b&lt;/script>"), "{text}");
        assert!(text.contains("`````text\n````\n<img>\n`````\n"), "{text}");
        assert!(text.contains("## Transcripts of fixtures that passed"), "{text}");
        assert!(text.contains("<summary>transcript of ttl/near</summary>\n\n```text\npassed\n```"), "{text}");
    }
}
