//! Reads a conformance report, prints its verdict per profile, and lists the fixtures that did not pass.
//!
//! ```text
//! cargo run -p plumbline-suite --example read_report -- conformance/report.yaml
//! ```
#![expect(clippy::print_stdout, reason = "the output of an example")]

use std::error::Error;

use plumbline_suite::conformance::report::{ConformanceOutcome, ConformanceReport};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: read_report REPORT")?;
    let report = ConformanceReport::read(&std::fs::read_to_string(&path)?)?;
    let implementation = &report.implementation;
    println!("{} {} on Kubernetes {}", implementation.project, implementation.version, report.kubernetes_version);
    for profile in &report.profiles {
        let verdict = if profile.conformant { "conformant" } else { "not conformant" };
        println!("{}: {verdict} {}", profile.name, profile.reasons.join("; "));
    }
    for fixture in report.with(ConformanceOutcome::Fail) {
        println!("{}: {}", fixture.id, fixture.reason);
    }
    // The digest of an edited report differs from the one it states.
    if report.digest() != report.digest {
        return Err("the report was edited: its digest does not match".into());
    }
    Ok(())
}
