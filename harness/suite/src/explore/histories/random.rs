//! Random histories: fixtures that a seed generates, with nodes, owners, pods, budgets, and what happens to clusters:
//! taints, lost nodes, drains, evictions, rollouts, nodes out of service, wrong clocks. Pure.
//!
//! A history is written as the text of a fixture, so that it is shrunk and kept like any other.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use plumbline::fixture::{Fixture, Problem, parse};

use super::draw::Draw;

/// Begin of the ids of random histories: `random/17`.
const PREFIX: &str = "random/";
/// The head of each history. Rule and feature only satisfy the reader.
const HEAD: &str = "promise: A random history.\nrule: T-001\nlevel: provisional\nfeature: ttl.annotation\n";
/// Pods are tainted with these; the first one is often tolerated.
const TAINTS: [&str; 3] = ["k=v:NoExecute", "j=w:NoExecute", "node.kubernetes.io/unreachable:NoExecute"];
/// Times for which pods tolerate a taint, in seconds.
const TOLERATED: [u64; 5] = [0, 1, 30, 90, 600];
/// Largest number of steps.
const MOST_STEPS: u64 = 10;
/// Percentage of the kinds of step that can happen in a history.
const POSSIBLE: u64 = 35;
/// Percentage of steps that follow within a few seconds, while requests about the one before may be under way.
const HURRIED: u64 = 40;
/// Percentage of histories in which one object changes over and over.
const RESTLESS: u64 = 10;
/// Percentage of histories whose number of nodes is near one that changes their TTL.
const LARGE: u64 = 4;
/// The second replica set of a deployment in a rollout. Its pods have another label than those of the first one.
const NEW_SET: &str = "rs/next";
/// Percentage of deployments that are in a rollout.
const IN_ROLLOUT: u64 = 50;
/// Two custom kinds of one group, and an owner of each. The second one is served late.
const CUSTOM_KINDS: &str = "  crds: [{ kind: Gadget, group: apps.test.io }, { kind: Widget, group: apps.test.io }]\n";
const CUSTOM_OWNERS: [&str; 2] = ["gadget/web", "widget/web"];
/// Time after which the controllers look again for a kind that was not served, and a second more.
const REST_MAPPER: u64 = 31;
/// Percentage of histories in which the controllers stream their lists, as they do by default outside of the suite.
const STREAMED: u64 = 25;
/// Percentage of histories with several replicas, and of those the percentage with three.
const ELECTED: u64 = 3;
const THREE: u64 = 25;
/// Percentage of recreated pods that are deleted and created at the same instant.
const AT_ONCE: u64 = 25;
/// Percentage of the steps of these histories that change the number of nodes.
const RESIZED: u64 = 40;
/// Percentage of histories with each of [`SPARED_PODS`].
const SPARED: u64 = 25;
/// Pods that a careful engineer might leave alone and that the controllers treat like others. `NODE` is a node's name.
const SPARED_PODS: [&str; 5] = [
    "{ name: agent, node: NODE, owner: { apiVersion: apps/v1, kind: DaemonSet, name: agent, \
     uid: 8b1a3c5e-0000-4000-8000-00000000000a } }",
    "{ name: static, node: NODE, annotations: { kubernetes.io/config.mirror: x }, \
     owner: { apiVersion: v1, kind: Node, name: NODE, uid: 8b1a3c5e-0000-4000-8000-00000000000b } }",
    "{ name: system, namespace: kube-system, node: NODE, spec: { priorityClassName: system-node-critical, \
     priority: 2000001000 } }",
    "{ name: begins, node: NODE, phase: Pending, ready: none, \
     conditions: [\"DisruptionTarget=True:EvictionByEvictionAPI since -30s\"] }",
    "{ name: done, node: NODE, phase: Succeeded, ready: false }",
];
/// Percentage of histories with a budget that is deleted but held by a finalizer.
const HELD: u64 = 6;

