//! The side of the process: it reads orders from standard input and writes replies to standard output, until its input
//! ends.

use std::io::{self, BufRead, Write};

use super::protocol::{FixtureSource, GuestOrder, GuestReply};
use crate::fixtures;
use crate::runner::suite::{self, RunOptions, TestBed};

/// Carries out all orders.
///
/// # Errors
///
/// Returns an error if an order cannot be read or a reply cannot be written.
pub fn serve(test_bed: &TestBed, options: RunOptions, orders: impl BufRead, mut replies: impl Write) -> io::Result<()> {
    for line in orders.lines() {
        let reply = match serde_json::from_str(&line?)? {
            GuestOrder::Check => check(test_bed),
            GuestOrder::Run(source) => run(&source, test_bed, options),
        };
        serde_json::to_writer(&mut replies, &reply)?;
        replies.write_all(b"\n")?;
        replies.flush()?;
    }
    Ok(())
}

fn check(test_bed: &TestBed) -> GuestReply {
    match suite::check_start_up(test_bed) {
        Ok(start_up) => GuestReply::Starts(start_up.unnamed_agents),
        Err(why) => GuestReply::DoesNotStart(why.to_string()),
    }
}

fn run(source: &FixtureSource, test_bed: &TestBed, options: RunOptions) -> GuestReply {
    let fixture = match fixtures::read_one(&source.id, &source.file, &source.text) {
        Ok(fixture) => fixture,
        Err(why) => return GuestReply::Failed(why.to_string()),
    };
    let mut reply = None;
    suite::run_all(&[fixture], test_bed, RunOptions { jobs: 1, ..options }, |_, judged| {
        reply = Some(judged);
        true
    });
    let Some(mut judged) = reply else { return GuestReply::Failed(format!("{} has no result", source.id)) };
    if !source.keeps_record {
        (judged.entries, judged.deliveries, judged.initial) = Default::default();
    }
    GuestReply::Ran(Box::new(judged))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Outcome;

    const TEXT: &str = "promise: A node has its TTL.\nrule: BR-19-01\nlevel: core\nfeature: ttl.boundaries\ncontrollers: [ttl]\n\
                        given: { nodes: [{ name: n }] }\nsteps:\n  - { at: 10s, expect: { exists: nodes/n } }\n\
                        writes: [PATCH nodes/n 200]\n";

    fn ask(id: &str, text: &str, keeps_record: bool) -> GuestReply {
        let order = GuestOrder::Run(Box::new(FixtureSource {
            id: id.to_owned(),
            file: "fixtures/ttl/a.yaml".into(),
            text: text.to_owned(),
            keeps_record,
        }));
        let orders = format!("{}\n", serde_json::to_string(&order).expect("an order"));
        let mut replies = Vec::new();
        serve(&TestBed::embedded(), RunOptions::one_by_one(), orders.as_bytes(), &mut replies).expect("replies");
        let text = String::from_utf8(replies).expect("UTF-8");
        assert_eq!(text.lines().count(), 1, "{text}");
        serde_json::from_str(&text).expect("a reply")
    }

    #[test]
    fn results_cross_the_border_of_a_process() {
        let GuestReply::Ran(whole) = ask("ttl/a", TEXT, true) else { panic!("it ran") };
        let GuestReply::Ran(short) = ask("ttl/a", TEXT, false) else { panic!("it ran") };
        assert_eq!(whole.report.outcome, Outcome::Pass, "{:?}", whole.report.failures);
        assert!(whole.transcript.contains("PATCH  nodes/n 200"), "{}", whole.transcript);
        assert_eq!((&whole.transcript, whole.start), (&short.transcript, short.start));
        let is_node = |object: &plumbline::transcript::RecordedJson| object["metadata"]["name"] == "n";
        assert!(whole.initial.iter().any(is_node) && whole.entries.len() > 2 && !whole.deliveries.is_empty());
        assert!(short.initial.is_empty() && short.entries.is_empty() && short.deliveries.is_empty());
    }

    #[test]
    fn a_fixture_that_has_changed_is_named() {
        let why = |reply| match reply {
            GuestReply::Failed(why) => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(why(ask("ttl/b", TEXT, false)), "fixtures/ttl/a.yaml: it has no fixture ttl/b any more");
        assert!(why(ask("ttl/a", "promise: 1", false)).starts_with("fixtures/ttl/a.yaml"));
    }
}
