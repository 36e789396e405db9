//! Isolates fixtures from each other: each has an OS thread for itself, several at a time; panics and hangs become
//! results.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Once};
use std::time::Duration;

thread_local! {
    /// Panics of this thread, while [`watch_panics`] collects them.
    static PANICS: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// The outcome of a job.
#[derive(Debug)]
pub enum JobOutcome<T> {
    /// The job returned this value.
    Returned(T),
    /// The job panicked; message and source location.
    Panicked(String),
    /// The job did not end within this running time. Its thread is left running.
    Hung(Duration),
}

/// Limits the running time of a job. Time that it waits for other jobs does not count.
#[derive(Default)]
pub struct JobTimer {
    signal: Option<Box<dyn Fn(TimerSignal) + Send>>,
}

/// Changes of a [`JobTimer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimerSignal {
    Pause,
    Restart,
}

impl JobTimer {
    /// Stops counting: the job waits for others.
    pub fn pause(&self) {
        self.send(TimerSignal::Pause);
    }

    /// Counts from zero: the job runs.
    pub fn restart(&self) {
        self.send(TimerSignal::Restart);
    }

    fn send(&self, signal: TimerSignal) {
        if let Some(send) = &self.signal {
            send(signal);
        }
    }
}

/// A message from the thread of a job.
enum JobMessage<T> {
    Timer(TimerSignal),
    Ended(JobOutcome<T>),
}

/// Runs `work` for each of `0..count` on a thread for itself, `jobs` at a time, and passes results to `done` in order
/// of arrival.
///
/// `done` returns whether to continue. After `false` no new job starts; running jobs finish and are passed on.
pub fn run_each<T, W>(
    count: usize,
    jobs: usize,
    limit: Duration,
    work: W,
    mut done: impl FnMut(usize, JobOutcome<T>) -> bool,
) where
    T: Send + 'static,
    W: Fn(usize, &JobTimer) -> T + Send + Sync + 'static,
{
    let work = Arc::new(work);
    let next = AtomicUsize::new(0);
    let (sender, results) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, count.max(1)) {
            let sender = sender.clone();
            let work = work.clone();
            let next = &next;
            scope.spawn(move || {
                let mut worker = None;
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        return;
                    }
                    let work = work.clone();
                    let ended = alone(&mut worker, limit, move |timer: &JobTimer| work(index, timer));
                    if sender.send((index, ended)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for (index, ended) in results {
            if !done(index, ended) {
                next.fetch_add(count, Ordering::Relaxed);
            }
        }
    });
}

/// A thread that does one job after the other. It keeps the memory of a job for the next one.
struct Worker<T> {
    jobs: mpsc::Sender<Job<T>>,
    messages: mpsc::Receiver<JobMessage<T>>,
}

type Job<T> = Box<dyn FnOnce(&JobTimer) -> T + Send>;

impl<T: Send + 'static> Worker<T> {
    fn start() -> std::io::Result<Self> {
        let (sender, messages) = mpsc::channel();
        let (jobs, queue) = mpsc::channel::<Job<T>>();
        std::thread::Builder::new().name("fixture".to_owned()).spawn(move || {
            let signals = sender.clone();
            // The receiver is gone if the limit was exceeded.
            let signal = move |signal| _ = signals.send(JobMessage::Timer(signal));
            let timer = JobTimer { signal: Some(Box::new(signal)) };
            for job in queue {
                let (outcome, panics) = watch_panics(|| panic::catch_unwind(AssertUnwindSafe(|| job(&timer))));
                let text =
                    |payload: Box<dyn Any + Send>| panics.into_iter().next_back().unwrap_or_else(|| text_of(&*payload));
                let ended = outcome.map_or_else(|payload| JobOutcome::Panicked(text(payload)), JobOutcome::Returned);
                if sender.send(JobMessage::Ended(ended)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { jobs, messages })
    }

    /// Waits for the end of the job, at most for `limit` of running time.
    fn wait(&self, limit: Duration) -> JobOutcome<T> {
        let mut counts = true;
        loop {
            let message = if counts {
                self.messages.recv_timeout(limit)
            } else {
                self.messages.recv().map_err(|_| RecvTimeoutError::Disconnected)
            };
            match message {
                Ok(JobMessage::Timer(signal)) => counts = signal == TimerSignal::Restart,
                Ok(JobMessage::Ended(ended)) => return ended,
                Err(RecvTimeoutError::Timeout) => return JobOutcome::Hung(limit),
                Err(RecvTimeoutError::Disconnected) => {
                    return JobOutcome::Panicked("the fixture's thread ended without a result".to_owned());
                }
            }
        }
    }
}

/// Runs `work` on the thread of `worker` and waits for it, at most for `limit` of running time. Only a thread whose job
/// has returned gets another one.
fn alone<T: Send + 'static>(
    worker: &mut Option<Worker<T>>,
    limit: Duration,
    work: impl FnOnce(&JobTimer) -> T + Send + 'static,
) -> JobOutcome<T> {
    let free = match worker.take().map_or_else(Worker::start, Ok) {
        Ok(free) => free,
        Err(error) => return JobOutcome::Panicked(format!("unable to start a thread: {error}")),
    };
    // A thread that has ended is noticed by the wait.
    let _ = free.jobs.send(Box::new(work));
    let ended = free.wait(limit);
    if let JobOutcome::Returned(_) = ended {
        *worker = Some(free);
    }
    ended
}

/// Runs `work` and returns its result and the messages of all panics on this thread during it, including those that
/// tokio or a panic handler caught. Their usual report on standard error is suppressed.
pub fn watch_panics<T>(work: impl FnOnce() -> T) -> (T, Vec<String>) {
    install_hook();
    let outer = PANICS.replace(Some(Vec::new()));
    let result = work();
    let seen = PANICS.replace(outer).unwrap_or_default();
    (result, seen)
}

fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let place = info.location().map(|at| format!(" at {}:{}", at.file(), at.line())).unwrap_or_default();
            let text = format!("{}{place}", text_of(info.payload()));
            let taken = PANICS.try_with(|panics| match panics.try_borrow_mut() {
                Ok(mut panics) => panics.as_mut().map(|seen| seen.push(text)).is_some(),
                Err(_) => false,
            });
            if !taken.unwrap_or(false) {
                usual(info);
            }
        }));
    });
}

