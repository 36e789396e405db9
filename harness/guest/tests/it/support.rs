//! Runs guests with a limit of real time and captures their output.

use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use plumbline_guest::{End, Epoch, Guest, Outcome, Report, Running, Stdio};

/// The limit of real time of each guest.
const LIMIT: Duration = Duration::from_mins(1);

/// The output of a guest, and its outcome.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) output: String,
    pub(crate) outcome: Outcome,
}

impl Finished {
    /// Returns the lines of the output. Fails if the command has failed.
    pub(crate) fn lines(&self) -> Vec<&str> {
        assert!(self.outcome.status.success() && self.outcome.end == End::Exited, "{self:?}");
        self.output.lines().collect()
    }

    /// The report.
    pub(crate) fn report(&self) -> &Report {
        &self.outcome.report
    }

    /// The virtual time in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.outcome.report.virtual_time.as_secs_f64()
    }
}

/// Starts a guest with its output in a pipe; a fixed time of day, unless it has another one.
pub(crate) fn start(guest: Guest) -> (Running, std::io::PipeReader) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let errors = writer.try_clone().expect("a copy");
    let guest = guest.stdin(Stdio::Null).stdout(writer).stderr(errors).real_limit(LIMIT);
    (guest.start().expect("a guest"), reader)
}

/// Runs a guest to its end.
pub(crate) fn run(guest: Guest) -> Finished {
    let (running, mut reader) = start(guest);
    let output = std::thread::spawn(move || {
        let mut output = Vec::new();
        reader.read_to_end(&mut output).expect("output");
        String::from_utf8_lossy(&output).into_owned()
    });
    let outcome = running.wait().expect("an outcome");
    Finished { output: output.join().expect("output"), outcome }
}

/// A guest of a shell script.
pub(crate) fn shell(script: &str) -> Guest {
    Guest::new("sh").args(["-c", script]).epoch(epoch())
}

/// A guest of a Python program.
pub(crate) fn python(program: &str) -> Guest {
    // Without the user's packages, it starts faster.
    Guest::new(python_program()).args(["-S", "-E", "-c", program]).epoch(epoch())
}

/// The interpreter itself: a shim of a version manager would start a dozen processes before it.
pub(crate) fn python_program() -> &'static Path {
    static PROGRAM: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
    PROGRAM.get_or_init(|| {
        let print = ["-c", "import sys; print(sys.executable)"];
        let output = std::process::Command::new("python3").args(print).output().expect("python3");
        String::from_utf8(output.stdout).expect("a path").trim().into()
    })
}

/// The time of day at which tests begin.
pub(crate) fn epoch() -> Epoch {
    Epoch::Fixed("2030-01-01T00:00:00Z".parse().expect("a time"))
}

/// Returns true if a program is in `PATH`.
pub(crate) fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// Reports that the calling test does not run, and why. `.ci/run` counts the reasons.
pub(crate) fn skip(test: &str, reason: &str) {
    let _ = writeln!(std::io::stdout(), "skipped: {test}: {reason}");
    if let Some(file) = std::env::var_os("PLUMBLINE_SKIPS") {
        let file = OpenOptions::new().append(true).create(true).open(file);
        file.and_then(|mut file| writeln!(file, "{test}: {reason}")).expect("PLUMBLINE_SKIPS names a writable file");
    }
}