/// A kind of step: what happens to a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Happening {
    Taint,
    Untaint,
    LoseOrAddNode,
    Drain,
    OutOfService,
    Rollout,
    Skew,
    Scale,
    CreatePod,
    ChangePod,
    RecreatePod,
    RecreateOwner,
    Bind,
    ChangeBudget,
    LoseNodeForAWhile,
    AnnounceAgain,
    ExchangeTaints,
    TolerateTheRest,
    ReplaceTaint,
    ScaleDeployment,
    ServeKind,
    QuietHours,
}

impl Happening {
    /// All kinds. Those that clusters see more often are listed several times. The order is part of what a seed means.
    const ALL: [Self; 27] = [
        Self::Taint,
        Self::Taint,
        Self::Untaint,
        Self::LoseOrAddNode,
        Self::LoseOrAddNode,
        Self::Drain,
        Self::OutOfService,
        Self::Rollout,
        Self::Skew,
        Self::Scale,
        Self::CreatePod,
        Self::ChangePod,
        Self::ChangePod,
        Self::ChangePod,
        Self::ChangePod,
        Self::RecreatePod,
        Self::RecreateOwner,
        Self::Bind,
        Self::ChangeBudget,
        Self::LoseNodeForAWhile,
        Self::AnnounceAgain,
        Self::ExchangeTaints,
        Self::TolerateTheRest,
        Self::ReplaceTaint,
        Self::ScaleDeployment,
        Self::ServeKind,
        Self::QuietHours,
    ];
}

/// Returns true if the id is that of a random history.
#[must_use]
pub fn is_random(id: &str) -> bool {
    id.starts_with(PREFIX)
}

/// Returns the random history of that id; `None` for other ids.
#[must_use]
pub fn find(id: &str) -> Option<Fixture> {
    id.strip_prefix(PREFIX)?.parse().ok().and_then(|seed| fixture(seed).ok())
}

/// Returns the text of the random history of that id, or of a beginning of it.
#[must_use]
pub fn text_of(id: &str) -> Option<String> {
    let seed = id.strip_prefix(PREFIX)?.split('~').next()?;
    seed.parse().ok().map(text)
}

/// A generated text that is no fixture, which is a bug of its generator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HistoryError {
    /// The text has this problem.
    #[error("{0}")]
    Problem(Box<Problem>),
    /// The text has no fixture.
    #[error("{} has no fixture", .0.display())]
    Empty(PathBuf),
}

/// Reads the only fixture of a generated text.
///
/// # Errors
///
/// Returns the first problem of the text.
pub fn read(file: &str, suite: &str, text: &str) -> Result<Fixture, HistoryError> {
    let (mut fixtures, problems) = parse::read(Path::new(file), suite, text);
    match problems.into_iter().next() {
        Some(problem) => Err(HistoryError::Problem(Box::new(problem))),
        None => fixtures.pop().ok_or_else(|| HistoryError::Empty(file.into())),
    }
}

/// Returns the random history of `seed`.
///
/// # Errors
///
/// See [`read`].
pub fn fixture(seed: u64) -> Result<Fixture, HistoryError> {
    let fixture = read("random.yaml", "faults", &text(seed))?;
    Ok(Fixture { id: format!("{PREFIX}{seed}"), ..fixture })
}

