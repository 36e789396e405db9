//! A guest: a command that runs in virtual time, and its settings.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::clock::{Clock, ClockError};
use crate::folder::TemporaryFolder;
use crate::outcome::{GuestError, KILL, Outcome, TERMINATE, TracerThread};
use crate::settings::{Command, Epoch, Network, Settings, Stdio};

/// A command to run in virtual time, and its settings.
#[derive(Debug)]
pub struct Guest {
    command: Command,
    settings: Settings,
}

impl Guest {
    /// Makes a guest of a program, which is looked for in `PATH` unless its name contains a slash.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            command: Command {
                program: program.into(),
                arguments: Vec::new(),
                variables: Vec::new(),
                directory: None,
                standard: [Stdio::Inherit, Stdio::Inherit, Stdio::Inherit],
            },
            settings: Settings {
                epoch: Epoch::Now,
                seed: None,
                network: Network::Private,
                is_manual: false,
                has_own_clock: false,
                virtual_limit: None,
                real_limit: None,
                process_limit: 4096,
                spin: Duration::from_secs(30),
                grace: Duration::from_secs(5),
                is_disturbed: false,
            },
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        arguments.into_iter().fold(self, Self::arg)
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.command.variables.push((name.as_ref().to_owned(), Some(value.as_ref().to_owned())));
        self
    }

    /// Removes an environment variable.
    #[must_use]
    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Self {
        self.command.variables.push((name.as_ref().to_owned(), None));
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn current_dir(mut self, directory: impl AsRef<Path>) -> Self {
        self.command.directory = Some(directory.as_ref().to_owned());
        self
    }

    /// Sets the standard input.
    #[must_use]
    pub fn stdin(mut self, file: impl Into<Stdio>) -> Self {
        self.command.standard[0] = file.into();
        self
    }

    /// Sets the standard output.
    #[must_use]
    pub fn stdout(mut self, file: impl Into<Stdio>) -> Self {
        self.command.standard[1] = file.into();
        self
    }

    /// Sets the standard error.
    #[must_use]
    pub fn stderr(mut self, file: impl Into<Stdio>) -> Self {
        self.command.standard[2] = file.into();
        self
    }

    /// Sets the time of day at the start.
    #[must_use]
    pub fn epoch(mut self, epoch: Epoch) -> Self {
        self.settings.epoch = epoch;
        self
    }

    /// Makes random numbers repeatable: those of `getrandom` and of `AT_RANDOM`. For tests only.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.seed = Some(seed);
        self
    }

    /// Chooses the network.
    #[must_use]
    pub fn network(mut self, network: Network) -> Self {
        self.settings.network = network;
        self
    }

    /// Lets time pass only by orders of a [`Clock`].
    #[must_use]
    pub fn manual(mut self) -> Self {
        self.settings.is_manual = true;
        self
    }

    /// Obeys orders of the command's own process only, not those of programs that it starts. The report names programs
    /// that have tried to move time.
    #[must_use]
    pub fn own_clock(mut self) -> Self {
        self.settings.has_own_clock = true;
        self
    }

    /// Limits the virtual time. At the limit the command gets `SIGTERM`; everything is killed after the grace.
    #[must_use]
    pub fn virtual_limit(mut self, limit: Duration) -> Self {
        self.settings.virtual_limit = Some(limit);
        self
    }

    /// Limits the real time, with the same end.
    #[must_use]
    pub fn real_limit(mut self, limit: Duration) -> Self {
        self.settings.real_limit = Some(limit);
        self
    }

    /// Limits the number of processes that live at a time. The default is 4096.
    #[must_use]
    pub fn process_limit(mut self, limit: usize) -> Self {
        self.settings.process_limit = limit;
        self
    }

    /// Sets the processor time without rest after which time moves while programs run. The default is 30 s.
    ///
    /// A program that waits for a time in a loop without sleeping would never end otherwise.
    #[must_use]
    pub fn spin_guard(mut self, processor_time: Duration) -> Self {
        self.settings.spin = processor_time;
        self
    }

    /// Sets the real time between `SIGTERM` and `SIGKILL`, after a limit of time and of [`Running::terminate`]. The
    /// default is 5 s.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.settings.grace = grace;
        self
    }

    /// Interrupts all threads before each move of time, and some on their way into calls, which no program may notice.
    /// For tests of the tracer only.
    #[doc(hidden)]
    #[must_use]
    pub fn disturbed(mut self) -> Self {
        self.settings.is_disturbed = true;
        self
    }

    /// Starts the command. A thread of this process traces it.
    pub fn start(self) -> Result<Running, GuestError> {
        if let Epoch::Fixed(time) = self.settings.epoch {
            Epoch::fixed(time)?;
        }
        let folder = TemporaryFolder::new("guest-");
        let folder = folder.map_err(|source| GuestError::System { what: "a folder for the time socket", source })?;
        let socket = folder.path().join("time.sock");
        let end = Arc::new(AtomicU8::new(0));
        let thread = start_tracer(self, &socket, Arc::clone(&end))?;
        Ok(Running { thread: Some(thread), end, socket, _folder: folder })
    }

    /// Runs the command until it ends.
    pub fn run(self) -> Result<Outcome, GuestError> {
        self.start()?.wait()
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn start_tracer(guest: Guest, socket: &Path, end: Arc<AtomicU8>) -> Result<TracerThread, GuestError> {
    crate::linux::start(guest.command, guest.settings, socket, end)
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn terminate_on_signals(order: Arc<AtomicU8>) -> Result<(), GuestError> {
    let handlers = crate::linux::terminate_on_signals(order);
    handlers.map_err(|source| GuestError::System { what: "handlers of signals", source })
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn terminate_on_signals(_: Arc<AtomicU8>) -> Result<(), GuestError> {
    Err(GuestError::Unsupported { os: std::env::consts::OS, arch: std::env::consts::ARCH })
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn start_tracer(_: Guest, _: &Path, _: Arc<AtomicU8>) -> Result<TracerThread, GuestError> {
    Err(GuestError::Unsupported { os: std::env::consts::OS, arch: std::env::consts::ARCH })
}

/// A guest that runs. Dropping it kills the command and everything that it has started.
#[derive(Debug)]
pub struct Running {
    thread: Option<TracerThread>,
    end: Arc<AtomicU8>,
    socket: PathBuf,
    _folder: TemporaryFolder,
}

impl Running {
    /// Connects to its clock.
    pub fn clock(&self) -> Result<Clock, ClockError> {
        Clock::connect(&self.socket)
    }

    /// Ends the guest: `SIGTERM` to the command, `SIGKILL` to everything after the grace.
    pub fn terminate(&self) {
        self.end.store(TERMINATE, Ordering::SeqCst);
    }

    /// Ends the guest at `SIGINT`, `SIGTERM` or `SIGHUP` to this process, and kills it at a second one. For programs
    /// that do nothing but run one guest.
    pub fn terminate_on_signals(&self) -> Result<(), GuestError> {
        terminate_on_signals(Arc::clone(&self.end))
    }

    /// Waits until the command ends. What it has left running is killed.
    pub fn wait(mut self) -> Result<Outcome, GuestError> {
        let thread = self.thread.take().map(JoinHandle::join);
        match thread {
            Some(Ok(outcome)) => outcome,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Err(GuestError::System { what: "the tracer", source: io::Error::other("it was joined twice") }),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.end.store(KILL, Ordering::SeqCst);
            // Its result is of no interest any more.
            let _ = thread.join();
        }
    }
}
