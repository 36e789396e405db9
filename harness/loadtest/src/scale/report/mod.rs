//! Measurements as a table and as a versioned JSON document. PURE.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use crate::bench::report::{Unit, tell};

/// Version of [`ScaleReport`] in JSON. Fields may be added within a version; none changes its meaning.
pub const API_VERSION: &str = "plumbline/v1";
/// `kind` of [`ScaleReport`].
pub const KIND: &str = "ScaleReport";

/// A measurement of one subject, or of two in turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScaleReport {
    /// [`API_VERSION`].
    pub api_version: String,
    /// [`KIND`].
    pub kind: String,
    /// The cluster: `fake`, `envtest`, …
    pub cluster: String,
    /// The Kubernetes version that its API server has or emulates.
    pub kubernetes_version: String,
    /// Processors of the machine, shared by subject, server and load.
    pub processors: usize,
    /// Size of the cluster.
    pub shape: ClusterShape,
    /// The measured subjects, in order.
    pub subjects: Vec<SubjectReport>,
    /// The first subject compared with the second, or with the reference.
    pub comparisons: Vec<MeasureComparison>,
    /// The same measurement on clusters of other sizes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<Self>,
}

/// Size of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterShape {
    /// Nodes.
    pub nodes: usize,
    /// Pods, all ready, each with a replica set.
    pub pods: usize,
    /// Replica sets, each with a budget of `maxUnavailable: 10%`.
    pub budgets: usize,
    /// Namespaces.
    pub namespaces: usize,
    /// Percentage of the nodes or replica sets that a scenario affects; drain uses a tenth of it.
    pub share: usize,
}

impl Default for ClusterShape {
    fn default() -> Self {
        Self { nodes: 5_000, pods: 150_000, budgets: 3_000, namespaces: 10, share: 10 }
    }
}

impl ClusterShape {
    /// Returns the shape of a cluster with this percentage of the nodes, pods and budgets.
    #[must_use]
    pub fn percent(self, percent: usize) -> Self {
        let part = |count: usize| (count * percent / 100).max(1);
        let Self { nodes, pods, budgets, .. } = self;
        Self { nodes: part(nodes), pods: part(pods), budgets: part(budgets), ..self }
    }
}

/// Changes that are made to a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Scenario {
    /// The subject starts: until every budget has its status and every node its annotation. Always comes first
    Start,
    /// Pods of a share of the replica sets are replaced: until every budget has its status again
    RollingRestart,
    /// Nodes are drained one after the other through the budgets: until the last pod is evicted
    Drain,
    /// A share of the nodes gets a `NoExecute` taint: until the last pod's deletion has begun
    TaintStorm,
    /// A share of the nodes is deleted: until the last of their pods is gone, quarantine included
    NodeLoss,
}

impl Scenario {
    /// Returns its name as in the flag.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::RollingRestart => "rolling-restart",
            Self::Drain => "drain",
            Self::TaintStorm => "taint-storm",
            Self::NodeLoss => "node-loss",
        }
    }
}

/// The results of one subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubjectReport {
    /// Its name.
    pub name: String,
    /// Its command line.
    pub command: String,
    /// The scenarios in the order in which they ran, in one process of the subject.
    pub scenarios: Vec<ScenarioResult>,
    /// The cost of a budget's sync in namespaces of several sizes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curve: Vec<CurvePoint>,
}

/// The results of one scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScenarioResult {
    /// The scenario.
    pub scenario: Scenario,
    /// The objects left at the time limit, if it did not finish.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
    /// Duration in seconds.
    pub seconds: f64,
    /// CPU time of the subject in seconds, in user and kernel mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<f64>,
    /// Peak resident memory of the subject during the scenario, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_bytes: Option<u64>,
    /// Resident memory of the subject at the end, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident_bytes: Option<u64>,
    /// CPU time of the server in seconds, if it is our own process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_cpu_seconds: Option<f64>,
    /// Requests of the subject (all requests without those of the load), as counted by the server.
    pub calls: Vec<CallCount>,
    /// The reason if `calls` is empty or incomplete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls_unknown: Option<String>,
    /// Additional numbers.
    pub details: Vec<Detail>,
}

/// Requests of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CallCount {
    /// The verb in the server's metrics: `GET`, `LIST`, `WATCH`, `POST`, `PUT`, `PATCH`, `DELETE`, …
    pub verb: String,
    /// Plural name, with subresource.
    pub resource: String,
    /// Number of requests.
    pub count: u64,
}

/// An additional number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Detail {
    /// The name.
    pub name: String,
    /// Unit of `value`.
    pub unit: Unit,
    /// The value.
    pub value: f64,
}

