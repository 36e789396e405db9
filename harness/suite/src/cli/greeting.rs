//! `plumbline` without arguments where there are no fixtures: what the program is for.

use std::io::{self, Write as _};

/// Prints five lines.
pub(super) fn main() -> io::Result<()> {
    let mut out = super::streams::stdout();
    let version = env!("CARGO_PKG_VERSION");
    write!(
        out,
        "plumbline {version}: a Kubernetes API with a clock, and the proof that controllers behave\n  \
         plumbline serve --like kind --kubeconfig kc   a cluster for kubectl and tests in any language\n  \
         plumbline run                                 the conformance suite, hours of virtual time in seconds\n  \
         plumbline conform --help                      tests your implementation and writes a report\n  \
         plumbline --help                              all verbs\n"
    )?;
    out.flush()
}
