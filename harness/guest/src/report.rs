//! The report of a guest's run.

use std::fmt::{self, Display};
use std::time::Duration;

use serde::{Serialize, Serializer};

/// A system call that a program made and that is not virtual.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct UnvirtualCall {
    /// Its name.
    pub call: String,
    /// The program that made it.
    pub program: String,
    /// The number of times.
    pub count: u64,
    /// True if it failed for that reason, or was without effect; false if it took place in real time.
    pub is_refused: bool,
}

/// A program that ran so long without rest that time had to move while it ran.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Spin {
    /// The program with the busiest thread.
    pub program: String,
    /// The name of that thread.
    pub thread: String,
    /// The number of its thread.
    pub thread_id: i32,
    /// The processor time of all programs since the last rest.
    #[serde(serialize_with = "seconds")]
    pub processor_time: Duration,
    /// The function that it executed, and its callers as far as they are known: names, or addresses in files.
    pub stack: Vec<String>,
    /// True if it was busy when the run was ended.
    pub is_at_end: bool,
}

/// The account of a run in virtual time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The virtual time that has passed.
    #[serde(serialize_with = "seconds")]
    pub virtual_time: Duration,
    /// The real time that it took.
    #[serde(serialize_with = "seconds")]
    pub real_time: Duration,
    /// The processor time of the tracer.
    #[serde(serialize_with = "seconds")]
    pub tracer_time: Duration,
    /// The number of times that time moved.
    pub hops: u64,
    /// The waits that a program began and that the tracer saw.
    pub waits: u64,
    /// The waits that ended at their deadline.
    pub timeouts: u64,
    /// Sleeps shorter than a millisecond that ended without moving time.
    pub naps: u64,
    /// Stops of threads.
    pub stops: u64,
    /// Attempts to prove that all threads rest.
    pub proofs: u64,
    /// Processes that were traced.
    pub processes: u64,
    /// The most threads at a time.
    pub threads: u64,
    /// Processes that were still there when the command ended; they were killed.
    pub left_over: u64,
    /// Spins: moments from which time crept because of a busy program.
    pub spins: Vec<Spin>,
    /// System calls that are not virtual.
    pub unvirtual: Vec<UnvirtualCall>,
    /// Circumstances that limit what the run shows.
    pub warnings: Vec<String>,
}

/// The most spins that a report has.
pub(crate) const MOST_SPINS: usize = 20;

impl Report {
    /// Adds the account of another run, which took place beside this one: the sums, the longest real time, and the most
    /// threads of one of them.
    pub fn add(&mut self, other: &Self) {
        self.virtual_time += other.virtual_time;
        self.real_time = self.real_time.max(other.real_time);
        self.tracer_time += other.tracer_time;
        self.hops += other.hops;
        self.waits += other.waits;
        self.timeouts += other.timeouts;
        self.naps += other.naps;
        self.stops += other.stops;
        self.proofs += other.proofs;
        self.processes += other.processes;
        self.threads = self.threads.max(other.threads);
        self.left_over += other.left_over;
        let free = MOST_SPINS.saturating_sub(self.spins.len());
        self.spins.extend(other.spins.iter().take(free).cloned());
        for call in &other.unvirtual {
            let is_same = |known: &&mut UnvirtualCall| {
                (&known.call, known.is_refused, &known.program) == (&call.call, call.is_refused, &call.program)
            };
            match self.unvirtual.iter_mut().find(is_same) {
                Some(known) => known.count += call.count,
                None => self.unvirtual.push(call.clone()),
            }
        }
        for warning in &other.warnings {
            if !self.warnings.contains(warning) {
                self.warnings.push(warning.clone());
            }
        }
    }
}

fn seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let elapsed = self.virtual_time.as_secs_f64();
        let real = self.real_time.as_secs_f64();
        write!(f, "virtual time: {elapsed:.3} s in {real:.3} s of real time")?;
        if real > 0.0 && elapsed >= 2.0 * real {
            write!(f, " ({:.0} times as fast)", elapsed / real)?;
        }
        writeln!(f)?;
        if self.left_over > 0 {
            let processes = if self.left_over == 1 { "process" } else { "processes" };
            writeln!(f, "killed at the end: {} {processes} that the command left", self.left_over)?;
        }
        for Spin { program, thread, thread_id, processor_time, stack, is_at_end } in &self.spins {
            let effect = if *is_at_end { "the run was ended" } else { "time moved on with the processors" };
            let place = if stack.is_empty() { String::new() } else { format!(", in {}", stack.join(" from ")) };
            writeln!(
                f,
                "busy: after {:.1} s of processor time without rest, {effect}; the busiest \
                 thread was {thread} ({thread_id}) of {program}{place}: it waits in a loop, or computes (compile before \
                 the run)",
                processor_time.as_secs_f64()
            )?;
        }
        for UnvirtualCall { call, program, count, is_refused } in &self.unvirtual {
            let kind = if *is_refused { "refused" } else { "in real time" };
            let times = if *count == 1 { "once".to_owned() } else { format!("{count} times") };
            writeln!(f, "{kind}: {call}, {times} in {program}")?;
        }
        for warning in &self.warnings {
            writeln!(f, "warning: {warning}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_of_runs_side_by_side_add_up() {
        let call = |count| UnvirtualCall { call: "ptrace".into(), program: "gdb".into(), count, is_refused: false };
        let run = |hours, millis, threads, count| Report {
            virtual_time: Duration::from_hours(hours),
            real_time: Duration::from_millis(millis),
            threads,
            hops: 2,
            unvirtual: vec![call(count)],
            warnings: vec!["no network".into()],
            ..Report::default()
        };
        let mut sum = run(1, 300, 4, 1);
        sum.add(&run(2, 200, 7, 2));
        let expected = Report { hops: 4, ..run(3, 300, 7, 3) };
        assert_eq!(sum, expected);
    }

    #[test]
    fn a_report_has_a_text_and_a_json_form() {
        let report = Report {
            virtual_time: Duration::from_hours(1),
            real_time: Duration::from_millis(500),
            unvirtual: vec![UnvirtualCall { call: "ptrace".into(), program: "gdb".into(), count: 2, is_refused: true }],
            ..Report::default()
        };
        let text = report.to_string();
        assert!(text.starts_with("virtual time: 3600.000 s in 0.500 s of real time (7200 times as fast)\n"), "{text}");
        assert!(text.ends_with("refused: ptrace, 2 times in gdb\n"), "{text}");
        let json = serde_json::to_value(&report).expect("JSON");
        assert_eq!(json["virtual_time"], 3600.0);
        assert_eq!(json["unvirtual"][0]["count"], 2);
    }
}
