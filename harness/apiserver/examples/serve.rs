//! HTTPS on loopback, for clients in other processes. Prints the path of a kubeconfig, and serves for as many seconds
//! as the first argument says (0 by default).
//!
//! ```text
//! cargo run -p plumbline-apiserver --example serve 600 &
//! kubectl --kubeconfig PATH get namespaces
//! ```

use std::error::Error;
use std::time::Duration;

use plumbline_apiserver::ApiServer;
use plumbline_apiserver::bootstrap;
use plumbline_apiserver::clock::{Clock, run_wall};
use plumbline_apiserver::listener::{ListenOptions, listen};
use tokio_util::sync::CancellationToken;

#[expect(clippy::print_stdout, reason = "this is the output of the example")]
async fn serve(time: Duration) -> Result<(), Box<dyn Error>> {
    let server = ApiServer::builder().clock(Clock::wall()).build();
    let listening = listen(server.clone(), ListenOptions::loopback()).await?;
    server.seed(bootstrap::objects(listening.address(), server.clock().now()))?;

    let folder = tempfile::tempdir()?;
    let kubeconfig = folder.path().join("kubeconfig");
    listening.write_kubeconfig(&kubeconfig)?;
    println!("{}", kubeconfig.display());

    let stop = CancellationToken::new();
    let serving = tokio::spawn(listening.serve(stop.clone()));
    server.clock().sleep(time).await;
    stop.cancel();
    serving.await?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let seconds = std::env::args().nth(1).map_or(Ok(0), |text| text.parse())?;
    run_wall(serve(Duration::from_secs(seconds)))?
}