/// Returns the random history of `seed` as the text of a fixture.
#[must_use]
pub fn text(seed: u64) -> String {
    let mut history = RandomHistory::new(seed);
    let controllers = match history.draw.below(8) {
        0 => "[disruption]",
        1 => "[podgc]",
        2 => "[taint-eviction]",
        3 => "[taint-eviction, podgc]",
        _ => "[disruption, podgc, taint-eviction, ttl]",
    };
    let mut text = format!("{HEAD}controllers: {controllers}\n");
    let mut flags = Vec::new();
    if history.draw.chance(15) {
        flags.push(format!("terminated-pod-gc-threshold: {}", 1 + history.draw.below(3)));
    }
    // Drawn apart, so that what happens in a history does not depend on it.
    let mut form = Draw::new(&[seed, 3]);
    if form.chance(STREAMED) {
        flags.push("kube-api-content-type: application/vnd.kubernetes.protobuf".to_owned());
    }
    if !flags.is_empty() {
        let _ = writeln!(text, "flags: {{ {} }}", flags.join(", "));
    }
    if form.chance(ELECTED) {
        let _ = writeln!(text, "replicas: {}", 2 + u8::from(form.chance(THREE)));
    }
    // A retry of a budget that cannot be computed writes its failure again, as upstream.
    text.push_str("waive: { no_idle_writes: the failure of a budget is written again }\n");
    let mut unusual = Draw::new(&[seed, 4]);
    let has_held = unusual.chance(HELD);
    let given = history.given(&mut unusual, has_held);
    let _ = write!(text, "given:\n{given}steps:\n");
    if has_held {
        text.push_str("- { at: 1s, delete: pdb/held }\n");
    }
    let mut at = 0;
    for _ in 0..=history.draw.below(MOST_STEPS) {
        at += 1 + if history.draw.chance(HURRIED) { history.draw.below(4) } else { history.draw.below(60) };
        for (delay, action) in history.happening() {
            let _ = writeln!(text, "- {{ at: {}s, {action} }}", at + delay);
            at += delay;
        }
    }
    if history.large || history.draw.chance(RESTLESS) {
        for action in history.restless() {
            at += 1 + history.draw.below(4);
            let _ = writeln!(text, "- {{ at: {at}s, {action} }}");
        }
    }
    let _ = writeln!(text, "- {{ at: {}s, expect: {{ quiet: true }} }}", at + 1);
    text
}

/// The names that exist, as far as the history knows.
struct RandomHistory {
    draw: Draw,
    /// Nodes, and whether each exists.
    nodes: Vec<(String, bool)>,
    /// Pods with their owner and node.
    pods: Vec<(String, &'static str, String)>,
    /// The short form of each pod.
    forms: Vec<String>,
    owners: Vec<&'static str>,
    /// The short form of each owner.
    owner_forms: Vec<String>,
    /// True if there are custom kinds, of which the second one was never served.
    has_unserved: bool,
    /// True if the deployment has a second replica set.
    in_rollout: bool,
    /// Number of budgets.
    budgets: u64,
    /// The kinds of step that can happen. Each history has few, so that they meet more often.
    kinds: Vec<Happening>,
    /// True if the number of nodes is near one that changes their TTL.
    large: bool,
    /// Number of the next pod.
    next: u32,
}

/// An action and the seconds after the one before it.
type Timed = (u64, String);

impl RandomHistory {
    fn new(seed: u64) -> Self {
        let mut draw = Draw::new(&[seed]);
        let mut kinds: Vec<Happening> = Happening::ALL.into_iter().filter(|_| draw.chance(POSSIBLE)).collect();
        if kinds.is_empty() {
            kinds.extend(Happening::ALL);
        }
        Self {
            draw,
            kinds,
            nodes: Vec::new(),
            pods: Vec::new(),
            forms: Vec::new(),
            owners: Vec::new(),
            owner_forms: Vec::new(),
            has_unserved: false,
            in_rollout: false,
            budgets: 0,
            large: false,
            next: 1,
        }
    }

    /// Returns the objects at the begin. What `unusual` adds changes nothing of what happens later.
    fn given(&mut self, unusual: &mut Draw, has_held: bool) -> String {
        self.large = self.draw.chance(LARGE);
        let count = if self.large { 96 + self.draw.below(10) } else { 1 + self.draw.below(4) };
        let mut nodes = Vec::new();
        for number in 1..=count {
            let name = format!("n{number}");
            let taint = if self.draw.chance(20) { " k=v:NoExecute" } else { "" };
            nodes.push(format!("\"{name}{taint}\""));
            self.nodes.push((name, true));
        }
        let (mut owners, mut pods) = self.workloads();
        self.has_unserved = self.kinds.contains(&Happening::ServeKind);
        if self.has_unserved {
            owners.extend(CUSTOM_OWNERS.map(|owner| format!("\"{owner} × 2\"")));
        }
        for _ in 0..self.draw.below(3) {
            pods.push(self.new_pod(""));
        }
        for form in SPARED_PODS {
            if unusual.chance(SPARED) {
                let node = unusual.pick(&self.nodes).map_or("n1", |(name, _)| name.as_str());
                pods.push(form.replace("NODE", node));
            }
        }
        let mut budgets = self.budgets();
        if has_held {
            budgets.push("{ name: held, minAvailable: 1, matches: { app: web }, finalizers: [x.io/hold] }".to_owned());
        }
        let mut text = if self.has_unserved { CUSTOM_KINDS.to_owned() } else { String::new() };
        let _ = writeln!(text, "  nodes: [{}]", nodes.join(", "));
        for (field, items) in [("owners", owners), ("budgets", budgets), ("pods", pods)] {
            if !items.is_empty() {
                let _ = writeln!(text, "  {field}: [{}]", items.join(", "));
            }
        }
        text
    }

