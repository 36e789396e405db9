//! Converts the `OpenMetrics` text of the registry to Prometheus' text format, version 0.0.4. PURE.
//!
//! They differ in the descriptions of counters (`name` versus `name_total`) and in the end marker.

use std::fmt::Write as _;

/// The content type of the result.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns the same samples with descriptions in Prometheus' text format.
pub fn prometheus(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len() + 1024);
    // HELP precedes TYPE, which tells whether the metric is a counter.
    let mut help: Option<(&str, &str)> = None;
    for line in open_metrics.lines().filter(|line| *line != "# EOF") {
        if let Some((name, words)) = line.strip_prefix("# HELP ").map(|rest| rest.split_once(' ').unwrap_or((rest, "")))
        {
            help = Some((name, words));
            continue;
        }
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            let suffix = if kind == "counter" { "_total" } else { "" };
            if let Some((_, words)) = help.take().filter(|(of, _)| *of == name) {
                let _ = writeln!(text, "# HELP {name}{suffix} {words}");
            }
            // Writing to a String cannot fail.
            let _ = writeln!(text, "# TYPE {name}{suffix} {kind}");
            continue;
        }
        if line.starts_with("# UNIT ") {
            continue;
        }
        text.push_str(line);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_described_by_their_full_name() {
        let open_metrics = "# HELP a_b Things.\n# TYPE a_b counter\na_b_total{c=\"d e\"} 1\n\
                            # HELP q Depth.\n# TYPE q gauge\nq 2\n# EOF\n";
        let expected = "# HELP a_b_total Things.\n# TYPE a_b_total counter\na_b_total{c=\"d e\"} 1\n\
                        # HELP q Depth.\n# TYPE q gauge\nq 2\n";
        assert_eq!(prometheus(open_metrics), expected);
    }
}
