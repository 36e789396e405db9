//! The command line: its verbs, each with the flags of its file.

use clap::{Parser, Subcommand};

use super::environment::EnvironmentArgs;
use super::serve::ServeArgs;
use super::streams::PROGRAM;
use super::{compare, conform, explain, explore, lint, list, repeat, replay, review, run, site, test, verify, version};

/// Tests Kubernetes controllers: a cluster with a clock, a conformance suite, and exploration of faults
///
/// Without a verb: `run`, or without fixtures and arguments a greeting.
#[derive(Debug, Parser)]
#[command(name = PROGRAM, version, args_conflicts_with_subcommands = true)]
pub struct Cli {
    #[command(subcommand)]
    pub(super) verb: Option<CliVerb>,
    #[command(flatten)]
    pub(super) run: run::RunArgs,
}

#[derive(Debug, Subcommand)]
pub(super) enum CliVerb {
    /// Run fixtures (the default)
    Run(run::RunArgs),
    /// Run fixtures repeatedly, shuffled and with varying numbers of jobs, until one differs from its first run
    Repeat(repeat::RepeatArgs),
    /// Run the failures of `run --evidence` or `conform` again and compare
    Replay(replay::ReplayArgs),
    /// Show the changes of snapshots between two commits, equal ones once
    Review(review::ReviewArgs),
    /// List fixtures, or the ones selected by filters
    List(list::ListArgs),
    /// Check fixtures without running them
    Lint(lint::LintArgs),
    /// Print the JSON Schema of fixtures, for editors
    Schema,
    /// Print the version of this program and the releases of Kubernetes that it serves
    Version(version::VersionArgs),
    /// Show a fixture's promise, steps and the transcript of a run
    Explain(explain::ExplainArgs),
    /// Test an implementation and write its conformance report
    Conform(conform::ConformArgs),
    /// Verify that conformance reports are consistent
    Verify(verify::VerifyArgs),
    /// Copy a conformance report to the published ones
    Publish(verify::PublishArgs),
    /// Make a website of conformance reports
    Site(site::SiteArgs),
    /// Inject faults that no fixture names and judge the runs without the fixtures' expectations
    Explore(Box<explore::ExploreArgs>),
    /// Compare two subjects
    Compare(compare::CompareArgs),
    /// Serve the fake API server to kubectl and other clients
    Serve(ServeArgs),
    /// Run a command beside a cluster of its own, both in virtual time: waiting costs nothing
    ///
    /// Without --kubelet, --loops, --controllers, --disable-admission-plugins or --bare the cluster is like one of kind
    /// (--like kind): one node, all loops and controllers. With one of them it has the defaults below.
    Test(Box<test::TestArgs>),
}

impl CliVerb {
    /// Returns true if the verb judges nothing: a reader of its output may close the pipe when it has enough.
    pub(super) const fn only_shows(&self) -> bool {
        matches!(
            self,
            Self::List(_) | Self::Lint(_) | Self::Schema | Self::Version(_) | Self::Explain(_) | Self::Review(_)
        )
    }
}

impl Cli {
    /// Returns true if this process has to be traced, because the verb runs a program in virtual time beside what it
    /// does itself.
    pub(super) fn needs_guest(&self) -> bool {
        let whole = |environment: &EnvironmentArgs| environment.needs_guest() && !environment.runs_apart();
        let of_run = |run: &run::RunArgs| !run.watches() && whole(&run.environment);
        match &self.verb {
            None => of_run(&self.run),
            Some(CliVerb::Run(args)) => of_run(args),
            Some(CliVerb::Explain(args)) => whole(&args.environment),
            Some(CliVerb::Conform(args)) => whole(&args.environment),
            Some(CliVerb::Compare(args)) => args.environments().any(|environment| whole(&environment)),
            Some(CliVerb::Repeat(args)) => args.needs_guest(),
            _ => false,
        }
    }
}
