//! The binary: flags, clients, signals, exit code.

use std::process::ExitCode;

use clap::Parser;
use plumbline_controllers::app::{App, AppError, Config};
use plumbline_controllers::args::Args;
use plumbline_controllers::connect;
use plumbline_controllers::exit::Exit;
use plumbline_controllers::runtime::clock::Clock;
use plumbline_controllers::runtime::metrics::Metrics;
use plumbline_controllers::runtime::shutdown;
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    connect::log_to_stderr(&args);
    run(&args).await.into()
}

async fn run(args: &Args) -> Exit {
    let config = args.config().and_then(|config| {
        let election = args.leader_elect.election(&connect::identity())?;
        Ok(Config { election, ..config })
    });
    let config = match config {
        Ok(config) => config,
        Err(error) => return failed(&error, Exit::Usage),
    };
    let clients = match connect::clients(args).await {
        Ok(clients) => clients,
        Err(error) => return failed(&error, Exit::Kubeconfig),
    };
    let stop = CancellationToken::new();
    let app = App::new(&config, clients, Clock::wall(), Metrics::new(), stop.clone());
    let app = app.run();
    tokio::pin!(app);
    let ended = tokio::select! {
        biased;
        ended = &mut app => ended,
        signal = shutdown::on_signal(&stop) => {
            match signal {
                Ok(signal) => tracing::info!(signal, "asked to stop"),
                Err(error) => tracing::error!(%error, "unable to listen for signals, running without"),
            }
            app.await
        }
    };
    match ended {
        Ok(()) => Exit::Stopped,
        Err(error @ AppError::LostLease(_)) => failed(&error, Exit::LostLease),
        Err(error) => failed(&error, Exit::Bug),
    }
}

fn failed(error: &dyn std::error::Error, exit: Exit) -> Exit {
    tracing::error!("{error}");
    exit
}
