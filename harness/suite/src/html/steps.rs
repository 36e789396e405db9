//! The fixture's steps on the axis, with their verdicts. PURE.

use plumbline::expect::check_text;
use plumbline::fixture::{Action, Check, Fixture, Operation, Step, StepKind, fault_words};

use super::model::StepMark;
use super::notes::millis;
use crate::report::Failure;

/// The text of the failure when a run ended before a step.
const NOT_REACHED: &str = "the step is reached";

/// Returns the steps, and the checks at the end. `failures` are those of the run.
pub(super) fn marks(fixture: &Fixture, failures: &[Failure]) -> Vec<StepMark> {
    let unreached = failures.iter().find(|failure| failure.message == NOT_REACHED).map(|failure| failure.line);
    let mut is_over = false;
    let mut marks: Vec<StepMark> = Vec::with_capacity(fixture.steps.len() + 1);
    for step in &fixture.steps {
        is_over |= unreached == Some(step.line);
        let verdict = if is_over && unreached != Some(step.line) { "" } else { verdict(step, failures) };
        marks.push(mark(step, verdict));
    }
    if !fixture.expect.is_empty() {
        let failed = fixture.expect.iter().any(|check| is_broken(check, failures));
        let end = millis(fixture.end());
        marks.push(StepMark {
            line: fixture.expect[0].line,
            from: end,
            to: end,
            kind: "end",
            text: texts(&fixture.expect),
            verdict: if failed { "fail" } else { "pass" },
        });
    }
    marks
}

fn mark(step: &Step, verdict: &'static str) -> StepMark {
    let (kind, checks) = match &step.kind {
        StepKind::Do { .. } => ("do", &[][..]),
        StepKind::Expect { checks } => ("expect", &checks[..]),
        StepKind::Consistently { checks, .. } => ("consistently", &checks[..]),
        StepKind::Eventually { checks, .. } => ("eventually", &checks[..]),
    };
    let note = step.note.clone().unwrap_or_default();
    let actions = match &step.kind {
        StepKind::Do { actions, .. } => actions.iter().map(action_text).collect::<Vec<_>>().join(", "),
        _ => String::new(),
    };
    let text =
        [actions, texts(checks), note].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" · ");
    StepMark { line: step.line, from: millis(step.at), to: millis(step.end()), kind, text, verdict }
}

/// Returns an action in words: `DELETE nodes/n1`, or as a fixture has it.
fn action_text(action: &Action) -> String {
    match action {
        Action::Request(request) => format!("{} {}", verb(&request.operation), request.target),
        other => fault_words::of_action(other).map(|words| words.to_string().replace('"', "")).unwrap_or_default(),
    }
}

const fn verb(operation: &Operation) -> &'static str {
    match operation {
        Operation::Get => "GET",
        Operation::List { .. } => "LIST",
        Operation::Follow { .. } => "WATCH",
        Operation::Create { .. } | Operation::Post { .. } => "POST",
        Operation::Update { .. } | Operation::Replace { .. } => "PUT",
        Operation::Patch { .. } => "PATCH",
        Operation::Delete { .. } | Operation::DeleteCollection { .. } => "DELETE",
    }
}

fn texts(checks: &[Check]) -> String {
    checks.iter().map(check_text).collect::<Vec<_>>().join(", ")
}

/// Returns `fail` if one of the step's checks, or its reply, is among the failures.
fn verdict(step: &Step, failures: &[Failure]) -> &'static str {
    let fails = |line: u64, text: &str| {
        failures.iter().any(|failure| failure.line == line && failure.message.trim_start_matches("eventually ") == text)
    };
    let broken = match &step.kind {
        StepKind::Do { .. } => fails(step.line, "reply"),
        StepKind::Expect { checks } | StepKind::Consistently { checks, .. } | StepKind::Eventually { checks, .. } => {
            checks.iter().any(|check| is_broken(check, failures))
        }
    };
    if broken || fails(step.line, NOT_REACHED) { "fail" } else { "pass" }
}

fn is_broken(check: &Check, failures: &[Failure]) -> bool {
    let text = check_text(check);
    failures
        .iter()
        .any(|failure| failure.line == check.line && failure.message.trim_start_matches("eventually ") == text)
}
