//! Breaks the controllers on purpose and looks whether the fixtures notice.
//!
//! ```text
//! .cargo/mutants.toml ──► files ──find──► mutants ─┐
//! bugs.toml ────────────► edits written by hand ───┴─render─► a copy of the tree, every mutant behind a switch
//!                                                                  │ cargo build: what does not compile is no mutant
//!                                                                  │ cargo build, once
//!                                                                  ▼
//!                                    plumbline run --fail-fast, once for each mutant ──► report.json, report.md
//! ```
//!
//! The operators are those of cargo-mutants. One build for all mutants is what makes a few hundred of them affordable; the
//! fixtures alone judge, no unit test runs.

mod build;
mod edits;
mod find;
mod render;
mod report;
mod run;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What went wrong around the mutants.
type Failure = Box<dyn std::error::Error>;

const HELP: &str = "\
usage: plumbline-mutants <mutants | bugs | list> [OPTION]...

  list         print the mutants of the files in .cargo/mutants.toml
  mutants      build them all, run the suite on each, write mutants.json and mutants.md
  bugs         the same for the bugs in mutants/bugs.toml

  --work DIR        where the copy, the build and the reports go  [default: target/mutants]
  --only TEXT       only mutants whose name contains TEXT
  --keep FILE       take over what an earlier report.json says of mutants that were caught
  --timeout SECS    when a run counts as hanging  [default: 120]";

/// The command line.
struct Args {
    verb: String,
    repository: PathBuf,
    work: PathBuf,
    only: Option<String>,
    keep: Option<PathBuf>,
    timeout: u64,
}

fn args() -> Result<Args, Failure> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("");
    let mut rest = std::env::args().skip(1);
    let verb = rest.next().ok_or(HELP)?;
    let work = repository.join("target/mutants");
    let mut args = Args { verb, repository, work, only: None, keep: None, timeout: 120 };
    while let Some(flag) = rest.next() {
        let value = rest.next().ok_or_else(|| format!("{flag} needs a value\n{HELP}"))?;
        match flag.as_str() {
            "--work" => args.work = std::path::absolute(value)?,
            "--only" => args.only = Some(value),
            "--keep" => args.keep = Some(value.into()),
            "--timeout" => args.timeout = value.parse()?,
            _ => return Err(format!("{flag}: unknown\n{HELP}").into()),
        }
    }
    Ok(args)
}

fn main() -> ExitCode {
    match args().and_then(|args| work(&args)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(100),
        Err(error) => {
            eprintln!("plumbline-mutants: {error}");
            ExitCode::from(96)
        }
    }
}

/// Whether everything is as it should be: nothing survived that the configuration does not list with a reason.
fn work(args: &Args) -> Result<bool, Failure> {
    let config = build::Config::load(&args.repository)?;
    let mut tree = build::Tree::of_mutants(&args.repository, &config)?;
    tree.add(&args.repository, &edits::load(&args.repository)?)?;
    let bugs = match args.verb.as_str() {
        "list" | "mutants" => false,
        "bugs" => true,
        _ => return Err(HELP.into()),
    };
    let wanted = |name: &str| {
        name.starts_with(build::BUG) == bugs && args.only.as_ref().is_none_or(|only| name.contains(only.as_str()))
    };
    if args.verb == "list" {
        tree.subjects.iter().filter(|subject| wanted(&subject.name)).for_each(|subject| println!("{}", subject.name));
        return Ok(true);
    }
    let built = tree.build(&args.repository, &args.work)?;
    let known = args.keep.as_deref().map(report::load).transpose()?.unwrap_or_default();
    let runner = run::Runner::new(&args.repository, &built.program, args.timeout)?;
    let mut outcomes = Vec::new();
    for subject in built.subjects.iter().filter(|subject| wanted(&subject.name)) {
        let kept = known.iter().find(|known| known.name == subject.name && known.caught_by.is_some()).cloned();
        let outcome = kept.map_or_else(|| runner.judge(subject), Ok)?;
        eprintln!("{outcome}");
        outcomes.push(outcome);
        report::write(&args.work.join(format!("{}.json", args.verb)), &outcomes)?;
    }
    let text = report::markdown(&outcomes, built.unviable, &config);
    std::fs::write(args.work.join(format!("{}.md", args.verb)), &text)?;
    println!("{text}");
    Ok(outcomes.iter().all(|outcome| outcome.caught_by.is_some() || config.reason(&outcome.name).is_some()))
}
