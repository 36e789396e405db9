//! Help texts: `--help` fits two screens; `plumbline help VERB` shows everything, `plumbline help clusters` the flags of
//! each kind of cluster.

use std::io::{self, Write as _};

use clap::{Arg, ArgAction, Args as _, Command};

use super::environment::RealClusterArgs;
use crate::exit;

/// The topic about clusters.
pub(super) const CLUSTERS: &str = "clusters";
/// Begin of the headings of flags for one kind of cluster.
const HEADING: &str = "Cluster ";
/// Heading of the flags for every kind of cluster.
pub(super) const COMMON_HEADING: &str = "Cluster and subject";

/// Returns the program with short help and the topic about clusters.
pub(super) fn program(command: Command) -> Command {
    let usage = "plumbline run|explain|conform|compare|scale --cluster CLUSTER [OPTIONS]";
    let clusters = Command::new(CLUSTERS).about("Flags of each kind of cluster").hide(true).override_usage(usage);
    let verbs = "Without a verb: `run`; `plumbline run --help` shows its flags. `plumbline help VERB` says more.";
    // The flags of `run` would hide the verbs.
    let command = command.mut_args(|arg| arg.hide(true)).after_help(format!("{verbs}\n\n{}", exit::HELP));
    short(command).subcommand(RealClusterArgs::augment_args(clusters))
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
    if has_clusters && !command.is_hide_set() && command.get_after_help().is_none() {
        command.after_help("Flags of --cluster envtest, k3s, kind and kubeconfig: plumbline help clusters")
    } else {
        command
    }
}

fn is_about_one_cluster(arg: &Arg) -> bool {
    arg.get_help_heading().is_some_and(|heading| heading.starts_with(HEADING) && heading != COMMON_HEADING)
}

/// Prints the topic about clusters.
pub(super) fn clusters(mut program: Command) -> io::Result<()> {
    let topic = program.find_subcommand_mut(CLUSTERS).map(|topic| topic.render_long_help().to_string());
    let mut out = super::stdout();
    write!(out, "{}", topic.unwrap_or_default())?;
    out.flush()
}
