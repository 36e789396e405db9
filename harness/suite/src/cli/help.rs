//! Help texts: `--help` fits two screens; `plumbline help VERB` shows everything, `plumbline help clusters` the flags
//! of the kinds of clusters.

use std::ffi::OsString;
use std::io::{self, Write as _};

use clap::{Arg, ArgAction, Args as _, Command};

use super::environment::RealClusterArgs;
use crate::exit;

/// The words that ask for the topic about clusters.
const CLUSTERS: [&str; 2] = ["help", "clusters"];
/// Begin of the headings of flags for one kind of cluster.
const HEADING: &str = "Cluster ";
/// Heading of the flags for every kind of cluster.
pub(super) const COMMON_HEADING: &str = "Cluster and subject";

/// Returns the program with short help.
pub(super) fn program(command: Command) -> Command {
    let verbs = "Without a verb: `run`; `plumbline run --help` shows its flags. `plumbline help VERB` says more, \
                 `plumbline help clusters` is about envtest, k3s, kind and kubeconfig.";
    // The flags of `run` would hide the verbs.
    let command = command.mut_args(|arg| arg.hide(true)).after_help(format!("{verbs}\n\n{}", exit::HELP));
    short(command)
}

/// Makes `--help` of a command and its verbs short.
fn short(command: Command) -> Command {
    let has_clusters = command.get_arguments().any(is_about_one_cluster);
    let help = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort).help("Print help");
    let command = command.disable_help_flag(true).arg(help.help_heading(None::<&str>));
    let hide = |arg: Arg| {
        let hidden = is_about_one_cluster(&arg);
        arg.hide_short_help(hidden)
    };
    let command = command.mut_args(hide).mut_subcommands(short);
    if has_clusters && command.get_after_help().is_none() {
        command.after_help("Flags of --cluster envtest, k3s, kind and kubeconfig: plumbline help clusters")
    } else {
        command
    }
}

fn is_about_one_cluster(arg: &Arg) -> bool {
    arg.get_help_heading().is_some_and(|heading| heading.starts_with(HEADING) && heading != COMMON_HEADING)
}

/// Returns true if the program's arguments ask for the topic about clusters.
pub(super) fn asks_for_clusters(arguments: impl Iterator<Item = OsString>) -> bool {
    arguments.eq(CLUSTERS.map(OsString::from))
}

/// Prints the topic about clusters.
pub(super) fn clusters() -> io::Result<()> {
    let usage = "plumbline run|explain|conform|compare --cluster CLUSTER [OPTIONS]";
    let topic = RealClusterArgs::augment_args(Command::new("clusters").disable_help_flag(true));
    let about = "Flags of each kind of cluster; harness/README.md describes the kinds";
    let mut out = super::streams::stdout();
    write!(out, "{}", topic.about(about).override_usage(usage).render_help())?;
    out.flush()
}
