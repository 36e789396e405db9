//! Process metrics that every Prometheus client library exposes, from `/proc`; empty on systems other than Linux.

use std::fs;
use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Process metrics, updated by [`Self::refresh`].
#[derive(Clone, Debug, Default)]
pub(super) struct ProcessMetrics {
    resident: Gauge,
    virtual_memory: Gauge,
    threads: Gauge,
    files: Gauge,
    cpu: Counter<f64, AtomicU64>,
}

impl ProcessMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        let process = registry.sub_registry_with_prefix("process");
        process.register("resident_memory_bytes", "Resident memory", self.resident.clone());
        process.register("virtual_memory_bytes", "Virtual memory", self.virtual_memory.clone());
        process.register("threads", "Threads", self.threads.clone());
        process.register("open_fds", "Open file descriptors", self.files.clone());
        process.register("cpu_seconds", "CPU time, user and system", self.cpu.clone());
    }

    /// Updates the metrics from `/proc/self`.
    pub(super) fn refresh(&self) {
        if let Ok(status) = fs::read_to_string("/proc/self/status") {
            let field = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name))?;
                line.split_whitespace().next()?.parse::<i64>().ok()
            };
            self.resident.set(field("VmRSS:").unwrap_or_default() * 1024);
            self.virtual_memory.set(field("VmSize:").unwrap_or_default() * 1024);
            self.threads.set(field("Threads:").unwrap_or_default());
        }
        if let Ok(files) = fs::read_dir("/proc/self/fd") {
            // The directory handle that is being read is one of them.
            self.files.set(i64::try_from(files.count()).unwrap_or(i64::MAX).saturating_sub(1));
        }
        if let Some(seconds) = cpu_seconds() {
            self.cpu.inc_by((seconds - self.cpu.get()).max(0.0));
        }
    }
}

/// Returns user and system time. The kernel counts in hundredths of a second in this file, independent of its timer
/// frequency.
fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name in parentheses may contain any character; the fields after it are numbers, except the state.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: Vec<u64> = fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
    (ticks.len() == 2).then(|| ticks.iter().sum::<u64>() as f64 / 100.0)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_threads_and_files() {
        let metrics = ProcessMetrics::default();
        metrics.refresh();
        assert!(metrics.resident.get() > 1_000_000, "{metrics:?}");
        assert!(metrics.virtual_memory.get() >= metrics.resident.get(), "{metrics:?}");
        assert!(metrics.threads.get() >= 1 && metrics.files.get() >= 3, "{metrics:?}");
        assert!(cpu_seconds().is_some());
    }
}
