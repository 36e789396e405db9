//! `plumbline-loadtest bench`: benchmarks of the API server.

use std::io::{self, Write as _};
use std::path::PathBuf;

use plumbline_suite::cli::read_report;
use plumbline_suite::cli::{CliError, notify};
use plumbline_suite::exit::Exit;

use super::program::PROGRAM;
use crate::bench::{self, LoadShape, ServerUnderTest, report::BenchReport};

/// Flags of `bench`.
#[derive(Debug, clap::Args)]
pub(super) struct BenchArgs {
    #[command(subcommand)]
    what: BenchTarget,
}

#[derive(Debug, clap::Subcommand)]
enum BenchTarget {
    /// Benchmark the API server over HTTPS with the load of a large cluster, and compare with the targets
    Server(ServerArgs),
}

#[derive(Debug, clap::Args)]
struct ServerArgs {
    /// Number of pods to create
    #[arg(long, value_name = "COUNT", default_value_t = LoadShape::default().pods)]
    pods: usize,
    /// Number of nodes to create
    #[arg(long, value_name = "COUNT", default_value_t = LoadShape::default().nodes)]
    nodes: usize,
    /// Number of budgets to create, each with a replica set
    #[arg(long, value_name = "COUNT", default_value_t = LoadShape::default().budgets)]
    budgets: usize,
    /// Connections that write
    #[arg(long, value_name = "COUNT", default_value_t = LoadShape::default().connections)]
    connections: usize,
    /// Let all writers share this many HTTP/2 connections, as clients with client-go do; 0: HTTP/1.1
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    http2: usize,
    /// Number of watchers in the watch stage; 0 skips the stage
    #[arg(long, value_name = "COUNT", default_value_t = LoadShape::default().watchers)]
    watchers: usize,
    /// Writes per second in the watch stage
    #[arg(long, value_name = "COUNT", default_value_t = LoadShape::default().rate)]
    rate: usize,
    /// Duration of the watch stage
    #[arg(long, value_name = "SECONDS", default_value_t = LoadShape::default().seconds)]
    seconds: usize,
    /// Benchmark the empty API server of this kubeconfig instead of a `serve` process
    #[arg(long, value_name = "KUBECONFIG")]
    against: Option<PathBuf>,
    /// With --against, a process of that server, for memory and CPU time; may be repeated
    #[arg(long = "pid", value_name = "PID", requires = "against")]
    pids: Vec<u32>,
    /// Let the server record its transcript of all requests too
    #[arg(long, conflicts_with = "against")]
    transcript: bool,
    /// Also measure with these percentages of the size, for curves over the size
    #[arg(long, value_name = "PERCENTS", value_delimiter = ',', conflicts_with = "against",
        value_parser = clap::value_parser!(u8).range(1..=99))]
    sizes: Vec<u8>,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    output: BenchFormat,
    /// Report (JSON) of another server or size to draw beside this one; may be repeated
    #[arg(long, value_name = "REPORT")]
    beside: Vec<PathBuf>,
    /// Exit with 100 if a target is missed
    #[arg(long)]
    enforce: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum BenchFormat {
    /// A table
    Text,
    /// One JSON document
    Json,
    /// One HTML page with curves
    Html,
}

/// Runs the verb.
pub(super) fn main(args: &BenchArgs) -> Result<Exit, CliError> {
    let BenchTarget::Server(args) = &args.what;
    let environment = |why: String| CliError::Environment(why);
    let subject = match &args.against {
        Some(kubeconfig) => ServerUnderTest::Running { kubeconfig: kubeconfig.clone(), pids: args.pids.clone() },
        None => ServerUnderTest::Serve {
            program: std::env::current_exe()
                .map_err(|error| environment(format!("unable to find this program: {error}")))?,
            arguments: if args.transcript { Vec::new() } else { vec!["--no-transcript".to_owned()] },
        },
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| environment(format!("unable to start the runtime: {error}")))?;
    let shape = LoadShape {
        pods: args.pods,
        nodes: args.nodes,
        budgets: args.budgets,
        connections: args.connections.max(1),
        shared: args.http2,
        watchers: args.watchers,
        rate: args.rate.max(1),
        seconds: args.seconds.max(1),
    };
    let beside = beside(args)?;
    let report = runtime.block_on(measure(&subject, shape, &args.sizes));
    let report = report.map_err(|error| environment(error.to_string()))?;
    print(&report, &beside, args.output)?;
    let missed: Vec<&str> = report.missed().map(|row| row.name.as_str()).collect();
    if missed.is_empty() {
        return Ok(Exit::Ok);
    }
    notify(&format!("{PROGRAM}: targets missed: {}", missed.join(" · ")));
    Ok(if args.enforce { Exit::FixturesFailed } else { Exit::Ok })
}

/// Measures with the load, then with those of other sizes.
async fn measure(
    subject: &ServerUnderTest,
    shape: LoadShape,
    percents: &[u8],
) -> Result<BenchReport, bench::BenchError> {
    let mut report = bench::run(subject, shape, &|text| notify(&text)).await?;
    for percent in percents {
        let shape = shape.percent((*percent).into());
        notify(&format!("{percent} % of the size: {} pods", shape.pods));
        report.sizes.push(bench::run(subject, shape, &|text| notify(&text)).await?);
    }
    Ok(report)
}

/// Reads the reports to draw beside the new one.
fn beside(args: &ServerArgs) -> Result<Vec<BenchReport>, CliError> {
    if args.output != BenchFormat::Html && !args.beside.is_empty() {
        return Err(CliError::Usage("--beside requires --output html".to_owned()));
    }
    args.beside.iter().map(|path| read_report("--beside", path, "ServerBenchmark")).collect()
}

fn print(report: &BenchReport, beside: &[BenchReport], output: BenchFormat) -> io::Result<()> {
    let mut out = plumbline_suite::cli::stdout();
    match output {
        BenchFormat::Text => report.table(&mut out)?,
        BenchFormat::Json => {
            serde_json::to_writer_pretty(&mut out, report)?;
            writeln!(out)?;
        }
        BenchFormat::Html => out.write_all(bench::page::page(report, beside).as_bytes())?,
    }
    out.flush()
}
