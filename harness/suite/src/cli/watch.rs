//! `plumbline run --watch`: runs again what a changed fixture or program touches, until a signal ends it.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use plumbline::fixture::{Fixture, parse};
use plumbline::time::Stopwatch;

use super::environment::Environment;
use super::error::CliError;
use super::run::{RunArgs, exit, run_once};
use super::streams::notify as say;
use crate::exit::Exit;
use crate::process::signals;

/// Quiet time after a change: an editor or a linker may write more.
const QUIET: Duration = Duration::from_millis(30);
/// Limit on the wait for a quiet time.
const PATIENCE: Duration = Duration::from_millis(100);
/// Time between two looks at signals.
const LOOK: Duration = Duration::from_millis(100);

/// The files that have changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct FileChanges {
    /// Fixture files, also removed ones.
    fixtures: BTreeSet<PathBuf>,
    /// Programs.
    programs: BTreeSet<PathBuf>,
}

impl FileChanges {
    fn is_empty(&self) -> bool {
        self.fixtures.is_empty() && self.programs.is_empty()
    }
}

/// Watches the fixtures and the subject's program.
struct FileWatch {
    events: Receiver<notify::Result<notify::Event>>,
    /// The folder of fixtures, as their paths begin.
    folder: PathBuf,
    /// The same folder, as paths in events begin.
    absolute: PathBuf,
    programs: Vec<PathBuf>,
    /// Reports events as long as it lives.
    _watcher: RecommendedWatcher,
}

impl FileWatch {
    fn start(folder: &Path, programs: Vec<PathBuf>) -> notify::Result<Self> {
        let (sender, events) = channel();
        let mut watcher = notify::recommended_watcher(move |event| {
            // The receiver is gone when the program ends.
            let _ = sender.send(event);
        })?;
        let absolute = std::path::absolute(folder).map_err(notify::Error::io)?;
        watcher.watch(&absolute, RecursiveMode::Recursive)?;
        // A linker replaces the file, so the folder is watched.
        let folders: BTreeSet<&Path> = programs.iter().filter_map(|program| program.parent()).collect();
        for folder in folders {
            watcher.watch(folder, RecursiveMode::NonRecursive)?;
        }
        Ok(Self { events, folder: folder.to_owned(), absolute, programs, _watcher: watcher })
    }