    fn workloads(&mut self) -> (Vec<String>, Vec<String>) {
        let mut owners = Vec::new();
        let mut pods = Vec::new();
        for (owner, percent) in [("rs/web", 70), ("sts/db", 30)] {
            if !self.draw.chance(percent) {
                continue;
            }
            let replicas = 1 + self.draw.below(4);
            if owner == "rs/web" && self.draw.chance(40) {
                owners.push(format!("\"deploy/web × {replicas}\""));
                owners.push(format!("\"rs/web × {replicas} of deploy/web\""));
            } else {
                owners.push(format!("\"{owner} × {replicas}\""));
            }
            self.owners.push(owner);
            self.owner_forms.push(owners.last().cloned().unwrap_or_default());
            for _ in 0..replicas {
                pods.push(self.new_pod(owner));
            }
            let has_deployment = owner == "rs/web" && owners.len() == 2;
            if has_deployment && self.draw.chance(IN_ROLLOUT) {
                self.in_rollout = true;
                owners.push(format!("\"{NEW_SET} × 1 of deploy/web\""));
                for _ in 0..=self.draw.below(2) {
                    pods.push(self.new_pod(NEW_SET));
                }
            }
        }
        (owners, pods)
    }

    fn budgets(&mut self) -> Vec<String> {
        let mut budgets = Vec::new();
        self.budgets = self.draw.below(3);
        for number in 1..=self.budgets {
            let app = match self.draw.below(10) {
                0 | 1 => "db",
                2 | 3 if self.in_rollout => "next",
                _ => "web",
            };
            let amount = match self.draw.below(4) {
                0 => format!("minAvailable {}", self.draw.below(4)),
                1 => format!("minAvailable {}%", 10 * self.draw.below(11)),
                2 => format!("maxUnavailable {}", self.draw.below(3)),
                _ => format!("maxUnavailable {}%", 10 * self.draw.below(11)),
            };
            budgets.push(format!("\"b{number} {amount} app={app}\""));
        }
        budgets
    }

    /// Returns the short form of a new pod.
    fn new_pod(&mut self, owner: &'static str) -> String {
        let name = format!("p{}", self.next);
        self.next += 1;
        let ready = if self.draw.chance(75) { "ready" } else { "unready" };
        let mut form = format!("{name} {ready}");
        if !owner.is_empty() {
            let _ = write!(form, " of {owner}");
        }
        let node = if self.draw.chance(90) { self.node() } else { String::new() };
        if !node.is_empty() {
            let _ = write!(form, " on {node}");
        }
        if self.draw.chance(40) {
            let seconds = self.draw.pick(&TOLERATED).copied().unwrap_or_default();
            form.push_str(if self.draw.chance(25) { " tolerating k=v" } else { " tolerating k" });
            if seconds > 0 {
                let _ = write!(form, " for {seconds}s");
            }
        }
        // Another taint, or the same one again: then the first toleration counts.
        if self.draw.chance(20) {
            let key = if self.draw.chance(70) { 'j' } else { 'k' };
            let limit = if self.draw.chance(30) { " for 60s" } else { "" };
            let _ = write!(form, " tolerating {key}{limit}");
        }
        if owner.is_empty() && self.draw.chance(50) {
            form.push_str(" app=web");
        }
        self.pods.push((name, owner, node));
        self.forms.push(format!("\"{form}\""));
        format!("\"{form}\"")
    }

    fn node(&mut self) -> String {
        self.draw.pick(&self.nodes).map(|(name, _)| name.clone()).unwrap_or_default()
    }

