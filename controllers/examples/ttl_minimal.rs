//! The smallest controller on the runtime: prints the ttl annotation that each node should have. It only reads.
//!
//! ```text
//! cargo run -p plumbline-controllers --example ttl_minimal -- --kubeconfig ~/.kube/config
//! ```
#![expect(clippy::print_stdout, reason = "the output of an example")]

use clap::Parser as _;
use plumbline_controllers::api::View as _;
use plumbline_controllers::api::node::NodeView;
use plumbline_controllers::api::object_key::ObjectKey;
use plumbline_controllers::args::Args;
use plumbline_controllers::connect;
use plumbline_controllers::context::{ControllerContext, ControllerFuture};
use plumbline_controllers::runtime::cache::Lister;
use plumbline_controllers::runtime::client::{ClientBuilder, Limits, names};
use plumbline_controllers::runtime::clock::Clock;
use plumbline_controllers::runtime::leadership::Leadership;
use plumbline_controllers::runtime::metrics::Metrics;
use plumbline_controllers::runtime::shutdown;
use plumbline_controllers::runtime::workers::{self, Outcome};
use plumbline_controllers::ttl::boundaries::ClusterSize;
use tokio_util::sync::CancellationToken;

const NAME: &str = "ttl-minimal";

/// Creates the controller: requests its informer now, adds its handler and syncs keys later.
fn start(context: &ControllerContext) -> ControllerFuture {
    let informer = context.informer::<NodeView>();
    let queue = context.queue::<ObjectKey>(NAME);
    let stop = context.stop.clone();
    Box::pin(async move {
        informer.add_event_handler({
            let queue = queue.clone();
            move |change| queue.add(change.object().key())
        });
        let nodes = informer.lister();
        workers::run(NAME, &queue, 1, &stop, |key| std::future::ready(sync(&nodes, &key))).await;
    })
}

/// Syncs one node. A controller that writes would be async and use `context.writer(NAME)` here.
fn sync(nodes: &Lister<NodeView>, key: &ObjectKey) -> Outcome {
    let Some(node) = nodes.get(key) else { return Outcome::Forget };
    let mut size = ClusterSize::default();
    (0..nodes.len()).for_each(|_| size.add());
    println!("{key}: annotation {:?}, should be {}", node.ttl_annotation(), size.ttl_seconds());
    Outcome::Forget
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse();
    connect::log_to_stderr(&args);
    let clients = connect::clients(&args).await?;
    let clock = Clock::wall();
    let limits = Limits::default();
    let stop = CancellationToken::new();
    let leadership = Leadership::always();
    let context =
        ControllerContext::new(clock.clone(), Metrics::new(), clients.clone(), limits, leadership, stop.clone());
    let controller = start(&context);
    let informer = context.informer::<NodeView>();
    let builder = ClientBuilder::new(names::INFORMERS, clock, limits);
    let run = async {
        informer.wait_synced().await;
        controller.await;
    };
    tokio::select! {
        () = informer.run(&builder, clients(names::INFORMERS)) => {}
        () = run => {}
        signal = shutdown::on_signal(&stop) => println!("{}, stopping", signal?),
    }
    Ok(())
}
