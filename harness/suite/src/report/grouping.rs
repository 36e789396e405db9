//! Groups what fixtures have in common: failures by their cause, writes of bystanders by their form. PURE. Reports of
//! runs and the site use it.
//!
//! Two failures have the same cause if they break the same expectation about the same fields and, where a request broke
//! it, name the same actor, verb, resource and reply code. Names of objects, times and values are not compared. In the
//! text of a cause they are replaced by `…` where they differ.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::LazyLock;

use regex::Regex;
use serde::{Deserialize, Serialize};

use super::{Failure, FixtureReport, Outcome};

/// A cause that several failed fixtures share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SharedCause {
    /// The cause: `nothing else was written: ttl PATCH nodes/… 200`.
    pub cause: String,
    /// Number of fixtures that failed, for any cause.
    pub failed: usize,
    /// Ids of the fixtures that share it, in order; at least two.
    pub fixtures: Vec<String>,
}

impl SharedCause {
    /// Describes the group: `11 of 17 failures share: …`.
    #[must_use]
    pub fn title(&self) -> String {
        format!("{} of {} failures share: {}", self.fixtures.len(), self.failed, self.cause)
    }
}

/// Groups the fixtures that failed by cause, as [`by_cause`] does.
#[must_use]
pub fn shared_causes(fixtures: &[FixtureReport]) -> Vec<SharedCause> {
    let failed = fixtures.iter().filter(|one| one.outcome == Outcome::Fail);
    by_cause(failed.map(|one| FixtureFailures { id: &one.id, failures: &one.failures }))
}

/// The failed checks of a fixture.
#[derive(Clone, Copy, Debug)]
pub struct FixtureFailures<'a> {
    /// The fixture's id.
    pub id: &'a str,
    /// The checks.
    pub failures: &'a [Failure],
}

/// Groups fixtures by cause, largest group first. Each fixture is in at most one group; fixtures whose causes are all
/// their own are in none.
#[must_use]
pub fn by_cause<'a>(failed: impl IntoIterator<Item = FixtureFailures<'a>>) -> Vec<SharedCause> {
    let mut rest: Vec<FixtureFailures<'_>> = failed.into_iter().collect();
    let failed = rest.len();
    let mut groups = Vec::new();
    while let Some((form, count)) = most_frequent(&rest)
        && count > 1
    {
        let has_it = |fixture: &FixtureFailures<'_>| fixture.failures.iter().any(|failure| form_of(failure) == form);
        let (members, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(has_it);
        rest = others;
        let texts = members.iter().flat_map(|fixture| fixture.failures);
        let texts: Vec<String> = texts.filter(|failure| form_of(failure) == form).map(cause_text).collect();
        let fixtures = members.iter().map(|fixture| fixture.id.to_owned()).collect();
        groups.push(SharedCause { cause: merged(&texts), failed, fixtures });
    }
    groups
}

/// Returns the form of cause that most of the fixtures have, and their number. Of equally frequent ones, one with a
/// request goes first: it says more than an expectation alone.
fn most_frequent(fixtures: &[FixtureFailures<'_>]) -> Option<(String, usize)> {
    let mut counts: BTreeMap<String, (usize, bool)> = BTreeMap::new();
    for fixture in fixtures {
        let forms: BTreeMap<String, bool> =
            fixture.failures.iter().map(|failure| (form_of(failure), request(&failure.observed).is_some())).collect();
        for (form, has_request) in forms {
            let count = counts.entry(form).or_default();
            *count = (count.0 + 1, count.1 || has_request);
        }
    }
    let best = counts.into_iter().max_by(|(a, of_a), (b, of_b)| of_a.cmp(of_b).then_with(|| b.cmp(a)));
    best.map(|(form, (count, _))| (form, count))
}

/// A write that clients of the subject made in several fixtures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BystanderWrite {
    /// Actor, verb and object: `python PATCH replicasets/…`.
    pub write: String,
    /// Number of fixtures in which it was made.
    pub fixtures: usize,
}

impl fmt::Display for BystanderWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let things = if self.fixtures == 1 { "fixture" } else { "fixtures" };
        write!(f, "{} in {} {things}", self.write, self.fixtures)
    }
}

