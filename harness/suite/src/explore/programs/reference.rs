//! Runs without faults: what a scenario shows, and whether it shows the same each time. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::job::{Ending, EndingKind, Facts, Point, Request};
use super::state::{Expected, Volatile};

/// Resources that lead to pods.
const WITH_PODS: [&str; 7] = ["pods", "deployments", "replicasets", "statefulsets", "daemonsets", "jobs", "cronjobs"];

/// The runs of a scenario without faults.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reference {
    /// The facts of the first run.
    pub facts: Facts,
    /// The state at its end, and what differs between runs.
    pub expected: Expected,
    /// The requests of the runs that are alike, from 0 to 1.
    pub alike: f64,
    /// The first difference between two runs, if there is one.
    pub divergence: Option<String>,
}

/// Reasons why a scenario cannot be explored.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ReferenceError {
    /// A run without faults ended early.
    #[error("the run without faults does not come to its end: {}{}", .0.text, next(.0))]
    Ended(Ending),
    /// The program ends by itself without any fault.
    #[error("the program ends by itself without any fault: {0}")]
    Exits(String),
    /// Steps of the scenario are refused.
    #[error(
        "{}; correct the scenario, or expect it with `reply: CODE`", .0.join("; ")
    )]
    FailedSteps(Vec<String>),
    /// The program makes no request.
    #[error(
        "the program made no request: does its command line use {{kubeconfig}}, {{server}} or the variable KUBECONFIG? The \
         end of its output:\n    {0}"
    )]
    Silent(String),
    /// The program never comes to rest.
    #[error(
        "the program never comes to rest without any fault: it still writes after {minutes} minutes ({last}); leave out what \
         writes periodically, or accept it with --without quiet"
    )]
    Restless {
        /// The time that it had.
        minutes: u64,
        /// Its last write.
        last: String,
    },
    /// Two runs differ.
    #[error("{}", differs(*alike, first))]
    Differs {
        /// The part of the requests that is alike.
        alike: f64,
        /// The first difference.
        first: String,
    },
}

fn differs(alike: f64, first: &str) -> String {
    let percent = (alike * 100.0).floor();
    let accepted = percent / 100.0;
    format!(
        "{percent:.0} % of the requests are the same in two runs without faults; the first difference: {first}; \
         --runs-alike {accepted:.2} accepts such races"
    )
}

/// Returns what to do about an early end.
fn next(ending: &Ending) -> String {
    let text = &ending.text;
    let hint = match ending.kind {
        EndingKind::Seed if text.contains("no matches for kind") || text.contains("unknown kind") => {
            "add the definition of the kind: --manifests FILE, or `crds` in the scenario"
        }
        EndingKind::Seed => {
            "correct the objects of the scenario, or add the definitions of their kinds with --manifests FILE"
        }
        EndingKind::Launch => "try the command line by hand",
        EndingKind::Hang => "the program never rests: it waits in a loop, or the scenario gives it work without an end",
        EndingKind::Storm => "the program requests in a loop; this is a finding of its own, without any fault",
        EndingKind::Exits if text.contains("x509") || text.contains("certificate") || text.contains("tls.crt") => {
            "it needs the certificate of a webhook: switch its webhooks off (ENABLE_WEBHOOKS=false for kubebuilder's \
             programs, with --command-env), or give it a certificate with --command-env"
        }
        EndingKind::Exits
            if text.contains("no matches for kind") || text.contains("could not find the requested resource") =>
        {
            "it needs kinds that the server does not have: --manifests FILE with their definitions"
        }
        EndingKind::Exits if text.to_lowercase().contains("image") => {
            "it asks for an image: set the variable that it reads with --command-env NAME=VALUE"
        }
        EndingKind::Exits | EndingKind::Environment => "its output says why; --command-env sets variables",
    };
    format!("\n  next: {hint}")
}

