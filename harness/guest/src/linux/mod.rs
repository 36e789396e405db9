//! The tracer, for Linux on x86-64.

mod arch;
mod backlog;
mod calls;
mod clocks;
mod control;
mod device_io;
mod elf;
mod events;
mod exec;
mod filter;
mod fire;
mod image;
mod launch;
mod outside;
mod places;
mod prompts;
mod readers;
mod rest;
mod routes;
mod run;
mod sockets;
mod state;
mod sys;
mod table;
mod terminals;
mod timer_files;
mod timers;
mod waits;
mod watch;

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use self::clocks::{Clocks, SECOND};
use self::control::Control;
use self::image::Image;
use self::outside::Outside;
use self::state::Tracer;
pub(crate) use self::sys::order_on_signals as terminate_on_signals;
use self::sys::{Interrupter, Step};
use self::table::Activity;
use crate::outcome::{End, GuestError, Outcome, TracerThread};
use crate::settings::{Command, Epoch, Network, Settings};

/// The monotonic clocks at the start of a guest with a fixed epoch: a machine that has run for a day.
const UPTIME: u64 = 86_400 * SECOND;

/// The reason for which nothing can be traced where everything is traced already.
const TRACED: &str = "ptrace is not possible here, where another program traces this one already: in virtual time, and \
                      under a debugger, strace or rr, start the command itself";

/// Starts the thread that traces, and returns once the command's program is executed.
pub(crate) fn start(
    command: Command,
    settings: Settings,
    socket: &Path,
    order: Arc<AtomicU8>,
) -> Result<TracerThread, GuestError> {
    let (sender, started) = channel();
    let socket = socket.to_owned();
    let trace = move || trace(command, settings, &socket, order, sender);
    let thread = thread::Builder::new().name("plumbline-guest".to_owned()).spawn(trace);
    let thread = thread.map_err(|source| GuestError::System { what: "a thread for the tracer", source })?;
    match started.recv() {
        Ok(()) => Ok(thread),
        Err(_) => match thread.join() {
            Ok(outcome) => Err(outcome.err().unwrap_or_else(|| GuestError::System {
                what: "the command ended before its program was executed",
                source: io::Error::other("it was killed"),
            })),
            Err(panic) => std::panic::resume_unwind(panic),
        },
    }
}

/// Returns the clocks at the start.
fn clocks(settings: &Settings) -> Clocks {
    let whole = |nanoseconds: u64| nanoseconds / SECOND * SECOND;
    let (monotonic_start, realtime_start) = match settings.epoch {
        Epoch::Now => (whole(sys::real_monotonic()), whole(sys::real_time())),
        Epoch::Fixed(time) => (UPTIME, u64::try_from(time.as_nanosecond()).unwrap_or(0)),
    };
    Clocks { elapsed: 0, monotonic_start, realtime_start }
}

/// Runs a guest on the calling thread.
fn trace(
    command: Command,
    settings: Settings,
    socket: &Path,
    order: Arc<AtomicU8>,
    started: Sender<()>,
) -> Result<Outcome, GuestError> {
    let system = |what| move |source| GuestError::System { what, source };
    let program = PathBuf::from(&command.program);
    let launch = launch::prepare(command, &settings, socket)?;
    let control = Control::new(socket, settings.is_manual).map_err(system("the time socket"))?;
    let interrupter = Interrupter::new().map_err(system("a timer of the tracer"))?;
    let image = Image::new();
    let mut child = sys::fork(&launch).map_err(system("fork"))?;
    let network = child.message();
    let forbidden = "ptrace is not permitted here: allow it (in a container: --cap-add SYS_PTRACE, or a kernel of at \
                     least 4.8 with the default profile)";
    if let Err(source) = sys::seize(child.process) {
        let is_traced = watch::is_traced();
        let _ = sys::kill(child.process, libc::SIGKILL);
        return Err(system(if is_traced { TRACED } else { forbidden })(source));
    }
    child.go();
    drop(launch);
    let (image, image_error) = match image {
        Ok(image) => (image, None),
        Err(error) => (None, Some(error)),
    };
    let clocks = clocks(&settings);
    let mut tracer = Tracer::new(settings, clocks, image, control, child, order, interrupter);
    if let Some(error) = image_error {
        tracer.warn(format!("programs cannot share a page of clocks ({error}): each reading of a clock is slow"));
    }
    if let Some((Step::Network, error)) = network.filter(|(_, error)| *error != 0) {
        let error = io::Error::from_raw_os_error(error);
        tracer.warn(format!(
            "no network namespace of its own ({error}): peers outside live in real time, and ports are shared"
        ));
    }
    if tracer.settings.network == Network::Shared {
        tracer.warn(
            "the network is that of the machine: peers outside live in real time, and time may pass while data is on \
             its way"
                .to_owned(),
        );
    }
    tracer.set_time(0);
    let main = tracer.main.process;
    if tracer.settings.has_own_clock {
        tracer.control.obey_only(main);
    }
    tracer.add(main, main, 0, Activity::Running);
    if let Err(error) = tracer.start_program(&program, started) {
        tracer.kill(End::Exited);
        // Nothing outlives the tracer.
        tracer.run();
        return Err(error);
    }
    tracer.run();
    let status = ExitStatus::from_raw(tracer.status.unwrap_or_default());
    Ok(Outcome { status, end: tracer.end, report: tracer.finish() })
}

impl Tracer {
    /// Handles events until the command's program is executed, or cannot be.
    fn start_program(&mut self, program: &Path, started: Sender<()>) -> Result<(), GuestError> {
        while !self.has_started {
            match sys::next_event(true) {
                Ok(Some(event)) => self.handle(event),
                Ok(None) => {}
                Err(_) => break,
            }
        }
        if let Some(reason) = self.refusal {
            return Err(GuestError::Refused { program: program.to_owned(), reason });
        }
        if self.has_started {
            self.outside = Outside::of(self.main.process);
            // Nothing is lost if the caller has gone.
            let _ = started.send(());
            return Ok(());
        }
        let (step, error) = self.main.message().unwrap_or((Step::Exec, libc::EINTR));
        let source = io::Error::from_raw_os_error(error);
        Err(match step {
            Step::Filter => GuestError::System { what: "a seccomp filter is not permitted here", source },
            Step::Files | Step::Network | Step::Exec => {
                GuestError::Program { program: program.to_owned(), source: explain(source) }
            }
        })
    }
}

/// Adds what to do to the errors of exec.
fn explain(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ENOEXEC) => io::Error::new(
            error.kind(),
            format!("{error}: it is made for another machine, or is a script without #! in its first line"),
        ),
        _ => error,
    }
}