/// Groups the bystanders' writes of several fixtures by actor, verb and resource.
pub fn bystander_writes<'a>(of_fixtures: impl IntoIterator<Item = &'a [String]>) -> Vec<BystanderWrite> {
    let mut groups: BTreeMap<String, (BTreeSet<usize>, Vec<String>)> = BTreeMap::new();
    for (index, writes) in of_fixtures.into_iter().enumerate() {
        for write in writes {
            let (fixtures, texts) = groups.entry(general(write)).or_default();
            fixtures.insert(index);
            texts.push(write.clone());
        }
    }
    let group = |(fixtures, texts): (BTreeSet<usize>, Vec<String>)| BystanderWrite {
        write: merged(&texts),
        fixtures: fixtures.len(),
    };
    groups.into_values().map(group).collect()
}

/// Returns what failures of the same cause have in common.
fn form_of(failure: &Failure) -> String {
    let expectation = general(first_line(&failure.message));
    match request(&failure.observed).map(general).or_else(|| fields(failure)) {
        Some(more) => format!("{expectation}: {more}"),
        None => expectation,
    }
}

/// Returns the cause of one failure.
fn cause_text(failure: &Failure) -> String {
    let expectation = first_line(&failure.message);
    if let Some(request) = request(&failure.observed) {
        return format!("{expectation}: {request}");
    }
    match (fields(failure), value_of(failure)) {
        (Some(fields), Some(value)) => format!("{expectation}: {fields} {value}, observed {}", failure.observed),
        (Some(fields), None) => format!("{expectation}: {fields}"),
        (None, _) => expectation.to_owned(),
    }
}

/// Returns the fields of an object that are not as expected: `allowed, current` of a budget's numbers, or a path such
/// as `metadata.annotations.a/b`.
fn fields(failure: &Failure) -> Option<String> {
    if [&failure.expected, &failure.observed].iter().any(|text| text.is_empty() || text.contains('\n')) {
        return None;
    }
    let numbers = |text: &str| -> Option<Vec<(String, String)>> {
        let pairs = text.split(", ").map(|pair| pair.split_once(' '));
        pairs.map(|pair| pair.map(|(name, value)| (name.to_owned(), value.to_owned()))).collect()
    };
    let names = |text: &str| numbers(text).map(|pairs| pairs.into_iter().map(|(name, _)| name).collect::<Vec<_>>());
    if let (Some(expected), Some(observed)) = (numbers(&failure.expected), numbers(&failure.observed))
        && names(&failure.expected) == names(&failure.observed)
    {
        let wrong = expected.iter().zip(&observed).filter(|(expected, observed)| expected != observed);
        let wrong: Vec<&str> = wrong.map(|((name, _), _)| name.as_str()).collect();
        return (!wrong.is_empty()).then(|| wrong.join(", "));
    }
    let (path, _) = failure.expected.split_once(": ")?;
    (!path.contains(' ') && path.contains('.')).then(|| path.to_owned())
}

/// Returns the expected value of the field that [`fields`] names, if it is one.
fn value_of(failure: &Failure) -> Option<&str> {
    let (path, value) = failure.expected.split_once(": ")?;
    (!path.contains(' ')).then_some(value)
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Returns the first request in a text: `ttl PATCH nodes/n1 200` of `only t=+1s ttl PATCH nodes/n1 200, …`.
fn request(observed: &str) -> Option<&str> {
    static REQUEST: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"t=\+[\d.]+s (\S+ (?:POST|PUT|PATCH|DELETE|GET|LIST|WATCH) \S+ (?:\d{3}|\(no reply\)))").ok()
    });
    let found = REQUEST.as_ref()?.captures(observed)?.get(1)?;
    Some(found.as_str())
}

/// Replaces times and names of objects by `…`.
fn general(text: &str) -> String {
    text.split(' ').map(general_word).collect::<Vec<_>>().join(" ")
}