    fn pod(&mut self) -> Option<String> {
        self.draw.pick(&self.pods).map(|(name, ..)| name.clone())
    }

    /// Returns something that happens to a cluster.
    fn happening(&mut self) -> Vec<Timed> {
        let node = self.node();
        let now = |action: String| vec![(0, action)];
        if self.large && self.draw.chance(RESIZED) {
            return now(self.resize());
        }
        match self.draw.pick(&self.kinds).copied().unwrap_or(Happening::Taint) {
            Happening::Taint => {
                let taint = self.draw.pick(&TAINTS).copied().unwrap_or_default();
                now(format!("taint: {{ {node}: \"{taint}\" }}"))
            }
            Happening::Untaint => now(format!("untaint: {node}")),
            Happening::LoseOrAddNode => now(self.lose_or_add(&node)),
            Happening::Drain => self.drain(&node),
            Happening::OutOfService => self.out_of_service(&node),
            Happening::Rollout => self.rollout(),
            Happening::Skew => {
                let minutes = 1 + self.draw.below(5);
                let sign = if self.draw.chance(50) { '+' } else { '-' };
                now(format!("skew: {sign}{minutes}m"))
            }
            Happening::Scale => now(self.scale()),
            Happening::CreatePod => {
                let owner = self.owners.first().copied().unwrap_or_default();
                now(format!("create: {{ pods: [{}] }}", self.new_pod(owner)))
            }
            Happening::ChangePod => match self.pod() {
                Some(pod) => now(self.pod_change(&pod)),
                None => now(format!("create: {{ pods: [{}] }}", self.new_pod(""))),
            },
            Happening::RecreatePod => self.recreate_pod(),
            Happening::RecreateOwner => self.recreate_owner(),
            Happening::Bind => self.bind(&node),
            Happening::ChangeBudget => self.change_budget(),
            Happening::LoseNodeForAWhile => self.lose_for_a_while(&node),
            Happening::AnnounceAgain => self.announce_again(),
            Happening::ExchangeTaints => self.exchange_taints(&node),
            Happening::TolerateTheRest => self.tolerate_the_rest(&node),
            Happening::ReplaceTaint => self.replace_taint(&node),
            Happening::ScaleDeployment => self.scale_deployment(),
            Happening::ServeKind => self.serve_kind(),
            Happening::QuietHours => self.quiet_hours(&node),
        }
    }

    /// Scales an owner. Without one, creates a pod.
    fn scale(&mut self) -> String {
        let Some(owner) = self.owners.first().copied() else {
            return format!("create: {{ pods: [{}] }}", self.new_pod(""));
        };
        let is_of_deployment = self.owner_forms.first().is_some_and(|form| form.contains("of deploy/"));
        let scaled = if is_of_deployment { "deploy/web" } else { owner };
        format!("scale: {{ {scaled}: {} }}", self.draw.below(6))
    }

    /// Scales a deployment, on which the budgets of the pods of all its replica sets depend.
    fn scale_deployment(&mut self) -> Vec<Timed> {
        let has_deployment = self.owner_forms.first().is_some_and(|form| form.contains("of deploy/"));
        if !has_deployment {
            return vec![(0, self.scale())];
        }
        vec![(0, format!("scale: {{ deploy/web: {} }}", self.draw.below(6)))]
    }

    /// Withdraws a custom kind before the controllers look for one of its group, serves it again, and creates a pod
    /// whose owner is of that kind.
    fn serve_kind(&mut self) -> Vec<Timed> {
        if !std::mem::take(&mut self.has_unserved) {
            return self.recreate_pod();
        }
        let serves = |value: bool| {
            let served = format!("{{ op: replace, path: /spec/versions/0/served, value: {value} }}");
            format!("patch: {{ object: customresourcedefinitions/widgets.apps.test.io, json: [{served}] }}")
        };
        let [first, second] = CUSTOM_OWNERS.map(|owner| format!("create: {{ pods: [{}] }}", self.new_pod(owner)));
        vec![
            (0, serves(false)),
            (1 + self.draw.below(40), first),
            (1 + self.draw.below(20), serves(true)),
            (REST_MAPPER + self.draw.below(60), second),
        ]
    }

