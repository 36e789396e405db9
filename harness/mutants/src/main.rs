//! Injects faults into the controllers and checks that the fixtures detect them.
//!
//! ```text
//! .cargo/mutants.toml ──► files ──find──► mutants ─┐
//! bugs, semantic, fresh.toml ► edits written by hand ┴─render─► a copy of the tree, every mutant behind a switch
//!                                                                  │ cargo build: what does not compile is no mutant
//!                                                                  ▼
//!                                    plumbline run --fail-fast, for each mutant ──► mutants.json, mutants.md
//! ```
//!
//! The operators are those of cargo-mutants. All mutants share one build, which makes it affordable to run a few
//! hundred of them. Only the fixtures judge; unit tests do not run.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program whose output is its report")]

mod build;
mod edits;
mod find;
mod render;
mod report;
mod run;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// An error of the tool itself.
type Failure = Box<dyn std::error::Error>;

const HELP: &str = "\
usage: plumbline-mutants <mutants | bugs | semantic | fresh | list | build> [OPTION]...

  list         print the mutants of the files in .cargo/mutants.toml and those of harness/mutants/semantic.toml
  mutants      build them all, run the suite on each, write mutants.json and mutants.md
  bugs         the same for the bugs in harness/mutants/bugs.toml
  semantic     the same for the mutants in harness/mutants/semantic.toml alone
  fresh        the same for those in harness/mutants/fresh.toml, which were written without a look at the fixtures
  build        build them all without running the suite, print their numbers for PLUMBLINE_MUTANT

  --from FILE       with fresh: another file in harness/mutants/, such as fresh2.toml
  --work DIR        folder for the copy, the build and the reports  [default: target/mutants]
  --only TEXT       only mutants whose name contains TEXT
  --restart         discard the results of an earlier run even if nothing has changed
  --remember        save the fixture that caught each mutant to harness/mutants/caught.toml, to try it first next time
  --jobs N          fixtures that run in parallel  [default: one per core]
  --explore BUDGET  judge by `plumbline explore --budget BUDGET` instead of the fixtures' expectations: 10m
  --sample N        only N of the operators' mutants that the fixtures caught, chosen by --seed; not those of objects
  --seed N          decides which                                 [default: 1]
  --strategy NAME   with --explore: its strategy  [default: all]
  --replicas N      with --explore: number of replicas with leader election  [default: 1]
  --timeout SECS    time limit of a run  [default: three times the duration without a mutant, at least 60]

Results are saved in mutants.json below DIR; an interrupted run resumes from there.";

/// The command line.
struct Args {
    verb: String,
    repository: PathBuf,
    work: PathBuf,
    /// The file of the verb `fresh`.
    from: String,
    only: Option<String>,
    restart: bool,
    remember: bool,
    jobs: Option<String>,
    explore: Option<String>,
    strategy: String,
    replicas: Option<String>,
    timeout: Option<u64>,
    sample: Option<usize>,
    seed: u64,
}

fn args() -> Result<Args, Failure> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let mut rest = std::env::args().skip(1);
    let verb = rest.next().ok_or(HELP)?;
    let work = repository.join("target/mutants");
    let mut args = Args {
        verb,
        repository,
        work,
        from: "fresh.toml".to_owned(),
        only: None,
        restart: false,
        remember: false,
        jobs: None,
        explore: None,
        strategy: "all".to_owned(),
        replicas: None,
        timeout: None,
        sample: None,
        seed: 1,
    };
    while let Some(flag) = rest.next() {
        let mut value = || rest.next().ok_or_else(|| format!("{flag} needs a value\n{HELP}"));
        match flag.as_str() {
            "--restart" => args.restart = true,
            "--remember" => args.remember = true,
            "--work" => args.work = std::path::absolute(value()?)?,
            "--from" => args.from = value()?,
            "--only" => args.only = Some(value()?),
            "--jobs" => args.jobs = Some(value()?),
            "--explore" => args.explore = Some(value()?),
            "--strategy" => args.strategy = value()?,
            "--replicas" => args.replicas = Some(value()?),
            "--sample" => args.sample = Some(value()?.parse()?),
            "--seed" => args.seed = value()?.parse()?,
            "--timeout" => args.timeout = Some(value()?.parse()?),
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

/// Returns true if every survivor is listed with a reason in the configuration.
fn work(args: &Args) -> Result<bool, Failure> {
    let config = build::Config::load(&args.repository)?;
    // The operators' mutants take most of the time to compile.
    let is_alone =
        ["bugs", "semantic", "fresh"].contains(&args.verb.as_str()) || args.only.as_deref() == Some("semantic");
    let mut tree = if is_alone { build::Tree::default() } else { build::Tree::of_mutants(&args.repository, &config)? };
    let memory = args.repository.join("harness/mutants/caught.toml");
    let hints = report::caught(&memory)?;
    if let Some(number) = args.sample {
        let decides = |subject: &build::Subject| !subject.place.starts_with("controllers/src/api/");
        tree.sample(number, args.seed, |subject| decides(subject) && hints.contains_key(&subject.name));
    }
    if !["semantic", "fresh"].contains(&args.verb.as_str()) && args.only.as_deref() != Some("semantic") {
        tree.add(&args.repository, build::BUG, &edits::load(&args.repository, "bugs.toml")?)?;
    }
    if !["bugs", "fresh"].contains(&args.verb.as_str()) {
        tree.add(&args.repository, build::SEMANTIC, &edits::load(&args.repository, "semantic.toml")?)?;
    }
    if args.verb == "fresh" {
        tree.add(&args.repository, build::FRESH, &edits::load(&args.repository, &args.from)?)?;
    }
    let bugs = match args.verb.as_str() {
        "list" | "mutants" | "build" | "semantic" | "fresh" => false,
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
    if args.verb == "build" {
        built.subjects.iter().for_each(|subject| println!("{:4} {}", subject.id, subject.name));
        println!(
            "{} can be switched on, {} do not compile: {}",
            built.subjects.len(),
            built.unviable,
            built.program.display()
        );
        return Ok(true);
    }
    let runner = run::Runner::new(&args.repository, &built.program, args)?.with_hints(hints.clone());
    let name = if args.verb == "fresh" { args.from.trim_end_matches(".toml") } else { &args.verb };
    // The two ways of judging have results of their own.
    let name = if args.explore.is_some() { format!("{name}-explore") } else { name.to_owned() };
    let file = args.work.join(format!("{name}.json"));
    let stamp = build::stamp(&args.repository)?;
    let mut state =
        if args.restart { report::State { stamp, ..Default::default() } } else { report::State::load(&file, stamp) };
    let mut outcomes = Vec::new();
    for subject in built.subjects.iter().filter(|subject| wanted(&subject.name)) {
        let outcome = match state.of(&subject.name) {
            Some(known) => known.clone(),
            None => runner.judge(subject)?,
        };
        eprintln!("{outcome}");
        if state.of(&subject.name).is_none() {
            state.outcomes.push(outcome.clone());
            state.write(&file)?;
        }
        outcomes.push(outcome);
    }
    if args.remember && args.explore.is_none() {
        report::remember(&memory, hints, &state.outcomes)?;
    }
    let text = report::markdown(&outcomes, built.unviable, &config);
    std::fs::write(args.work.join(format!("{name}.md")), &text)?;
    println!("{text}");
    Ok(outcomes.iter().all(|outcome| outcome.caught_by.is_some() || config.reason(&outcome.name).is_some()))
}
