//! Programs that go round in a loop without work: what they do in a minute is what they will do in the next hour. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use plumbline::transcript::{EntryKind, TranscriptEntry};

use super::state::Expected;
use super::survey::{is_calm, is_work, locks};

/// Length of the windows that are compared.
const WINDOW: Duration = Duration::from_secs(30);
/// Number of windows.
const WINDOWS: u32 = 3;
/// Least number of rounds in a window.
const ROUNDS: usize = 2;

/// Returns true if the program made the same requests with the same replies in each of the last windows, several times,
/// and changed nothing. One that waits longer after each failure makes fewer requests in each window.
pub(super) fn goes_round(entries: &[TranscriptEntry], now: Duration, expected: &Expected) -> bool {
    if !is_calm(entries, now.saturating_sub(WINDOW * WINDOWS), expected) {
        return false;
    }
    let locks = locks(entries, Some(expected));
    let mut windows: Vec<BTreeMap<String, usize>> = vec![BTreeMap::new(); WINDOWS as usize];
    let recent = entries.iter().rev().take_while(|entry| entry.at + WINDOW * WINDOWS > now);
    for entry in recent.filter(|entry| is_work(entry, &locks)) {
        let EntryKind::Request(exchange) = &entry.what else { continue };
        let Some(reply) = &exchange.reply else { return false };
        let index = now.saturating_sub(entry.at).as_millis() / WINDOW.as_millis();
        let Some(window) = usize::try_from(index).ok().and_then(|index| windows.get_mut(index)) else { continue };
        let request = &exchange.request;
        let name = format!("{} {} {} {}", request.verb, request.resource_path(), request.path, reply.status);
        *window.entry(name).or_default() += 1;
    }
    let [first, others @ ..] = windows.as_slice() else { return false };
    let is_alike = |other: &BTreeMap<String, usize>| {
        other.len() == first.len()
            && first.iter().all(|(name, count)| other.get(name).is_some_and(|o| o.abs_diff(*count) <= 1))
    };
    !first.is_empty() && first.values().all(|count| *count >= ROUNDS) && others.iter().all(is_alike)
}

#[cfg(test)]
mod tests {
    use plumbline::transcript::{Actor, RecordedReply, RecordedRequest, Transcript};
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::a_loop(&|second| second % 5 == 0, true)]
    #[case::a_loop_that_does_not_fit_into_the_windows(&|second| second % 7 == 0, true)]
    #[case::a_back_off(&|second| [2, 4, 8, 16, 32, 64].contains(&second), false)]
    #[case::a_loop_that_ends(&|second| second < 60 && second % 5 == 0, false)]
    #[case::silence(&|_| false, false)]
    #[case::one_request_in_a_window(&|second| second % 30 == 0, false)]
    fn loops_go_on_as_before(#[case] requests: &dyn Fn(u64) -> bool, #[case] expected: bool) {
        let transcript = Transcript::new();
        for second in (0..90).filter(|second| requests(*second)) {
            let at = Duration::from_secs(100 + second);
            let verb = "get".to_owned();
            let path = "/api/v1/namespaces/default/pods/a".to_owned();
            let request = RecordedRequest { verb, resource: "pods".to_owned(), path, ..RecordedRequest::default() };
            let seq = transcript.request(at, Actor::Bystander("manager".to_owned()), request);
            transcript.reply(seq, RecordedReply::new(at, 500));
        }
        let now = Duration::from_secs(190);
        assert_eq!(transcript.with(|entries| goes_round(entries, now, &Expected::default())), expected);
    }
}