    /// Changes one node, lets the server forget its past, and goes on after hours in which watches time out and their
    /// bookmarks are all that comes.
    fn quiet_hours(&mut self, node: &str) -> Vec<Timed> {
        let annotate = |value: &str| format!("annotate: {{ nodes/{node}: {{ seen: \"{value}\" }} }}");
        let minutes = 20 + self.draw.below(160);
        let mut steps = vec![(0, annotate("before"))];
        if self.draw.chance(60) {
            steps.push((1 + self.draw.below(300), "compact: now".to_owned()));
        }
        steps.push((60 * minutes, annotate("after")));
        steps
    }

    /// Replaces all taints of a node in one update, after a while by one that differs in value or effect alone.
    fn replace_taint(&mut self, node: &str) -> Vec<Timed> {
        let taint = |key: &str, value: &str, effect: &str| {
            let taint = format!("{{ key: {key}, value: {value}, effect: {effect} }}");
            format!("update: {{ nodes/{node}: {{ spec: {{ taints: [{taint}] }} }} }}")
        };
        let (value, effect) = if self.draw.chance(60) { ("w", "NoExecute") } else { ("v", "NoSchedule") };
        let mut both = [taint("k", "v", "NoExecute"), taint("k", value, effect)];
        if self.draw.chance(40) {
            both.reverse();
        }
        let [first, second] = both;
        vec![(0, first), (1 + self.draw.below(40), second)]
    }

    /// Deletes a pod and creates another of its name, like a stateful set.
    fn recreate_pod(&mut self) -> Vec<Timed> {
        let Some(form) = self.draw.pick(&self.forms).cloned() else { return self.rollout() };
        let name = form.trim_matches('"').split(' ').next().unwrap_or_default().to_owned();
        let deletion = format!("delete: {{ object: pods/{name}, grace: 0 }}");
        let other = self.node();
        let old = form.split_once(" on ").and_then(|(_, rest)| rest.split([' ', '"']).next());
        let form = match old.filter(|_| self.draw.chance(50) && !other.is_empty()) {
            Some(old) => form.replacen(&format!(" on {old}"), &format!(" on {other}"), 1),
            None => form.clone(),
        };
        let pause = if self.draw.chance(AT_ONCE) { 0 } else { self.draw.below(40) };
        vec![(0, deletion), (pause, format!("create: {{ pods: [{form}] }}"))]
    }

    /// Deletes an owner and, in most cases, creates another of its name. Its pods stay and change, since the deletion
    /// of an owner alone leads to no sync.
    fn recreate_owner(&mut self) -> Vec<Timed> {
        let Some(form) = self.draw.pick(&self.owner_forms).cloned() else { return self.recreate_pod() };
        let name = form.trim_matches('"').split(' ').next().unwrap_or_default().to_owned();
        let mut steps = vec![(0, format!("delete: {{ object: {name}, propagation: Background }}"))];
        if self.draw.chance(70) {
            steps.push((self.draw.below(30), format!("create: {{ owners: [{form}] }}")));
        }
        let pods = self.pods.iter().filter(|(_, owner, _)| *owner == name);
        steps.extend(pods.map(|(pod, ..)| (1, format!("annotate: {{ pods/{pod}: {{ seen: \"{}\" }} }}", self.next))));
        steps
    }

    /// Announces the disruption of a pod, and once more about the time at which the first announcement becomes stale.
    fn announce_again(&mut self) -> Vec<Timed> {
        let Some(pod) = self.pod() else { return self.recreate_pod() };
        let condition = |reason: &str| format!("condition: {{ pods/{pod}: \"DisruptionTarget=True:{reason}\" }}");
        let again = 95 + self.draw.below(35);
        vec![(0, condition("PreemptionByScheduler")), (again, condition("TerminationByKubelet"))]
    }

