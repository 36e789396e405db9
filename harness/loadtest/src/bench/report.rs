//! Measurements with targets and reference values of kube-apiserver with etcd, as a table and as JSON.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use super::load_shape::LoadShape;

/// Version of [`BenchReport`] in JSON. Fields may be added within a version; none changes its meaning.
pub const API_VERSION: &str = "plumbline/v1";

/// A measurement of one server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BenchReport {
    /// [`API_VERSION`].
    pub api_version: String,
    /// `ServerBenchmark`.
    pub kind: String,
    /// The measured server: `plumbline serve`, or the kubeconfig of another server.
    pub server: String,
    /// Processors of the machine, shared by the server and the clients.
    pub processors: usize,
    /// Size of the load.
    pub shape: LoadShape,
    /// The measurements.
    pub rows: Vec<Measurement>,
    /// The same measurement with other sizes of the load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<Self>,
}

/// Units of measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Pieces of work per second.
    PerSecond,
    /// Bytes.
    Bytes,
    /// A plain number.
    Count,
}

/// A measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Measurement {
    /// The name.
    pub name: String,
    /// Unit of `measured`, `target` and `reference`.
    pub unit: Unit,
    /// The measured value.
    pub measured: f64,
    /// Upper limit, or lower limit for rates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<f64>,
    /// Factor by which the target is beaten; below 1 the target is missed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times_target: Option<f64>,
    /// Value of kube-apiserver with etcd (fsync off) on two cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<f64>,
    /// Factor by which the reference is beaten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times_reference: Option<f64>,
}

impl Measurement {
    /// Creates a row without a target.
    pub fn new(name: impl Into<String>, unit: Unit, measured: f64) -> Self {
        let name = name.into();
        Self { name, unit, measured, target: None, times_target: None, reference: None, times_reference: None }
    }

    /// Sets the target.
    #[must_use]
    pub fn wanted(mut self, target: f64) -> Self {
        self.target = Some(target);
        self.times_target = Some(self.times(target));
        self
    }

    /// Sets the reference value.
    #[must_use]
    pub fn beside(mut self, reference: f64) -> Self {
        self.reference = Some(reference);
        self.times_reference = Some(self.times(reference));
        self
    }

    /// Returns true if the target is reached, or there is none.
    pub fn is_reached(&self) -> bool {
        self.times_target.is_none_or(|times| times >= 1.0)
    }

    fn times(&self, other: f64) -> f64 {
        // Higher is better for rates only. Avoids a division by zero.
        let least = f64::MIN_POSITIVE;
        if self.unit == Unit::PerSecond { self.measured / other.max(least) } else { other / self.measured.max(least) }
    }
}

impl BenchReport {
    /// Returns the rows that missed their targets.
    pub fn missed(&self) -> impl Iterator<Item = &Measurement> {
        self.rows.iter().filter(|row| !row.is_reached())
    }

    /// Prints one line per row.
    ///
    /// # Errors
    ///
    /// Returns an error if `out` cannot be written.
    pub fn table(&self, out: &mut impl Write) -> io::Result<()> {
        let LoadShape { pods, nodes, budgets, watchers, rate, .. } = self.shape;
        writeln!(
            out,
            "{} · {pods} pods, {nodes} nodes, {budgets} budgets · {} · {watchers} watchers at {rate} writes/s · {} processors, shared with the clients",
            self.server,
            self.shape.writers(),
            self.processors
        )?;
        let width = self.rows.iter().map(|row| row.name.chars().count()).max().unwrap_or_default();
        writeln!(
            out,
            "{:<width$}  {:>12}  {:>12}  {:>8}  {:>14}  {:>8}",
            "", "measured", "target", "×", "kube-apiserver", "×"
        )?;
        for row in &self.rows {
            let cell = |value: Option<f64>| value.map_or_else(String::new, |value| tell(value, row.unit));
            let times = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.2}"));
            let line = format!(
                "{:<width$}  {:>12}  {:>12}  {:>8}  {:>14}  {:>8}",
                row.name,
                tell(row.measured, row.unit),
                cell(row.target),
                times(row.times_target),
                cell(row.reference),
                times(row.times_reference),
            );
            writeln!(out, "{}", line.trim_end())?;
        }
        for report in &self.sizes {
            writeln!(out)?;
            report.table(out)?;
        }
        Ok(())
    }
}

/// Formats a value with its unit.
pub(crate) fn tell(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Seconds if value < 0.001 => format!("{:.0} µs", value * 1e6),
        Unit::Seconds if value < 0.1 => format!("{:.2} ms", value * 1e3),
        Unit::Seconds if value < 1.0 => format!("{:.0} ms", value * 1e3),
        Unit::Seconds => format!("{value:.2} s"),
        Unit::PerSecond => format!("{value:.0}/s"),
        Unit::Bytes if value < 1e6 => format!("{value:.0} B"),
        Unit::Bytes if value < 1e9 => format!("{:.0} MB", value / 1e6),
        Unit::Bytes => format!("{:.2} GB", value / 1e9),
        Unit::Count => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn better_is_more_for_rates_and_less_for_the_rest() {
        let fast = Measurement::new("rate", Unit::PerSecond, 900.0).wanted(600.0).beside(90.0);
        assert_eq!((fast.times_target, fast.times_reference), (Some(1.5), Some(10.0)));
        assert!(fast.is_reached());
        let slow = Measurement::new("time", Unit::Seconds, 4.0).wanted(2.0);
        assert_eq!(slow.times_target, Some(0.5));
        assert!(!slow.is_reached());
        assert!(Measurement::new("size", Unit::Bytes, 4.0).is_reached());
    }

    #[test]
    fn the_table_and_the_document_say_the_same() {
        let report = BenchReport {
            api_version: API_VERSION.to_owned(),
            kind: "ServerBenchmark".to_owned(),
            server: "plumbline serve".to_owned(),
            processors: 2,
            shape: LoadShape::default(),
            rows: vec![
                Measurement::new("a list", Unit::Seconds, 0.75).wanted(1.5),
                Measurement::new("memory", Unit::Bytes, 2.5e9),
            ],
            sizes: Vec::new(),
        };
        let mut table = Vec::new();
        report.table(&mut table).unwrap();
        let table = String::from_utf8(table).unwrap();
        let line = table.lines().find(|line| line.starts_with("a list")).unwrap();
        assert_eq!(line.split_whitespace().collect::<Vec<_>>(), ["a", "list", "750", "ms", "1.50", "s", "2.00"]);
        assert!(table.ends_with("2.50 GB\n"), "{table}");
        let json = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<BenchReport>(&json).unwrap(), report);
    }
}
