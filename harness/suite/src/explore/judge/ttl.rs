//! Oracle `ttl`: the TTL follows the number of nodes with hysteresis, as the controller's informer shows them. Pure.
//!
//! Source: `pkg/controller/ttl/ttl_controller.go`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use plumbline::expect::world::ObjectStates;
use plumbline::explore::breach::Breach;
use plumbline::explore::entries::changes;
use plumbline::explore::knowledge::{KnownStep, View};
use plumbline::explore::work::WorkWindow;
use plumbline::fixture::{Controller, Fixture};
use plumbline::metadata;
use plumbline::rules::nodes::{TTL_ANNOTATION, TTL_RANGES, next_ttl_range};
use plumbline::transcript::Actor;

use super::breaches::of_change;
use crate::explore::run::explored::ExploredRun;

/// Returns the first TTL that does not follow from the number of nodes.
pub(super) fn wrong_values(fixture: &Fixture, _: &ObjectStates, explored: ExploredRun<'_>) -> Vec<Breach> {
    if !fixture.controllers.contains(&Controller::Ttl) {
        return Vec::new();
    }
    let mut ranges = BTreeMap::new();
    let found = changes(explored.until_quiet(), Actor::Ttl, "nodes").find_map(|(entry, change)| {
        let value = metadata::annotation(change.new.as_deref()?, TTL_ANNOTATION)?;
        let window = explored.knowledge.window(change.request?);
        let replica = explored.knowledge.replica_of(window.seq);
        let ranges = ranges.entry(replica).or_insert_with(|| KnownRanges::new(replica, explored));
        let possible: BTreeSet<&str> = ranges.within(window).map(|range| TTL_RANGES[range].2).collect();
        (!possible.contains(value)).then(|| {
            let wanted: Vec<&str> = possible.into_iter().collect();
            let text = format!(
                "nodes/{} gets the TTL {value} at {:?}; from the nodes that were known follows {}",
                change.name,
                entry.at,
                wanted.join(" or ")
            );
            of_change("ttl", change, "value".to_owned(), entry.at, text)
        })
    });
    found.into_iter().collect()
}

/// A time whose news the controller may read one by one or as one: an instant, or from its start until all its
/// informers have their first lists.
struct NewsWindow {
    at: Duration,
    /// The ranges before it.
    ranges: BTreeSet<usize>,
    /// The number of nodes before it.
    nodes: usize,
}

/// The places in [`TTL_RANGES`] to which the informer of a replica leads, each with the number of entries before it.
struct KnownRanges(Vec<(usize, BTreeSet<usize>)>);

impl KnownRanges {
    fn new(replica: Option<u8>, explored: ExploredRun<'_>) -> Self {
        let mut ranges = Self(vec![(0, BTreeSet::from([0]))]);
        let mut nodes: BTreeSet<&str> = BTreeSet::new();
        // The nodes that come (true) and go with one list or event.
        let mut news: Vec<bool> = Vec::new();
        let mut before = 0;
        let mut at = 0;
        let starts = explored.knowledge.first_lists(replica);
        let mut window = NewsWindow { at: Duration::ZERO, ranges: BTreeSet::from([0]), nodes: 0 };
        for step in explored.knowledge.steps(replica, View::Possible) {
            match step {
                KnownStep::Sees(key, sighting) if key.resource == "nodes" => {
                    if sighting.position != at {
                        ranges.follow(at, (before, &window), &news);
                        (before, at) = (nodes.len(), sighting.position);
                        news.clear();
                    }
                    let started = starts.partition_point(|(entry, _)| *entry < sighting.position).saturating_sub(1);
                    let synced = starts.get(started).map_or(Some(Duration::ZERO), |(_, synced)| *synced);
                    let noticed = sighting.at.max(synced.unwrap_or(Duration::MAX));
                    if noticed != window.at {
                        window = NewsWindow { at: noticed, ranges: ranges.last(), nodes: before };
                    }
                    let is_there = sighting.state.is_some();
                    let is_news = if is_there { nodes.insert(&key.name) } else { nodes.remove(key.name.as_str()) };
                    news.extend(is_news.then_some(is_there));
                }
                KnownStep::Starts(entry) => {
                    ranges.follow(at, (before, &window), &news);
                    ranges.0.push((entry.seq, BTreeSet::from([0])));
                    (before, at) = (0, entry.seq);
                    window = NewsWindow { at: Duration::ZERO, ranges: BTreeSet::from([0]), nodes: 0 };
                    nodes.clear();
                    news.clear();
                }
                KnownStep::Sees(..) | KnownStep::Entry(_) => {}
            }
        }
        ranges.follow(at, (before, &window), &news);
        ranges
    }

