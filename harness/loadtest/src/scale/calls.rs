//! Request counts by verb and resource, from the server's counters. PURE.
//!
//! `apiserver_request_total` counts the finished requests of all clients; those of the load generator are subtracted.
//! kube-apiserver counts a watch when it ends, so open watches (`apiserver_longrunning_requests`) are added.

use std::collections::BTreeMap;

use super::report::CallCount;

/// Resources of the measured controllers. A real API server also sends requests to itself, but none for these.
const RESOURCES: [&str; 8] = [
    "pods",
    "nodes",
    "poddisruptionbudgets",
    "replicasets",
    "replicationcontrollers",
    "deployments",
    "statefulsets",
    "events",
];

/// Number of requests by verb and resource up to some moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestCounts(BTreeMap<(String, String), u64>);

impl RequestCounts {
    /// Parses Prometheus text; unrelated samples are ignored.
    pub(super) fn read(text: &str) -> Self {
        let mut counted = BTreeMap::new();
        for line in text.lines() {
            let Some((name, labels, value)) = sample(line) else { continue };
            let label = |wanted: &str| labels.iter().find(|(name, _)| *name == wanted).map_or("", |(_, value)| *value);
            let open = name == "apiserver_longrunning_requests" && label("verb").starts_with("WATCH");
            if (name != "apiserver_request_total" && !open) || !RESOURCES.contains(&label("resource")) {
                continue;
            }
            let resource = match label("subresource") {
                "" => label("resource").to_owned(),
                sub => format!("{}/{sub}", label("resource")),
            };
            // Request counters are integers, even if written as floats.
            #[expect(clippy::cast_sign_loss, reason = "counters only grow from 0")]
            let value = value as u64;
            *counted.entry((label("verb").to_owned(), resource)).or_default() += value;
        }
        Self(counted)
    }

    /// Returns the requests since `before` without `own`, sorted by verb and resource.
    pub(super) fn since(&self, before: &Self, own: &OwnRequests) -> Vec<CallCount> {
        let others = self.0.iter().map(|(key, count)| {
            let ours = own.0.get(key).copied().unwrap_or_default();
            let earlier = before.0.get(key).copied().unwrap_or_default();
            (key, count.saturating_sub(earlier).saturating_sub(ours))
        });
        let some = others.filter(|(_, count)| *count > 0);
        some.map(|((verb, resource), count)| CallCount { verb: verb.clone(), resource: resource.clone(), count })
            .collect()
    }
}

/// Requests of the load generator between two moments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OwnRequests(BTreeMap<(String, String), u64>);

impl OwnRequests {
    /// Returns the requests that the load generator sent from `before` to `after`, according to its own counters.
    pub(super) fn between(before: &RequestCounts, after: &RequestCounts) -> Self {
        let grown = after.0.iter().map(|(key, count)| {
            let earlier = before.0.get(key).copied().unwrap_or_default();
            (key.clone(), count.saturating_sub(earlier))
        });
        Self(grown.collect())
    }
}

/// Name, labels and value.
type Sample<'a> = (&'a str, Vec<(&'a str, &'a str)>, f64);

/// Parses the sample of a line; `None` for comments and anything else.
fn sample(line: &str) -> Option<Sample<'_>> {
    let (name, rest) = line.split_once('{')?;
    let (labels, value) = rest.rsplit_once("} ")?;
    let value: f64 = value.split(' ').next()?.parse().ok()?;
    let mut found = Vec::new();
    let mut rest = labels;
    while let Some((label, after)) = rest.split_once("=\"") {
        let (value, after) = after.split_once('"')?;
        found.push((label.trim_start_matches(','), value));
        rest = after;
    }
    value.is_finite().then_some((name, found, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const BEFORE: &str = "\
# HELP apiserver_request_total Counter of requests.
# TYPE apiserver_request_total counter
apiserver_request_total{code=\"200\",component=\"apiserver\",dry_run=\"\",group=\"\",resource=\"pods\",scope=\"cluster\",subresource=\"\",verb=\"LIST\",version=\"v1\"} 2
apiserver_request_total{code=\"200\",group=\"coordination.k8s.io\",resource=\"leases\",subresource=\"\",verb=\"GET\"} 9
apiserver_longrunning_requests{component=\"apiserver\",group=\"\",resource=\"pods\",scope=\"cluster\",subresource=\"\",verb=\"WATCH\",version=\"v1\"} 1
";
    const AFTER: &str = "\
apiserver_request_total{code=\"200\",group=\"\",resource=\"pods\",subresource=\"\",verb=\"LIST\"} 5
apiserver_request_total{code=\"200\",group=\"policy\",resource=\"poddisruptionbudgets\",subresource=\"status\",verb=\"PUT\"} 3e+03
apiserver_request_total{code=\"409\",group=\"policy\",resource=\"poddisruptionbudgets\",subresource=\"status\",verb=\"PUT\"} 4
apiserver_longrunning_requests{group=\"\",resource=\"pods\",subresource=\"\",verb=\"WATCH\"} 3
";

    #[test]
    fn requests_of_others_are_what_is_left() {
        let before = RequestCounts::read(BEFORE);
        let after = RequestCounts::read(AFTER);
        let ours =
            RequestCounts::read("apiserver_request_total{resource=\"pods\",verb=\"WATCH\",subresource=\"\"} 1\n");
        let own = OwnRequests::between(&RequestCounts::default(), &ours);
        let described: Vec<String> = after
            .since(&before, &own)
            .iter()
            .map(|calls| format!("{} {} {}", calls.verb, calls.resource, calls.count))
            .collect();
        assert_eq!(described, ["LIST pods 3", "PUT poddisruptionbudgets/status 3004", "WATCH pods 1"]);
        assert!(before.since(&before, &OwnRequests::default()).is_empty());
    }

    #[rstest]
    #[case("x{a=\"1\",b=\"}\"} 2", Some(("x", vec![("a", "1"), ("b", "}")], 2.0)))]
    #[case("x{} 2.5 1700000000", Some(("x", vec![], 2.5)))]
    #[case("# HELP x{} 1", None)]
    #[case("x 1", None)]
    #[case("x{a=\"1\"} NaN", None)]
    #[case("", None)]
    fn lines(#[case] line: &str, #[case] expected: Option<Sample<'_>>) {
        let found = sample(line).filter(|(name, ..)| !name.starts_with('#'));
        assert_eq!(found, expected);
    }
}