    /// Creates a pod that is bound a little later.
    fn bind(&mut self, node: &str) -> Vec<Timed> {
        let name = format!("p{}", self.next);
        self.next += 1;
        let tolerates = if self.draw.chance(50) { " tolerating k for 30s" } else { "" };
        let form = format!("\"{name} unready app=web{tolerates}\"");
        self.pods.push((name.clone(), "", node.to_owned()));
        let bind = format!("bind: {{ pods/{name}: {node} }}");
        vec![(0, format!("create: {{ pods: [{form}] }}")), (1 + self.draw.below(20), bind)]
    }

    /// Changes the selector or the numbers of a budget.
    fn change_budget(&mut self) -> Vec<Timed> {
        if self.budgets == 0 {
            return vec![(0, "create: { budgets: [\"b1 maxUnavailable 1 app=web\"] }".to_owned())];
        }
        let number = 1 + self.draw.below(self.budgets);
        let change = match self.draw.below(4) {
            0 => format!("update: {{ pdb/b{number}: {{ spec: {{ selector: {{ matchLabels: {{ app: db }} }} }} }} }}"),
            1 => {
                format!("update: {{ pdb/b{number}: {{ spec: {{ selector: {{ matchLabels: {{ app: other }} }} }} }} }}")
            }
            2 => format!("update: {{ pdb/b{number}: {{ spec: {{ selector: {{ matchLabels: {{ app: web }} }} }} }} }}"),
            _ => format!("delete: pdb/b{number}"),
        };
        vec![(0, change)]
    }

    /// Deletes a node that exists and creates it again, before or after the pods on it are collected.
    fn lose_for_a_while(&mut self, node: &str) -> Vec<Timed> {
        if !self.nodes.iter().any(|(name, exists)| name == node && *exists) {
            return self.recreate_pod();
        }
        let taint = if self.draw.chance(30) { " k=v:NoExecute" } else { "" };
        let again = format!("create: {{ nodes: [\"{node}{taint}\"] }}");
        vec![(0, format!("delete: nodes/{node}")), (self.draw.below(90), again)]
    }

    /// Changes one object again and again: a pod that becomes ready and unready, the annotations of a node.
    fn restless(&mut self) -> Vec<String> {
        let node = self.node();
        let pod = self.pod();
        let of_node = |number: u64| format!("annotate: {{ nodes/{node}: {{ heartbeat: \"{number}\" }} }}");
        match pod {
            Some(pod) if !self.large && self.draw.chance(60) => (0..20_u64)
                .map(|number| format!("{}: pods/{pod}", if number.is_multiple_of(2) { "unready" } else { "ready" }))
                .collect(),
            _ => (0..30).map(of_node).collect(),
        }
    }

    fn pod_change(&mut self, pod: &str) -> String {
        match self.draw.below(9) {
            0 => match self.draw.below(4) {
                0 => format!("evict: {{ pod: {pod}, dryRun: true }}"),
                1 => format!("evict: {{ pod: {pod}, resourceVersion: current }}"),
                _ => format!("evict: {pod}"),
            },
            // An announced disruption that does not happen becomes stale, and so does a granted eviction.
            7 => format!("condition: {{ pods/{pod}: \"DisruptionTarget=True:PreemptionByScheduler\" }}"),
            8 => format!("update: {{ pdb/b1/status: {{ status: {{ disruptedPods: {{ {pod}: now }} }} }} }}"),
            1 => format!("delete: pods/{pod}"),
            2 => format!("unready: pods/{pod}"),
            3 => format!("ready: pods/{pod}"),
            4 => format!("phase: {{ pods/{pod}: Failed }}"),
            5 => format!("label: {{ pods/{pod}: {{ app: other }} }}"),
            _ => format!("label: {{ pods/{pod}: {{ app: web }} }}"),
        }
    }

    /// Deletes or creates nodes again, several at once.
    fn resize(&mut self) -> String {
        let many = 4 + self.draw.below(10);
        let removes = self.draw.chance(60);
        let mut names = Vec::new();
        for (name, exists) in self.nodes.iter_mut().filter(|(_, exists)| *exists == removes) {
            if names.len() as u64 == many {
                break;
            }
            *exists = !removes;
            names.push(name.as_str());
        }
        match (names.is_empty(), removes) {
            (true, _) => "compact: now".to_owned(),
            (_, true) => format!("delete: [nodes/{}]", names.join(", nodes/")),
            (_, false) => format!("create: {{ nodes: [{}] }}", names.join(", ")),
        }
    }

