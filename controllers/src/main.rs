//! The binary: flags, clients, signals, exit code.

use std::io::Write as _;
use std::process::ExitCode;

use clap::CommandFactory as _;
use plumbline_controllers::app::{App, AppError, Config};
use plumbline_controllers::args::layers::{self, LayerError};
use plumbline_controllers::args::{Args, ArgsError};
use plumbline_controllers::connect;
use plumbline_controllers::exit::Exit;
use plumbline_controllers::runtime::clock::Clock;
use plumbline_controllers::runtime::metrics::Metrics;
use plumbline_controllers::runtime::serve::{ServeOptions, Server};
use plumbline_controllers::runtime::shutdown;
use tokio_util::sync::CancellationToken;

/// Returns memory to the system after the initial lists; glibc's allocator keeps memory that threads freed.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    let read = |path: &std::path::Path| std::fs::read_to_string(path);
    let args = match layers::parse(std::env::args_os(), |name| std::env::var(name).ok(), read) {
        Ok(args) => args,
        Err(error) => return unusable(&error),
    };
    if let Some(shell) = args.completions {
        let mut command = Args::command();
        clap_complete::generate(shell, &mut command, "plumbline-controllers", &mut std::io::stdout());
        return Exit::Stopped.into();
    }
    connect::log_to_stderr(&args);
    Box::pin(run(&args)).await.into()
}

async fn run(args: &Args) -> Exit {
    let (config, port) = match config(args) {
        Ok(config) => config,
        Err(error) => return failed(&error, Exit::Usage),
    };
    let (clients, host) = match connect::connect(args).await {
        Ok(connected) => connected,
        Err(error) => return failed(&error, Exit::Kubeconfig),
    };
    let stop = CancellationToken::new();
    let metrics = Metrics::new();
    let clock = Clock::wall();
    metrics.requests().set_host(&host);
    let app = App::new(&config, clients, clock.clone(), metrics, stop.clone());
    let server = match port {
        None => None,
        Some(options) => match Server::bind(options, app.diagnostics(), clock).await {
            Ok(server) => Some(server),
            Err(error) => return failed(&error, Exit::Port),
        },
    };
    // The port stays open until the end, also while the controllers stop.
    let ended = tokio::select! {
        biased;
        ended = until_stopped(app, &stop) => ended,
        () = answer(server) => Err(AppError::Ended { part: "the port for health and metrics".to_owned() }),
    };
    match ended {
        Ok(()) => Exit::Stopped,
        Err(error @ AppError::LostLease(_)) => failed(&error, Exit::LostLease),
        Err(error) => failed(&error, Exit::Bug),
    }
}

fn config(args: &Args) -> Result<(Config, Option<ServeOptions>), ArgsError> {
    let election = args.leader_elect.election(&connect::identity())?;
    Ok((Config { election, ..args.config()? }, args.serve.options(&connect::host())?))
}

async fn until_stopped(app: App, stop: &CancellationToken) -> Result<(), AppError> {
    let app = app.run();
    tokio::pin!(app);
    tokio::select! {
        biased;
        ended = &mut app => ended,
        signal = shutdown::on_signal(stop) => {
            match signal {
                Ok(signal) => tracing::info!(signal, "received a signal, stopping"),
                Err(error) => tracing::error!(%error, "unable to install signal handlers, continuing without"),
            }
            app.await
        }
    }
}

async fn answer(server: Option<Server>) {
    match server {
        Some(server) => {
            if let Ok(address) = server.address() {
                tracing::info!(%address, "serving /healthz, /livez, /readyz, /metrics and /debug/caches");
            }
            server.run().await;
        }
        None => std::future::pending().await,
    }
}

/// Reports an error before logging is set up, and prints `--help` and `--version`.
fn unusable(error: &LayerError) -> ExitCode {
    match error {
        LayerError::Flags(error) => {
            // clap chooses stdout or stderr; a failed write cannot be reported anywhere.
            let _ = error.print();
            if error.use_stderr() { Exit::Usage.into() } else { Exit::Stopped.into() }
        }
        error => {
            let _ = writeln!(std::io::stderr(), "error: {error}");
            Exit::Usage.into()
        }
    }
}

fn failed(error: &dyn std::error::Error, exit: Exit) -> Exit {
    tracing::error!("{error}");
    exit
}