fn text_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "panic without a message".to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rstest::rstest;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    #[test]
    fn a_panic_fails_one_job_and_stops_nothing() {
        for jobs in [1, 3, 100] {
            let mut seen = BTreeMap::new();
            let work = |index: usize, _: &JobTimer| if index == 2 { panic!("job {index} breaks") } else { index * 10 };
            run_each(7, jobs, LIMIT, work, |index, ended| {
                seen.insert(index, ended);
                true
            });
            assert_eq!(seen.len(), 7);
            for (index, ended) in seen {
                match ended {
                    JobOutcome::Returned(value) => assert_eq!(value, index * 10),
                    JobOutcome::Panicked(text) => assert!(index == 2 && text.starts_with("job 2 breaks at "), "{text}"),
                    JobOutcome::Hung(_) => panic!("{index} hung"),
                }
            }
        }
    }

    #[test]
    fn a_hang_is_reported_and_stops_nothing() {
        let mut hung = Vec::new();
        let mut fine = 0;
        let work = |index: usize, _: &JobTimer| {
            if index == 1 {
                std::thread::sleep(Duration::from_secs(30));
            }
        };
        run_each(3, 1, Duration::from_millis(300), work, |index, ended| {
            if let JobOutcome::Hung(_) = ended {
                hung.push(index);
            } else {
                fine += 1;
            }
            true
        });
        assert_eq!((hung, fine), (vec![1], 2));
    }

    #[rstest]
    #[case::while_it_runs(&[TimerSignal::Restart], true)]
    #[case::not_while_it_waits(&[TimerSignal::Pause], false)]
    #[case::again_after_waiting(&[TimerSignal::Pause, TimerSignal::Restart], true)]
    fn time_counts(#[case] signals: &'static [TimerSignal], #[case] hangs: bool) {
        let limit = Duration::from_millis(50);
        let (end, wait) = mpsc::channel::<()>();
        let ended = alone(&mut None, limit, move |timer: &JobTimer| {
            for signal in signals {
                timer.send(*signal);
            }
            // A job that counts waits until the test ends; the other waits longer than its limit.
            let _ = if hangs { wait.recv().ok() } else { wait.recv_timeout(limit * 4).ok() };
        });
        assert_eq!(matches!(ended, JobOutcome::Hung(_)), hangs, "{ended:?}");
        drop(end);
    }

    #[test]
    fn nothing_new_starts_after_a_no() {
        let mut count = 0;
        run_each(
            1000,
            2,
            LIMIT,
            |index, _| index,
            |_, _| {
                count += 1;
                false
            },
        );
        assert!(count < 1000, "{count}");
        run_each(0, 2, LIMIT, |index, _| index, |_, _: JobOutcome<usize>| unreachable!("there is no job"));
    }

    #[test]
    fn caught_panics_are_seen() {
        let ((), panics) = watch_panics(|| {
            let _ = panic::catch_unwind(|| panic!("inside"));
        });
        assert!(panics[0].starts_with("inside at ") && panics.len() == 1, "{panics:?}");
    }
}