/// The cost of a budget's sync in a namespace of one size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CurvePoint {
    /// Pods of the namespace.
    pub pods: usize,
    /// Pods of each budget.
    pub pods_of_budget: usize,
    /// Number of syncs.
    pub syncs: usize,
    /// CPU time of the subject per sync, in seconds.
    pub cpu_seconds: f64,
    /// Median time from the change of a budget to its status, in seconds.
    pub seconds: f64,
}

/// Compared measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Seconds until the end.
    Time,
    /// CPU time in seconds.
    Cpu,
    /// Highest resident memory, in bytes.
    Memory,
}

/// A measure of the first subject compared with another value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MeasureComparison {
    /// The scenario.
    pub scenario: Scenario,
    /// The measure.
    pub measure: Measure,
    /// Value of the first subject.
    pub measured: f64,
    /// Value to compare with.
    pub other: f64,
    /// `measured / other`.
    pub ratio: f64,
    /// Maximum of `ratio`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<f64>,
    /// Source of `other`: the second subject's name, or [`REFERENCE`].
    pub beside: String,
}

impl MeasureComparison {
    /// Returns true if the target is missed.
    #[must_use]
    pub fn is_missed(&self) -> bool {
        self.target.is_some_and(|target| self.ratio > target)
    }
}

/// Source of the reference values that are used without a second subject: measured on two cores with kube-apiserver and
/// etcd instead of the fake server.
pub const REFERENCE: &str = "kube-controller-manager 1.36 on 2 cores, with kube-apiserver and etcd";

/// Maximum ratios to kube-controller-manager in the same run.
const TARGETS: [(Scenario, Measure, f64); 4] = [
    (Scenario::Start, Measure::Memory, 0.1),
    (Scenario::Start, Measure::Time, 0.5),
    (Scenario::Start, Measure::Cpu, 0.25),
    (Scenario::TaintStorm, Measure::Time, 0.5),
];

/// Values of kube-controller-manager for [`ClusterShape::default`].
const REFERENCES: [(Scenario, Measure, f64); 5] = [
    (Scenario::Start, Measure::Time, 33.0),
    (Scenario::Start, Measure::Cpu, 46.0),
    (Scenario::Start, Measure::Memory, 2.11e9),
    (Scenario::TaintStorm, Measure::Time, 65.0),
    (Scenario::TaintStorm, Measure::Memory, 2.8e9),
];

const MEASURES: [Measure; 3] = [Measure::Time, Measure::Cpu, Measure::Memory];

impl ScenarioResult {
    fn value(&self, measure: Measure) -> Option<f64> {
        match measure {
            Measure::Time => self.left.is_none().then_some(self.seconds),
            Measure::Cpu => self.cpu_seconds,
            Measure::Memory => self.peak_bytes.map(|bytes| bytes as f64),
        }
    }
}

impl SubjectReport {
    fn value(&self, scenario: Scenario, measure: Measure) -> Option<f64> {
        self.scenarios.iter().find(|measured| measured.scenario == scenario)?.value(measure)
    }
}

/// Compares the first of `subjects` with the second, or with the reference if there is only one and `shape` is that of
/// the reference.
#[must_use]
pub fn compare(shape: ClusterShape, subjects: &[SubjectReport]) -> Vec<MeasureComparison> {
    let Some((first, others)) = subjects.split_first() else { return Vec::new() };
    let second = others.first();
    let reference = |scenario, measure| {
        let found = REFERENCES.iter().find(|(s, m, _)| *s == scenario && *m == measure);
        found.map(|(_, _, value)| *value).filter(|_| shape == ClusterShape::default())
    };
    let mut comparisons = Vec::new();
    for measured in &first.scenarios {
        let scenario = measured.scenario;
        for measure in MEASURES {
            let (other, beside) = match second {
                Some(second) => (second.value(scenario, measure), second.name.as_str()),
                None => (reference(scenario, measure), REFERENCE),
            };
            let (Some(measured), Some(other)) = (measured.value(measure), other) else { continue };
            let target = TARGETS.iter().find(|(s, m, _)| *s == scenario && *m == measure).map(|(_, _, target)| *target);
            let ratio = measured / other.max(f64::MIN_POSITIVE);
            let beside = beside.to_owned();
            comparisons.push(MeasureComparison { scenario, measure, measured, other, ratio, target, beside });
        }
    }
    comparisons
}

impl ScaleReport {
    /// The targets that were missed.
    pub fn missed(&self) -> impl Iterator<Item = &MeasureComparison> {
        self.comparisons.iter().filter(|comparison| comparison.is_missed())
    }

    /// Returns the scenarios that did not finish, with their subjects.
    pub fn unfinished(&self) -> impl Iterator<Item = (&SubjectReport, &ScenarioResult)> {
        let of = |subject| move |measured| (subject, measured);
        self.subjects
            .iter()
            .flat_map(move |subject: &SubjectReport| subject.scenarios.iter().map(of(subject)))
            .filter(|(_, measured): &(&SubjectReport, &ScenarioResult)| measured.left.is_some())
    }