    /// Puts two taints on a node and removes one of them a little later.
    fn exchange_taints(&mut self, node: &str) -> Vec<Timed> {
        let gone = if self.draw.chance(60) { 'k' } else { 'j' };
        let other = if self.draw.chance(30) { "l:NoSchedule" } else { "j=w:NoExecute" };
        vec![
            (0, format!("taint: {{ {node}: \"k=v:NoExecute\" }}")),
            (self.draw.below(20), format!("taint: {{ {node}: \"{other}\" }}")),
            (self.draw.below(20), format!("untaint: {{ {node}: {gone} }}")),
        ]
    }

    /// Taints a node so that a new pod on it may stay for a while, and before its time is over replaces the taint by
    /// one that the pod tolerates without a limit.
    fn tolerate_the_rest(&mut self, node: &str) -> Vec<Timed> {
        let name = format!("p{}", self.next);
        self.next += 1;
        let seconds = if self.draw.chance(50) { 30 } else { 90 };
        let form = format!("\"{name} ready on {node} tolerating k for {seconds}s tolerating j\"");
        self.pods.push((name, "", node.to_owned()));
        self.forms.push(form.clone());
        vec![
            (0, format!("create: {{ pods: [{form}] }}")),
            (1, format!("taint: {{ {node}: \"k=v:NoExecute\" }}")),
            (self.draw.below(10), format!("taint: {{ {node}: \"j=w:NoExecute\" }}")),
            (1 + self.draw.below(15), format!("untaint: {{ {node}: k }}")),
        ]
    }

    fn lose_or_add(&mut self, node: &str) -> String {
        let Some((_, exists)) = self.nodes.iter_mut().find(|(name, _)| name == node) else { return String::new() };
        *exists = !*exists;
        if *exists { format!("create: {{ nodes: [{node}] }}") } else { format!("delete: nodes/{node}") }
    }

    fn drain(&mut self, node: &str) -> Vec<Timed> {
        let mut steps = vec![(0, format!("taint: {{ {node}: \"drain:NoSchedule\" }}"))];
        for (pod, ..) in self.pods.iter().filter(|(.., on)| on == node) {
            steps.push((self.draw.below(5), format!("evict: {pod}")));
        }
        steps
    }

    fn out_of_service(&mut self, node: &str) -> Vec<Timed> {
        let mut steps = vec![(0, format!("unready: nodes/{node}"))];
        for (pod, ..) in self.pods.iter().filter(|(.., on)| on == node).take(2) {
            steps.push((1, format!("delete: pods/{pod}")));
        }
        let taint = "node.kubernetes.io/out-of-service=x:NoExecute";
        steps.push((self.draw.below(30), format!("taint: {{ {node}: \"{taint}\" }}")));
        steps
    }

    /// Replaces up to two pods of an owner, one after another.
    fn rollout(&mut self) -> Vec<Timed> {
        let old: Vec<_> = self.pods.iter().filter(|(_, owner, _)| !owner.is_empty()).take(2).cloned().collect();
        let mut steps = Vec::new();
        for (pod, owner, _) in old {
            let new = self.new_pod(owner);
            steps.push((self.draw.below(10), format!("create: {{ pods: [{new}] }}")));
            steps.push((self.draw.below(10), format!("delete: pods/{pod}")));
        }
        if steps.is_empty() { vec![(0, "compact: now".to_owned())] } else { steps }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_history_is_a_well_formed_fixture() {
        for seed in 0..300 {
            if let Err(problem) = fixture(seed) {
                panic!("random/{seed}: {problem}\n{}", text(seed));
            }
        }
    }

    #[test]
    fn an_id_names_one_history() {
        let history = find("random/7").expect("a history");
        assert_eq!((history.id.as_str(), text_of("random/7~2")), ("random/7", Some(text(7))));
        assert_ne!(text(7), text(8));
        assert_eq!(find("podgc/7"), None);
    }
}