    fn last(&self) -> BTreeSet<usize> {
        self.0.last().map(|(_, last)| last.clone()).unwrap_or_default()
    }

    /// Follows nodes that come and go at the same moment. Controllers count them one by one, in any order, so the
    /// number may pass a bound in between, or count only the nodes that are left of all news of the moment.
    fn follow(&mut self, position: usize, (nodes, window): (usize, &NewsWindow), news: &[bool]) {
        if news.is_empty() {
            return;
        }
        let last = self.last();
        let come = news.iter().filter(|comes| **comes).count();
        let go = news.len() - come;
        let mut passed = last.clone();
        let mut reached = BTreeSet::new();
        let orders = [(vec![true; come], vec![false; go]), (vec![false; go], vec![true; come])];
        for order in orders.map(|(first, second)| [first, second].concat()).into_iter().chain([news.to_vec()]) {
            for range in &last {
                let mut range = *range;
                let mut count = nodes;
                for comes in &order {
                    count = if *comes { count + 1 } else { count.saturating_sub(1) };
                    range = next_ttl_range(range, count);
                    passed.insert(range);
                }
                reached.insert(range);
            }
        }
        let now = nodes + come - go;
        let counts: Vec<usize> =
            if now < window.nodes { (now..window.nodes).rev().collect() } else { (window.nodes + 1..=now).collect() };
        for range in &window.ranges {
            reached.insert(counts.iter().fold(*range, |range, count| next_ttl_range(range, *count)));
        }
        self.0.push((position, passed));
        self.0.push((position, reached));
    }

    /// Returns the ranges that the controller may have had in mind.
    fn within(&self, window: WorkWindow) -> impl Iterator<Item = usize> {
        let first = self.0.partition_point(|(position, _)| *position <= window.begin).saturating_sub(1);
        let known = self.0[first..].iter().take_while(move |(position, _)| *position <= window.seq);
        known.flat_map(|(_, ranges)| ranges.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use plumbline::transcript::Actor;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::explore::judge::testing::History;

    #[rstest]
    #[case::rises_above_100(100, true, "15", true)]
    #[case::not_before(99, true, "15", false)]
    #[case::stays_at_90(101, false, "15", true)]
    #[case::does_not_fall_at_100(101, false, "0", false)]
    fn the_ttl_has_hysteresis(#[case] nodes: usize, #[case] grows: bool, #[case] value: &str, #[case] fine: bool) {
        let annotated = |value: &str| json!({"metadata": {"name": "a", "annotations": {TTL_ANNOTATION: value}}});
        let named = |number| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("n{number}")}});
        let initial: Vec<Value> = (0..nodes).map(named).collect();
        let mut history = History::new(&initial);
        let one = Some(annotated(""));
        if grows {
            history.happens(10, "nodes/a", one);
        } else {
            history.happens(10, "nodes/n0", None);
        }
        history.writes(10, Actor::Ttl, "patch nodes/n1", json!({}), Some(annotated(value)));
        let found = history.judged("ttl", wrong_values);
        assert_eq!(found.is_empty(), fine, "{found:?}");
    }

    /// Eleven of 101 nodes go at once, at the start or later.
    #[rstest]
    #[case::one_by_one(0, "15", true)]
    #[case::as_one(0, "0", true)]
    #[case::later(10, "0", false)]
    fn news_of_a_moment_may_be_read_as_one(#[case] at: u64, #[case] value: &str, #[case] fine: bool) {
        let annotated = |value: &str| json!({"metadata": {"name": "a", "annotations": {TTL_ANNOTATION: value}}});
        let named = |number| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("n{number}")}});
        let initial: Vec<Value> = (0..101).map(named).collect();
        let mut history = History::new(&initial);
        for number in 0..11 {
            history.happens(at, &format!("nodes/n{number}"), None);
        }
        history.writes(at, Actor::Ttl, "patch nodes/n99", json!({}), Some(annotated(value)));
        let found = history.judged("ttl", wrong_values);
        assert_eq!(found.is_empty(), fine, "{found:?}");
    }
}