    /// Prints the table.
    ///
    /// # Errors
    ///
    /// Returns an error if `out` cannot be written.
    pub fn table(&self, out: &mut impl Write) -> io::Result<()> {
        let ClusterShape { nodes, pods, budgets, namespaces, .. } = self.shape;
        let shape = format!("{nodes} nodes, {pods} pods, {budgets} budgets in {namespaces} namespaces · ");
        // The curve uses its own sizes.
        let shape = if self.subjects.iter().any(|subject| !subject.scenarios.is_empty()) { &shape } else { "" };
        let Self { cluster, kubernetes_version, processors, .. } = self;
        writeln!(out, "{shape}{cluster} {kubernetes_version} · {processors} processors, shared")?;
        for subject in &self.subjects {
            writeln!(out, "\n{}  ({})", subject.name, subject.command)?;
            if !subject.scenarios.is_empty() {
                let head = ["", "time", "CPU", "peak memory", "final memory", "server CPU"];
                line(out, head.map(str::to_owned))?;
            }
            for measured in &subject.scenarios {
                row(out, measured)?;
            }
            curve(out, &subject.curve)?;
        }
        self.comparison(out)?;
        for report in &self.sizes {
            writeln!(out)?;
            report.table(out)?;
        }
        Ok(())
    }

    fn comparison(&self, out: &mut impl Write) -> io::Result<()> {
        let Some(first) = self.comparisons.first() else { return Ok(()) };
        writeln!(out, "\ncompared with {}", first.beside)?;
        for comparison in &self.comparisons {
            let MeasureComparison { scenario, measure, measured, other, ratio, target, .. } = comparison;
            let (what, unit) = match measure {
                Measure::Time => ("time", Unit::Seconds),
                Measure::Cpu => ("CPU", Unit::Seconds),
                Measure::Memory => ("peak memory", Unit::Bytes),
            };
            let verdict = match target {
                Some(target) if comparison.is_missed() => format!("target {target:.2} missed"),
                Some(target) => format!("target {target:.2} reached"),
                None => String::new(),
            };
            let cells = [tell(*measured, unit), tell(*other, unit), format!("{ratio:.3}")];
            let [measured, other, ratio] = cells;
            let name = format!("{} {what}", scenario.as_str());
            let text = format!("{name:<30} {measured:>12} {other:>12} {ratio:>8}  {verdict}");
            writeln!(out, "{}", text.trim_end())?;
        }
        Ok(())
    }
}

fn line(out: &mut impl Write, cells: [String; 6]) -> io::Result<()> {
    let [name, rest @ ..] = cells;
    let text = rest.iter().fold(format!("{name:<16}"), |text, cell| format!("{text} {cell:>18}"));
    writeln!(out, "{}", text.trim_end())
}

fn row(out: &mut impl Write, measured: &ScenarioResult) -> io::Result<()> {
    let seconds = |value: Option<f64>| value.map_or_else(|| "?".to_owned(), |value| tell(value, Unit::Seconds));
    let bytes = |value: Option<u64>| value.map_or_else(|| "?".to_owned(), |value| tell(value as f64, Unit::Bytes));
    line(
        out,
        [
            measured.scenario.as_str().to_owned(),
            tell(measured.seconds, Unit::Seconds),
            seconds(measured.cpu_seconds),
            bytes(measured.peak_bytes),
            bytes(measured.resident_bytes),
            seconds(measured.server_cpu_seconds),
        ],
    )?;
    if let Some(left) = &measured.left {
        writeln!(out, "    did not finish: {left}")?;
    }
    for Detail { name, unit, value } in &measured.details {
        writeln!(out, "    {name}: {}", tell(*value, *unit))?;
    }
    let calls = measured.calls.iter().map(|CallCount { verb, resource, count }| format!("{count} {verb} {resource}"));
    let calls = calls.collect::<Vec<_>>().join(", ");
    if !calls.is_empty() {
        writeln!(out, "    calls: {calls}")?;
    }
    if let Some(why) = &measured.calls_unknown {
        writeln!(out, "    calls: {why}")?;
    }
    Ok(())
}

fn curve(out: &mut impl Write, points: &[CurvePoint]) -> io::Result<()> {
    if points.is_empty() {
        return Ok(());
    }
    writeln!(out, "a budget's sync in one namespace:")?;
    for CurvePoint { pods, pods_of_budget, syncs, cpu_seconds, seconds } in points {
        let cpu = tell(*cpu_seconds, Unit::Seconds);
        let time = tell(*seconds, Unit::Seconds);
        let name = format!("{pods} pods");
        writeln!(
            out,
            "    {name:<12} {pods_of_budget} per budget: {cpu} CPU, {time} until the status ({syncs} syncs)"
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