/// Replaces the name in `pods/a`, `kube-system:pods/a/status`, `t=+40s`.
fn general_word(word: &str) -> String {
    if word.starts_with("t=+") || word.starts_with("t=-") {
        return "t=…".to_owned();
    }
    let object = word.trim_end_matches([':', ',', '.', ')']);
    let end = &word[object.len()..];
    let mut parts = object.split('/');
    let (Some(resource), Some(name)) = (parts.next(), parts.next()) else { return word.to_owned() };
    let is_resource =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || "-:(".contains(c));
    if !is_resource(resource) || name.is_empty() {
        return word.to_owned();
    }
    let resource = resource.rsplit(':').next().unwrap_or(resource);
    let after_name: Vec<&str> = std::iter::once("…").chain(parts).collect();
    format!("{resource}/{}{end}", after_name.join("/"))
}

/// Merges texts of the same form: words that differ are generalized. Texts of different lengths are cut where the
/// shortest ends.
fn merged(texts: &[String]) -> String {
    let Some((first, others)) = texts.split_first() else { return String::new() };
    let mut words: Vec<String> = first.split(' ').map(str::to_owned).collect();
    for other in others {
        let theirs: Vec<&str> = other.split(' ').collect();
        words.truncate(theirs.len());
        for (word, theirs) in words.iter_mut().zip(theirs) {
            if word != theirs {
                let ours = general_word(word);
                let general = general_word(theirs);
                let comma = if word.ends_with(',') && theirs.ends_with(',') { "," } else { "" };
                *word = if ours == general { general } else { format!("…{comma}") };
            }
        }
    }
    words.dedup_by(|word, before| word == "…" && before == "…");
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::super::tests::canned;
    use super::*;

    fn failure(message: &str, observed: &str) -> Failure {
        Failure { message: message.to_owned(), observed: observed.to_owned(), ..Failure::default() }
    }

    fn failed(id: &str, failures: &[(&str, &str)]) -> FixtureReport {
        let failures = failures.iter().map(|(message, observed)| failure(message, observed)).collect();
        FixtureReport { id: id.to_owned(), outcome: Outcome::Fail, failures, ..canned().fixtures.remove(0) }
    }

    const UNEXPLAINED: &str = "nothing else was written";

    #[test]
    fn fixtures_are_grouped_by_what_most_of_them_share() {
        let fixtures = [
            failed("a", &[("match: nodes/n1", "\"0\""), (UNEXPLAINED, "t=+1s ttl PATCH nodes/n1 200")]),
            failed("b", &[(UNEXPLAINED, "t=+2.001s ttl PATCH nodes/n2 200"), ("order", "no such request")]),
            failed("c", &[(UNEXPLAINED, "t=+2s ttl PATCH nodes/n2 409")]),
            failed("d", &[("order", "only t=+2s ttl PATCH nodes/n2 200, t=+9s ttl PATCH nodes/n9 200")]),
            failed("e", &[("order", "no such request")]),
            failed("f", &[("match: nodes/n7", "\"0\""), (UNEXPLAINED, "t=+1s ttl PATCH nodes/n1 200")]),
            failed("g", &[("order", "no such request")]),
            FixtureReport { outcome: Outcome::Pass, ..failed("h", &[("order", "no such request")]) },
        ];
        let titles: Vec<String> =
            shared_causes(&fixtures).iter().map(|group| format!("{} {:?}", group.title(), group.fixtures)).collect();
        assert_eq!(
            titles,
            [
                r#"3 of 7 failures share: nothing else was written: ttl PATCH nodes/… 200 ["a", "b", "f"]"#,
                r#"2 of 7 failures share: order ["e", "g"]"#,
            ]
        );
    }

    /// Names stay where all failures agree on them.
    #[rstest]
    #[case::same_name("t=+1s ttl PATCH nodes/n1 200", "t=+9s ttl PATCH nodes/n1 200", "x: ttl PATCH nodes/n1 200")]
    #[case::names("t=+1s ttl PATCH nodes/n1 200", "t=+9s ttl PATCH nodes/n2 200", "x: ttl PATCH nodes/… 200")]
    #[case::subresource(
        "t=+1s podgc PATCH pods/a/status 200",
        "t=+1s podgc PATCH kube-system:pods/b/status 200 with body.x",
        "x: podgc PATCH pods/…/status 200"
    )]
    #[case::no_reply(
        "t=+1s ttl PUT nodes/a (no reply)",
        "t=+1s ttl PUT nodes/b (no reply)",
        "x: ttl PUT nodes/… (no reply)"
    )]
    #[case::no_request("expected 3", "expected 4", "x")]
    fn texts_of_causes(#[case] one: &str, #[case] other: &str, #[case] cause: &str) {
        let groups = shared_causes(&[failed("a", &[("x", one)]), failed("b", &[("x", other)])]);
        assert_eq!(groups.iter().map(|group| group.cause.as_str()).collect::<Vec<_>>(), [cause]);
    }

    #[rstest]
    #[case::verb("t=+1s ttl PATCH nodes/n1 200", "t=+1s ttl PUT nodes/n1 200")]
    #[case::actor("t=+1s ttl PATCH nodes/n1 200", "t=+1s podgc PATCH nodes/n1 200")]
    #[case::resource("t=+1s ttl PATCH nodes/n1 200", "t=+1s ttl PATCH pods/n1 200")]
    #[case::subresource("t=+1s ttl PATCH nodes/n1 200", "t=+1s ttl PATCH nodes/n1/status 200")]
    #[case::code("t=+1s ttl PATCH nodes/n1 200", "t=+1s ttl PATCH nodes/n1 409")]
    fn different_causes(#[case] one: &str, #[case] other: &str) {
        assert_eq!(shared_causes(&[failed("a", &[("x", one)]), failed("b", &[("x", other)])]), []);
    }

    #[rstest]
    #[case::values("a.b/ttl: \"15\"", "\"0\"", "a.b/ttl: \"30\"", "\"0\"", &["x: a.b/ttl …, observed \"0\""])]
    #[case::the_same("a.b/ttl: \"15\"", "\"0\"", "a.b/ttl: \"15\"", "\"0\"", &["x: a.b/ttl \"15\", observed \"0\""])]
    #[case::other_fields("a.b/ttl: \"15\"", "\"0\"", "a.c: \"15\"", "\"0\"", &[])]
    #[case::numbers("allowed 1, current 2", "allowed 0, current 2", "allowed 9", "allowed 8", &["x: allowed"])]
    #[case::other_numbers("allowed 1, current 2", "allowed 0, current 2", "allowed 1, current 2", "allowed 1, current 1", &[])]
    #[case::longer("a.b: 1", "0", "a.b: 1 2 3", "4", &["x: a.b …"])]
    fn fields_are_part_of_the_cause(
        #[case] expected: &str,
        #[case] observed: &str,
        #[case] other_expected: &str,
        #[case] other_observed: &str,
        #[case] causes: &[&str],
    ) {
        let one = |id: &str, expected: &str, observed: &str| {
            let mut report = failed(id, &[("x", observed)]);
            expected.clone_into(&mut report.failures[0].expected);
            report
        };
        let groups = shared_causes(&[one("a", expected, observed), one("b", other_expected, other_observed)]);
        assert_eq!(groups.iter().map(|group| group.cause.as_str()).collect::<Vec<_>>(), causes);
    }

    #[rstest]
    #[case("match: nodes/n1", "match: nodes/…")]
    #[case("status of other:poddisruptionbudgets/pdb", "status of poddisruptionbudgets/…")]
    #[case("metric workqueue_depth", "metric workqueue_depth")]
    #[case("the fault on `WATCH pods` affected nothing", "the fault on `WATCH pods` affected nothing")]
    #[case("metadata.annotations.node.alpha.kubernetes.io/ttl", "metadata.annotations.node.alpha.kubernetes.io/ttl")]
    fn general_texts(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(general(text), expected);
    }

    #[test]
    fn writes_of_bystanders_are_counted_by_form() {
        let writes = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let of_fixtures = [
            writes(&["hpa PATCH replicasets/a", "hpa PATCH replicasets/b", "python POST leases/x"]),
            writes(&["python POST leases/x"]),
            writes(&[]),
        ];
        let groups = bystander_writes(of_fixtures.iter().map(Vec::as_slice));
        let described: Vec<_> = groups.iter().map(|group| (group.write.as_str(), group.fixtures)).collect();
        assert_eq!(described, [("hpa PATCH replicasets/…", 1), ("python POST leases/x", 2)]);
    }
}
