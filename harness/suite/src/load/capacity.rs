//! PURE. Chooses the number of fixtures that run in parallel on the wall clock from the cost of a start.
//!
//! Fixtures on the wall clock mostly wait, so many can run on one core. Their starts do not: each takes processor time,
//! and delays everything else that runs. Starts, which include restarts after crashes, may use half of the
//! processors.

use std::time::Duration;

use super::StartCost;

/// Wall time of a short fixture: a job starts the subject about once in this time.
const FIXTURE: Duration = Duration::from_secs(10);
/// Starts may use this part of the processors: one of so many.
const PROCESSOR_PART: u32 = 2;
/// Time that a start waited counts as this part of time on a processor: one of so many.
const WAITING_PART: u32 = 4;
/// Subjects may use this part of the available memory: one of so many.
const MEMORY_PART: u64 = 2;
/// Number of starts at the same time per core, if they are cheap.
const STARTS_PER_CORE: usize = 3;
/// Time by which starts at the same time may delay each other.
const START_DELAY: Duration = Duration::from_secs(1);

/// The machine that fixtures run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Number of processors.
    pub cores: usize,
    /// Memory for new programs, in bytes; `None` if unknown.
    pub memory: Option<u64>,
}

/// Returns the number of fixtures that `machine` can run in parallel, at most `most`: at least one per core, unless
/// there is too little memory for that.
///
/// Time that a start waited for a processor counts too: other programs need the processors. It counts less than time on
/// one, because the system divides the processors between all programs, and more jobs get a larger part.
#[must_use]
pub fn jobs(cost: &StartCost, machine: Machine, most: usize) -> usize {
    let by_time = quotient(FIXTURE / PROCESSOR_PART, cost.used + cost.waited / WAITING_PART, machine.cores);
    let by_memory = machine.memory.and_then(|memory| (memory / MEMORY_PART).checked_div(cost.resident));
    let by_memory = by_memory.map(|jobs| usize::try_from(jobs).unwrap_or(usize::MAX));
    by_time.unwrap_or(most).max(machine.cores).min(by_memory.unwrap_or(most)).clamp(1, most.max(1))
}

/// Returns the number of subjects that may start at the same time.
#[must_use]
pub fn starts(cost: Option<&StartCost>, cores: usize) -> usize {
    let per_core = cost.and_then(|cost| quotient(START_DELAY, cost.used, 1));
    cores * per_core.unwrap_or(STARTS_PER_CORE).clamp(1, STARTS_PER_CORE)
}

/// Returns the number of times that `part` fits into `count` times `time`; `None` if `part` is zero.
fn quotient(time: Duration, part: Duration, count: usize) -> Option<usize> {
    let quotient = (time.as_micros() * count as u128).checked_div(part.as_micros())?;
    Some(usize::try_from(quotient).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const MB: u64 = 1 << 20;
    const TWO_CORES: Machine = Machine { cores: 2, memory: Some(4096 * MB) };

    fn cost(used: u64, waited: u64, resident: u64) -> StartCost {
        let millis = Duration::from_millis;
        StartCost { used: millis(used), waited: millis(waited), resident, ..StartCost::default() }
    }

    #[rstest]
    #[case::unknown(cost(0, 0, 0), TWO_CORES, 96)]
    #[case::a_small_program(cost(40, 0, 10 * MB), TWO_CORES, 96)]
    #[case::an_interpreter(cost(250, 0, 30 * MB), TWO_CORES, 40)]
    #[case::an_interpreter_with_many_imports(cost(1200, 0, 60 * MB), TWO_CORES, 8)]
    #[case::the_same_on_more_cores(cost(1200, 0, 60 * MB), Machine { cores: 16, memory: None }, 66)]
    #[case::others_take_two_thirds(cost(250, 500, 30 * MB), TWO_CORES, 26)]
    #[case::others_take_nearly_all(cost(1200, 60_000, 30 * MB), TWO_CORES, 2)]
    #[case::more_than_a_machine_has(cost(60_000, 0, 30 * MB), TWO_CORES, 2)]
    #[case::memory_limits(cost(250, 0, 400 * MB), TWO_CORES, 5)]
    #[case::more_memory_than_there_is(cost(250, 0, 9000 * MB), TWO_CORES, 1)]
    fn jobs_follow_from_the_cost_of_a_start(
        #[case] cost: StartCost,
        #[case] machine: Machine,
        #[case] expected: usize,
    ) {
        assert_eq!(jobs(&cost, machine, 96), expected);
        assert_eq!(jobs(&cost, machine, 4), expected.min(4));
    }

    #[rstest]
    #[case::unknown(None, 6)]
    #[case::cheap(Some(cost(40, 0, 0)), 6)]
    #[case::half_a_second(Some(cost(500, 0, 0)), 4)]
    #[case::expensive(Some(cost(1500, 0, 0)), 2)]
    fn expensive_starts_happen_one_after_another(#[case] cost: Option<StartCost>, #[case] expected: usize) {
        assert_eq!(starts(cost.as_ref(), 2), expected);
    }
}