    /// Waits for a change; `None` if a signal ends the program.
    fn next(&self) -> Option<FileChanges> {
        let mut changes = FileChanges::default();
        while changes.is_empty() {
            match self.events.recv_timeout(LOOK) {
                Ok(event) => self.add(&mut changes, event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
            if signals::requested().is_some() {
                return None;
            }
        }
        let begin = Stopwatch::start();
        while let Some(rest) = PATIENCE.checked_sub(begin.elapsed()) {
            match self.events.recv_timeout(QUIET.min(rest)) {
                Ok(event) => self.add(&mut changes, event),
                Err(_) => break,
            }
        }
        Some(changes)
    }

    fn add(&self, changes: &mut FileChanges, event: notify::Result<notify::Event>) {
        let Ok(event) = event else { return };
        // Reading a file is an event as well.
        if !matches!(event.kind, EventKind::Create(_) | EventKind::Modify(_) | EventKind::Remove(_)) {
            return;
        }
        for path in event.paths {
            let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
            let is_yaml = path.extension().is_some_and(|end| end == "yaml");
            if self.programs.contains(&path) {
                changes.programs.insert(path);
            } else if is_yaml
                && !is_hidden
                && let Ok(below) = path.strip_prefix(&self.absolute)
            {
                changes.fixtures.insert(self.folder.join(below));
            }
        }
    }
}

/// Runs the selected fixtures, and again those that a change touches.
pub(super) fn main(args: &RunArgs, explain_flags: &str) -> Result<Exit, CliError> {
    let folder = args.select().folder().find()?;
    let mut fixtures = args.select().load()?;
    let environment = args.start(explain_flags)?;
    let programs = args.programs();
    let failed = |error: notify::Error| CliError::Environment(format!("unable to watch files: {error}"));
    let watch = FileWatch::start(&folder, programs.clone()).map_err(failed)?;
    let mut last = exit(&run_once(args, explain_flags, &fixtures, &environment)?);
    let names: Vec<String> = [folder.clone()].iter().chain(&programs).map(|path| path.display().to_string()).collect();
    let waiting = format!("plumbline: watching {}; an interrupt (Ctrl+C) ends it", names.join(", "));
    say(&waiting);
    while let Some(changes) = watch.next() {
        match again(args, explain_flags, &folder, &mut fixtures, &environment, &changes) {
            Ok(exit) => last = exit,
            Err(CliError::BadFixtures(problems)) => say(&format!("plumbline: {problems}")),
            Err(CliError::Nothing(why)) => say(&format!("plumbline: nothing to run: {why}")),
            Err(error) => return Err(error),
        }
        say(&waiting);
    }
    match environment.close() {
        // An interrupt is the usual end.
        Err(_) if signals::requested().is_some() => Ok(last),
        closed => closed.map(|()| last),
    }
}

/// Runs what `changes` touch.
fn again(
    args: &RunArgs,
    explain_flags: &str,
    folder: &Path,
    fixtures: &mut Vec<Fixture>,
    environment: &Environment,
    changes: &FileChanges,
) -> Result<Exit, CliError> {
    let paths = changes.programs.iter().chain(&changes.fixtures).map(|path| path.display().to_string());
    say(&format!("\nplumbline: changed: {}", paths.collect::<Vec<_>>().join(", ")));
    if !changes.programs.is_empty() && args.is_in_process() {
        return Err(restart(&changes.programs));
    }
    for file in &changes.fixtures {
        let read = if file.is_file() { parse::load_file(folder, file).map_err(CliError::BadFixtures)? } else { vec![] };
        fixtures.retain(|fixture| fixture.file != *file);
        fixtures.extend(read);
    }
    fixtures.sort_by(|a, b| a.id.cmp(&b.id));
    parse::check_collection(fixtures).map_err(CliError::BadFixtures)?;
    if !changes.programs.is_empty() {
        return run_once(args, explain_flags, fixtures, environment).map(|report| exit(&report));
    }
    let touched: Vec<Fixture> =
        fixtures.iter().filter(|fixture| changes.fixtures.contains(&fixture.file)).cloned().collect();
    run_once(args, explain_flags, &touched, environment).map(|report| exit(&report))
}

/// Replaces this process by the new version of its program. Returns only if that fails.
fn restart(programs: &BTreeSet<PathBuf>) -> CliError {
    let Some(program) = programs.first() else { return CliError::Environment("no program".to_owned()) };
    let mut error = io::Error::from(io::ErrorKind::NotFound);
    let begin = Stopwatch::start();
    // A linker may still write the file.
    while begin.elapsed() < Duration::from_secs(10) && signals::requested().is_none() {
        if program.is_file() {
            error = Command::new(program).args(std::env::args_os().skip(1)).exec();
        }
        std::thread::sleep(QUIET);
    }
    CliError::Environment(format!("unable to start {}: {error}", program.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixtures_and_programs_are_seen_and_other_files_are_not() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let folder = root.path().join("fixtures");
        let bin = root.path().join("bin");
        std::fs::create_dir_all(folder.join("ttl")).expect("a folder");
        std::fs::create_dir_all(&bin).expect("a folder");
        let program = bin.join("me");
        let fixture = folder.join("ttl/a.yaml");
        std::fs::write(&program, "1").expect("a file");
        std::fs::write(&fixture, "1").expect("a file");
        let watch = FileWatch::start(&folder, vec![program.clone()]).expect("a watch");
        let set = |path: &PathBuf| BTreeSet::from([path.clone()]);

        std::fs::write(folder.join("ttl/.#a.yaml"), "2").expect("a file");
        std::fs::write(bin.join("other"), "2").expect("a file");
        assert_eq!(std::fs::read_to_string(&fixture).expect("a file"), "1");
        std::fs::write(&fixture, "2").expect("a file");
        assert_eq!(watch.next(), Some(FileChanges { fixtures: set(&fixture), ..FileChanges::default() }));

        // As a linker does it.
        std::fs::write(bin.join("me.new"), "2").expect("a file");
        std::fs::rename(bin.join("me.new"), &program).expect("a file");
        assert_eq!(watch.next(), Some(FileChanges { programs: set(&program), ..FileChanges::default() }));

        std::fs::remove_file(&fixture).expect("a file");
        assert_eq!(watch.next(), Some(FileChanges { fixtures: set(&fixture), ..FileChanges::default() }));
    }
}
