//! Runs the fixtures of a program in virtual time, in processes of this program.
//!
//! Each process lives inside a tracer of its own, with the fixture's server, its steps and the subject. So the time of
//! one fixture does not wait until the programs of the others rest. A process runs one fixture after the other.
//! [`inside`] is its side.

pub mod inside;
mod protocol;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, PipeReader, PipeWriter, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use plumbline::fixture::Fixture;
use plumbline_guest::{Guest, Report, Running, Spin};

use self::protocol::{FixtureSource, GuestOrder, GuestReply};
use crate::guest::GuestRunError;
use crate::process::signals;
use crate::report::JudgedRun;

/// The command line of the processes.
#[derive(Clone, Debug)]
pub struct GuestCommand {
    /// This program.
    pub program: PathBuf,
    /// Its arguments, to which `--logs FOLDER` is added.
    pub arguments: Vec<OsString>,
    /// The folder for logs: each process has one of its own there.
    pub logs: PathBuf,
    /// The folder for temporary files.
    pub temporary: PathBuf,
    /// Limit of real time for each fixture.
    pub limit: Duration,
}

/// Processes that run fixtures, started when they are needed.
pub struct FixtureGuests {
    command: GuestCommand,
    /// The content of files of fixtures that are not on disk.
    texts: BTreeMap<PathBuf, String>,
    idle: Mutex<Vec<FixtureGuest>>,
    live: Mutex<Vec<Weak<Running>>>,
    started: AtomicUsize,
    report: Mutex<Report>,
    /// Fixtures without a result, with the reasons.
    lost: Mutex<Vec<String>>,
}

/// A process, and the pipes to it.
struct FixtureGuest {
    running: Arc<Running>,
    orders: PipeWriter,
    replies: BufReader<PipeReader>,
}

