//! Processor time and memory of a process tree, from `/proc`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Length of a tick of processor time in `/proc/PID/stat`.
const TICK: Duration = Duration::from_millis(10);

/// All descendants of a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessTree {
    /// The process id of the guard, which is not part of the tree.
    pub(super) guard: u32,
}

/// State of a process tree at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeState {
    /// Times of all threads, by thread id.
    pub threads: BTreeMap<u32, ThreadTime>,
    /// True if a process is stopped by a signal or a debugger.
    pub stopped: bool,
    /// True if the main thread of a process runs or is ready to run.
    pub ready: bool,
}

/// Processor time of a thread since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadTime {
    /// Time on a processor.
    pub used: Duration,
    /// Time that it was ready to run and waited for a processor; zero if the system does not measure it.
    pub waited: Duration,
}

impl ThreadTime {
    /// Returns the times of the calling thread; `None` without `/proc`.
    #[must_use]
    pub fn of_this_thread() -> Option<Self> {
        Self::read(Path::new("/proc/thread-self"))
    }

    fn read(folder: &Path) -> Option<Self> {
        let precise = std::fs::read_to_string(folder.join("schedstat")).ok();
        precise.and_then(|text| schedstat(&text)).or_else(|| {
            let used = cpu(&std::fs::read_to_string(folder.join("stat")).ok()?)?;
            Some(Self { used, waited: Duration::ZERO })
        })
    }

    /// Returns the times since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self { used: self.used.saturating_sub(earlier.used), waited: self.waited.saturating_sub(earlier.waited) }
    }
}

/// Returns the processor time that all programs on the machine have used, and the part of this process; `None` without
/// `/proc`. Time that a hypervisor gave to other machines counts as used.
#[must_use]
pub fn machine_time() -> Option<(Duration, Duration)> {
    let all = busy(&std::fs::read_to_string("/proc/stat").ok()?)?;
    Some((all, cpu(&std::fs::read_to_string("/proc/self/stat").ok()?)?))
}

/// Parses the first line of `/proc/stat`: ticks in user mode, niced, in kernel mode, idle, waiting for devices, in
/// interrupts of two kinds, stolen; and more that the first two contain.
fn busy(stat: &str) -> Option<Duration> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line.split_whitespace().take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
    let [user, nice, kernel, _idle, _devices, rest @ ..] = ticks.as_slice() else { return None };
    let ticks = user + nice + kernel + rest.iter().sum::<u64>();
    Some(TICK * u32::try_from(ticks).ok()?)
}

impl ProcessTree {
    /// Reads the tree; `None` if there is no process, or no `/proc`.
    #[must_use]
    pub fn state(self) -> Option<TreeState> {
        let mut state = TreeState::default();
        for process in self.processes() {
            for task in tasks(process) {
                if let (Some(thread), Some(time)) = (number(&task), ThreadTime::read(&task)) {
                    state.threads.insert(thread, time);
                }
            }
            let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
            match letter(&stat) {
                Some('T' | 't') => state.stopped = true,
                Some('R') => state.ready = true,
                _ => {}
            }
        }
        (!state.threads.is_empty()).then_some(state)
    }

    /// Returns the resident memory of all processes, in bytes.
    #[must_use]
    pub fn resident(self) -> u64 {
        let resident = |process: &u32| {
            kilobytes(&std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default(), "VmRSS:")
        };
        self.processes().iter().filter_map(resident).sum()
    }

    /// Returns the ids of all processes.
    fn processes(self) -> Vec<u32> {
        let mut found = children(self.guard);
        let mut next = 0;
        while let Some(process) = found.get(next).copied() {
            found.extend(children(process));
            next += 1;
        }
        found
    }
}

/// Returns the children of all threads of a process.
fn children(process: u32) -> Vec<u32> {
    let texts = tasks(process).into_iter().filter_map(|task| std::fs::read_to_string(task.join("children")).ok());
    texts.flat_map(|text| text.split_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<_>>()).collect()
}

/// Returns the folders of the threads of a process; empty if it has ended.
fn tasks(process: u32) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn number(folder: &Path) -> Option<u32> {
    folder.file_name()?.to_str()?.parse().ok()
}

/// Parses `/proc/PID/schedstat`: nanoseconds on a processor, nanoseconds ready and waiting, and number of time slices.
/// `None` if the system does not measure them.
fn schedstat(text: &str) -> Option<ThreadTime> {
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    let used = numbers.next()?.ok()?;
    let waited = numbers.next()?.ok()?;
    let slices = numbers.next()?.ok()?;
    let time = ThreadTime { used: Duration::from_nanos(used), waited: Duration::from_nanos(waited) };
    (slices > 0).then_some(time)
}

/// Returns the state of a process from `/proc/PID/stat`.
fn letter(stat: &str) -> Option<char> {
    fields(stat)?.next()?.chars().next()
}

/// Returns the processor time in user and kernel mode from `/proc/PID/stat`.
pub fn cpu(stat: &str) -> Option<Duration> {
    // utime and stime are the 12th and 13th field after the name.
    let mut fields = fields(stat)?.skip(11);
    let ticks = fields.next()?.parse::<u32>().ok()? + fields.next()?.parse::<u32>().ok()?;
    Some(TICK * ticks)
}

/// Returns the fields after the program's name, which is in parentheses and may contain anything.
fn fields(stat: &str) -> Option<impl Iterator<Item = &str>> {
    Some(stat.rsplit_once(") ")?.1.split(' '))
}

/// Returns the value of a line such as `VmRSS: 1024 kB`, in bytes.
pub fn kilobytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|number| number * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_files_are_understood() {
        let stat = "17 (a) b) S 1 17 17 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 3 0 100 1000 10";
        assert_eq!(cpu(stat), Some(Duration::from_secs(3)));
        assert_eq!((letter(stat), letter("17 (T) T 1 17"), letter("")), (Some('S'), Some('T'), None));
        assert_eq!(kilobytes("Name:\tx\nVmHWM:\t   2048 kB\nVmRSS:\t 1024 kB\n", "VmHWM:"), Some(2 << 20));
        let time = ThreadTime { used: Duration::from_millis(2), waited: Duration::from_millis(3) };
        assert_eq!(schedstat("2000000 3000000 17\n"), Some(time));
        assert_eq!((schedstat("0 0 0"), schedstat("1 2")), (None, None), "not measured");
        assert_eq!(busy("cpu  100 20 30 9999 8888 1 2 47 60 5\ncpu0 1 1 1 1\n"), Some(Duration::from_secs(2)));
        assert_eq!((busy("cpu 1 2"), busy(""), busy("cpu a b c d e f")), (None, None, None));
    }

    #[test]
    fn the_tree_of_this_process_has_its_children() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep exists");
        let tree = ProcessTree { guard: std::process::id() };
        let stop = |signal| {
            let id = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw).expect("a process id");
            rustix::process::kill_process(id, signal).expect("it is ours");
        };
        stop(rustix::process::Signal::STOP);
        // Other tests of this process may have children too.
        let is_stopped = || tree.state().is_some_and(|state| state.threads.contains_key(&child.id()) && state.stopped);
        let found = (0..2_000).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            is_stopped()
        });
        let resident = tree.resident();
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        assert!(found && resident > 0, "{resident}");
    }
}