impl Reference {
    /// Compares runs of the same scenario without faults; the first one is the reference. `quiet`: programs that write
    /// until the end are refused.
    ///
    /// # Errors
    ///
    /// Returns the reason if the scenario cannot be explored.
    pub fn new(runs: Vec<Facts>, least_alike: f64, quiet: bool) -> Result<Self, ReferenceError> {
        for facts in &runs {
            check(facts, quiet)?;
        }
        let mut volatile = Volatile::new();
        let mut alike: f64 = 1.0;
        let mut divergence = None;
        let mut runs = runs.into_iter();
        let facts = runs.next().unwrap_or_default();
        let mut locks = facts.locks.clone();
        let mut finalizers = facts.finalizers.clone();
        for other in runs {
            locks.extend(other.locks.iter().cloned());
            finalizers.extend(other.finalizers.iter().cloned());
            let (part, first) = compared(&facts, &other);
            alike = alike.min(part);
            divergence = divergence.or(first);
            facts.state.learn(&other.state, &mut volatile);
            for (step, state) in &facts.before {
                if let Some(other) = other.before.get(step) {
                    state.learn(other, &mut volatile);
                }
            }
        }
        if alike < least_alike {
            return Err(ReferenceError::Differs { alike, first: divergence.unwrap_or_default() });
        }
        let before = facts.before.clone();
        let expected = Expected { state: facts.state.clone(), volatile, locks, finalizers, before };
        Ok(Self { facts, expected, alike, divergence })
    }

    /// Returns what may be missing around the program. `has_kubelet`: pods run.
    #[must_use]
    pub fn remarks(&self, has_kubelet: bool) -> Vec<String> {
        let mut remarks = Vec::new();
        let requests = &self.facts.requests;
        let answered = |code: u16| -> BTreeSet<&str> {
            let lists = requests.iter().filter(|request| matches!(request.verb.as_str(), "list" | "watch"));
            lists.filter(|request| request.code == code).map(|request| request.resource.as_str()).collect()
        };
        // A list of a kind that is served is never 404.
        let missing = &answered(404) - &answered(200);
        if !missing.is_empty() {
            let missing = missing.into_iter().collect::<Vec<_>>().join(", ");
            remarks.push(format!(
                "the program lists {missing}, which the server does not have: --manifests FILE with the definitions"
            ));
        }
        if !requests.iter().any(|request| request.changed) {
            remarks.push("the program changed no object: do the scenario's steps give it work?".to_owned());
        }
        let has_pods = |request: &Request| request.verb == "create" && WITH_PODS.contains(&&*request.resource);
        if !has_kubelet && requests.iter().any(has_pods) {
            remarks.push(
                "no pod runs here: --like kind, or --serve-flags '--kubelet --nodes 1 --loops workloads,jobs'"
                    .to_owned(),
            );
        }
        remarks
    }

    /// Returns the points of the run.
    #[must_use]
    pub fn points(&self) -> &[Point] {
        &self.facts.points
    }
}

fn check(facts: &Facts, quiet: bool) -> Result<(), ReferenceError> {
    if let Some(ending) = &facts.ending {
        return Err(ReferenceError::Ended(ending.clone()));
    }
    if !facts.failed_steps.is_empty() {
        return Err(ReferenceError::FailedSteps(facts.failed_steps.clone()));
    }
    if let Some(exit) = facts.exits.first() {
        let is_missing = exit.reason.starts_with("unable to start ");
        let kind = if is_missing { EndingKind::Launch } else { EndingKind::Exits };
        let ending = Ending { kind, text: exit.reason.clone() };
        if is_missing {
            return Err(ReferenceError::Ended(ending));
        }
        return Err(ReferenceError::Exits(format!("{}{}", ending.text, next(&ending))));
    }
    if facts.requests.is_empty() {
        return Err(ReferenceError::Silent(facts.log.join("\n    ")));
    }
    if let Some(last) = facts.late.last().filter(|_| quiet) {
        return Err(ReferenceError::Restless { minutes: facts.end / 60_000, last: last.clone() });
    }
    Ok(())
}

/// Returns the part of the requests that two runs have in common, in any order, and the first that only one of them
/// has.
fn compared(one: &Facts, other: &Facts) -> (f64, Option<String>) {
    let left = counted(&one.requests);
    let right = counted(&other.requests);
    let mut common = 0;
    let mut all = 0;
    let mut first = None;
    let names: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
    for name in names {
        let one = left.get(name).copied().unwrap_or(0);
        let other = right.get(name).copied().unwrap_or(0);
        common += one.min(other);
        all += one.max(other);
        if one != other && first.is_none() {
            first = Some(format!("{name}: {one} times in the first run, {other} times in another"));
        }
    }
    let part = if all == 0 { 1.0 } else { f64::from(common) / f64::from(all) };
    (part, first)
}