/// A reason why a process has not carried out an order.
#[derive(Debug, thiserror::Error)]
pub enum FixtureGuestError {
    /// It cannot be traced.
    #[error(transparent)]
    Guest(#[from] GuestRunError),
    /// A pipe to it, or the file of a fixture, cannot be used.
    #[error("{what}: {source}")]
    Io {
        /// The pipe or file.
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// The fixture had not ended at the limit of real time.
    #[error(
        "it had not ended after {} of real time{place}; let the program wait instead of asking again and again, or raise \
         --fixture-limit",
        seconds(*limit)
    )]
    TooLong {
        /// The limit.
        limit: Duration,
        /// The place at which a program was busy, for the message; empty if none was.
        place: String,
        /// True if a program used the processor all the time: the machine is not to blame.
        is_busy: bool,
    },
    /// It has ended instead.
    #[error("the process that ran the fixture ended with {0}; its messages are on standard error")]
    Ended(String),
    /// It says why it cannot.
    #[error("{0}")]
    Refused(String),
    /// A message cannot be read or written.
    #[error("the process that ran the fixture replied with something else: {0}")]
    Message(#[from] serde_json::Error),
    /// A signal ends the run.
    #[error("interrupted by {0}")]
    Interrupted(&'static str),
}

impl FixtureGuestError {
    /// Returns true if the program is to blame, so that its fixture has failed.
    #[must_use]
    pub const fn is_of_the_program(&self) -> bool {
        matches!(self, Self::TooLong { is_busy: true, .. })
    }
}

impl FixtureGuests {
    /// Prepares processes. `texts` are the contents of files of fixtures that are not on disk.
    #[must_use]
    pub fn new(command: GuestCommand, texts: BTreeMap<PathBuf, String>) -> Arc<Self> {
        let guests = Arc::new(Self {
            command,
            texts,
            idle: Mutex::default(),
            live: Mutex::default(),
            started: AtomicUsize::new(0),
            report: Mutex::default(),
            lost: Mutex::default(),
        });
        terminate_on_signal(Arc::downgrade(&guests));
        guests
    }

    /// Starts the subject once in an empty cluster. Returns user agents of its clients that name none of its
    /// controllers.
    ///
    /// # Errors
    ///
    /// Returns the reason why it does not start.
    pub fn check_start_up(&self) -> Result<BTreeSet<String>, FixtureGuestError> {
        match self.ask(&GuestOrder::Check)? {
            GuestReply::Starts(unnamed_agents) => Ok(unnamed_agents),
            other => Err(unexpected(other)),
        }
    }

    /// Runs a fixture, once more if its process has ended instead.
    ///
    /// # Errors
    ///
    /// Returns the reason why there is no result: [`FixtureGuestError::is_of_the_program`], or no statement about it.
    pub fn run(&self, fixture: &Fixture, keeps_record: bool) -> Result<JudgedRun, FixtureGuestError> {
        let mut result = self.run_once(fixture, keeps_record);
        if let Err(FixtureGuestError::Ended(_)) = result {
            result = self.run_once(fixture, keeps_record);
        }
        if let Err(error) = &result
            && !error.is_of_the_program()
            && signals::requested().is_none()
        {
            self.lost.lock().push(format!("{}: {error}", fixture.id));
        }
        result
    }

    /// Returns the fixtures without a result, with the reasons.
    #[must_use]
    pub fn lost(&self) -> Vec<String> {
        self.lost.lock().clone()
    }

    fn run_once(&self, fixture: &Fixture, keeps_record: bool) -> Result<JudgedRun, FixtureGuestError> {
        let text = match self.texts.get(&fixture.file) {
            Some(text) => text.clone(),
            None => std::fs::read_to_string(&fixture.file).map_err(failed(fixture.file.display()))?,
        };
        let source = FixtureSource { id: fixture.id.clone(), file: fixture.file.clone(), text, keeps_record };
        match self.ask(&GuestOrder::Run(Box::new(source)))? {
            GuestReply::Ran(mut judged) => {
                judged.report.rule_texts.clone_from(&fixture.rule_texts);
                Ok(*judged)
            }
            other => Err(unexpected(other)),
        }
    }

    /// Gives an order to an idle process, or to a new one.
    fn ask(&self, order: &GuestOrder) -> Result<GuestReply, FixtureGuestError> {
        if let Some(signal) = signals::requested() {
            return Err(FixtureGuestError::Interrupted(signal));
        }
        let idle = self.idle.lock().pop();
        let mut guest = idle.map_or_else(|| self.start(), Ok)?;
        let (asked, is_over) = self.limited(&mut guest, order);
        match asked {
            Ok(None) if is_over && signals::requested().is_none() => Err(self.too_long(guest)),
            Ok(Some(reply)) => {
                self.idle.lock().push(guest);
                Ok(reply)
            }
            Ok(None) => Err(self.ended(guest)),
            Err(error) => Err(error),
        }
    }

    /// Gives an order to a process, and ends it at the limit. Returns true as well if it was ended.
    fn limited(
        &self,
        guest: &mut FixtureGuest,
        order: &GuestOrder,
    ) -> (Result<Option<GuestReply>, FixtureGuestError>, bool) {
        let running = guest.running.clone();
        let is_over = AtomicBool::new(false);
        let asked = std::thread::scope(|scope| {
            let (done, ended) = channel::<()>();
            let limit = self.command.limit;
            let is_over = &is_over;
            scope.spawn(move || {
                if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                    is_over.store(true, Ordering::SeqCst);
                    running.terminate();
                }
            });
            let asked = guest.ask(order);
            drop(done);
            asked
        });
        (asked, is_over.load(Ordering::SeqCst))
    }

    /// Returns the error for a process that was ended at the limit.
    fn too_long(&self, guest: FixtureGuest) -> FixtureGuestError {
        let limit = self.command.limit;
        match self.wait(guest) {
            Ok((_, report)) => {
                let spin = report.spins.last().filter(|spin| spin.is_at_end);
                let place = spin.map(|Spin { program, thread, processor_time, stack, .. }| {
                    let function = if stack.is_empty() { String::new() } else { format!(" in {}", stack.join(" from ")) };
                    let used = seconds(*processor_time);
                    format!(": the thread {thread} of {program} was busy{function}, after {used} of processor time without rest")
                });
                FixtureGuestError::TooLong { limit, is_busy: place.is_some(), place: place.unwrap_or_default() }
            }
            Err(error) => error,
        }
    }

    fn start(&self) -> Result<FixtureGuest, FixtureGuestError> {
        let pipe = || io::pipe().map_err(failed("a pipe"));
        let (order_reader, orders) = pipe()?;
        let (replies, reply_writer) = pipe()?;
        let number = self.started.fetch_add(1, Ordering::Relaxed) + 1;
        let running = Guest::new(&self.command.program)
            .args(&self.command.arguments)
            .arg("--logs")
            .arg(self.command.logs.join(format!("job-{number}")))
            // What it leaves when it is killed goes with the folder of the run.
            .env("TMPDIR", &self.command.temporary)
            .own_clock()
            .stdin(order_reader)
            .stdout(reply_writer)
            .start()
            .map_err(GuestRunError::from)?;
        let running = Arc::new(running);
        let mut live = self.live.lock();
        live.retain(|other| other.strong_count() > 0);
        live.push(Arc::downgrade(&running));
        drop(live);
        if signals::requested().is_some() {
            // It may have started after the others were ended.
            running.terminate();
        }
        Ok(FixtureGuest { running, orders, replies: BufReader::new(replies) })
    }

    /// Returns the error for a process that has closed its output.
    fn ended(&self, guest: FixtureGuest) -> FixtureGuestError {
        let ended = self.wait(guest);
        match (signals::requested(), ended) {
            (Some(signal), _) => FixtureGuestError::Interrupted(signal),
            (None, Ok((status, _))) => FixtureGuestError::Ended(status),
            (None, Err(error)) => error,
        }
    }

    /// Closes the pipes of a process, waits for its end and returns its exit status and the account of its time.
    fn wait(&self, guest: FixtureGuest) -> Result<(String, Report), FixtureGuestError> {
        let FixtureGuest { running, orders, replies } = guest;
        drop((orders, replies));
        // Only the end of the run holds it as well.
        let Some(running) = Arc::into_inner(running) else {
            return Err(FixtureGuestError::Interrupted(signals::requested().unwrap_or("a signal")));
        };
        let outcome = running.wait().map_err(GuestRunError::from)?;
        self.report.lock().add(&outcome.report);
        Ok((outcome.status.to_string(), outcome.report))
    }

    /// Ends all processes. Returns the account of their time.
    ///
    /// # Errors
    ///
    /// Returns the first error of a tracer.
    pub fn close(&self) -> Result<Report, FixtureGuestError> {
        let idle = std::mem::take(&mut *self.idle.lock());
        let ended: Vec<_> = idle.into_iter().map(|guest| self.wait(guest)).collect();
        ended.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(self.report.lock().clone())
    }
}

impl FixtureGuest {
    /// Writes an order and reads the reply; `None` if the process has ended.
    fn ask(&mut self, order: &GuestOrder) -> Result<Option<GuestReply>, FixtureGuestError> {
        let mut line = serde_json::to_string(order)?;
        line.push('\n');
        if let Err(error) = self.orders.write_all(line.as_bytes())
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            return Err(failed("the pipe to the process that runs fixtures")(error));
        }
        line.clear();
        let length =
            self.replies.read_line(&mut line).map_err(failed("the pipe from the process that runs fixtures"))?;
        Ok(if length == 0 { None } else { Some(serde_json::from_str(&line)?) })
    }
}

fn seconds(time: Duration) -> String {
    format!("{} s", (time.as_secs_f64() * 10.0).round() / 10.0)
}

fn failed(what: impl std::fmt::Display) -> impl FnOnce(io::Error) -> FixtureGuestError {
    move |source| FixtureGuestError::Io { what: what.to_string(), source }
}

fn unexpected(reply: GuestReply) -> FixtureGuestError {
    match reply {
        GuestReply::DoesNotStart(why) | GuestReply::Failed(why) => FixtureGuestError::Refused(why),
        GuestReply::Starts(_) | GuestReply::Ran(_) => {
            FixtureGuestError::Refused("the reply is to another order".into())
        }
    }
}

/// Ends the processes when a signal ends the run, so that it does not wait for a fixture of hours.
fn terminate_on_signal(guests: Weak<FixtureGuests>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    // Without a runtime, running fixtures end before the run does.
    let Ok(runtime) = runtime else { return };
    std::thread::spawn(move || {
        runtime.block_on(signals::signalled());
        let Some(guests) = guests.upgrade() else { return };
        for running in guests.live.lock().iter().filter_map(Weak::upgrade) {
            running.terminate();
        }
    });
}
