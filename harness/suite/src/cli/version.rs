//! `plumbline version`: the program and what it serves.

use std::io::Write as _;

use serde_json::json;

use super::error::CliError;
use super::streams::stdout;
use crate::exit::Exit;
use plumbline_apiserver::KubernetesVersion;

/// Print the version of this program and the releases of Kubernetes that it serves.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct VersionArgs {
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// The version of the program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Prints the version.
pub(super) fn main(args: VersionArgs) -> Result<Exit, CliError> {
    let releases = KubernetesVersion::ALL.map(|release| release.to_string());
    let mut out = stdout();
    if args.json {
        let document = json!({
            "version": VERSION,
            "kubernetesVersions": releases,
            "defaultKubernetesVersion": KubernetesVersion::default().to_string(),
            "os": std::env::consts::OS,
            "architecture": std::env::consts::ARCH,
            "static": cfg!(target_feature = "crt-static"),
        });
        writeln!(out, "{document}")?;
    } else {
        writeln!(out, "plumbline {VERSION} (Kubernetes {})", releases.join(", "))?;
    }
    out.flush()?;
    Ok(Exit::Ok)
}