/// Counts writes by what they are about, and reads by whether there are any: how often a program reads depends on the
/// order of its threads. Races between the caches of a program and its writes do not count: writes that change nothing,
/// conflicts, and writes of what has just gone.
fn counted(requests: &[Request]) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    let is_race = |request: &&Request| match request.verb.as_str() {
        "update" | "patch" | "delete" => !request.changed && matches!(request.code, 200..300 | 404 | 409),
        _ => request.code == 409,
    };
    let counted = requests.iter().filter(|request| !request.resource.starts_with("events") && !is_race(request));
    for request in counted {
        // How often a failed request is repeated depends on the time that the program needs for other things.
        let fails = request.code >= 500 && !request.changed;
        let reads = fails || matches!(request.verb.as_str(), "get" | "list" | "watch");
        let code = if reads { String::new() } else { format!(" {}", request.code) };
        let count: &mut u32 =
            counts.entry(format!("{} {} {}{code}", request.verb, request.resource, request.object)).or_default();
        *count = if reads { 1 } else { *count + 1 };
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(writes: &[&str]) -> Facts {
        let request = |object: &&str| Request {
            verb: "create".to_owned(),
            resource: "pods".to_owned(),
            object: (*object).to_owned(),
            code: 201,
            ..Request::default()
        };
        Facts { requests: writes.iter().map(request).collect(), ..Facts::default() }
    }

    #[test]
    fn order_does_not_count() {
        let same = Reference::new(vec![facts(&["a", "b"]), facts(&["b", "a"])], 1.0, true);
        assert_eq!(same.map(|reference| reference.divergence), Ok(None));
    }

    #[test]
    fn repetitions_of_failed_requests_do_not_count() {
        let run = |count: usize| {
            let failed = Request { code: 500, verb: "create".to_owned(), ..Request::default() };
            let mut run = facts(&["a"]);
            run.requests.extend(std::iter::repeat_n(failed, count));
            run
        };
        let same = Reference::new(vec![run(5), run(7)], 1.0, true);
        assert_eq!(same.map(|reference| reference.divergence), Ok(None));
    }

    #[test]
    fn runs_that_differ_are_refused_with_the_first_difference() {
        let runs = || vec![facts(&["a", "b", "c"]), facts(&["a", "b", "b", "c"])];
        let refused = Reference::new(runs(), 1.0, true).expect_err("they differ").to_string();
        assert!(refused.contains("75 % of the requests are the same in two runs without faults; the first difference: create pods b 201: 1 times in the first run, 2 times"), "{refused}");
        assert!(Reference::new(runs(), 0.7, true).is_ok());
    }

    #[test]
    fn programs_that_cannot_be_explored_say_what_to_add() {
        let exit = |reason: &str| {
            let exits = vec![super::super::job::RecordedExit {
                reason: reason.to_owned(),
                ..super::super::job::RecordedExit::default()
            }];
            Reference::new(vec![Facts { exits, ..facts(&["a"]) }], 1.0, true).expect_err("it ends").to_string()
        };
        assert!(
            exit("open /tmp/k8s-webhook-server/serving-certs/tls.crt: no such file").contains("ENABLE_WEBHOOKS=false")
        );
        assert!(exit("no matches for kind \"Widget\" in version \"x/v1\"").contains("--manifests"));
        assert!(exit("RELATED_IMAGE_WEB is not set").contains("--command-env"), "an image");
        let silent = Reference::new(vec![Facts::default()], 1.0, true).expect_err("it is silent").to_string();
        assert!(silent.contains("{kubeconfig}"), "{silent}");
        let late = Facts { late: vec!["t=+31m op PUT a".to_owned()], end: 2_400_000, ..facts(&["a"]) };
        let restless = Reference::new(vec![late], 1.0, true).expect_err("it never rests").to_string();
        assert!(
            restless.contains("still writes after 40 minutes") && restless.contains("--without quiet"),
            "{restless}"
        );
    }
}
