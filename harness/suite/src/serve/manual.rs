//! A world whose time moves only on request. It has a thread of its own with a runtime in virtual time; requests reach
//! it through a queue, one after another. A reply is sent when the world has come to rest, so the next request sees all
//! consequences that need no time.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use parking_lot::RwLock;
use plumbline::time::{run_virtual, settle};
use plumbline_apiserver::ApiServer;
use plumbline_apiserver::faults::WatchEnd;
use plumbline_apiserver::listener::RequestHandler;
use plumbline_apiserver::request::{ApiRequest, Reply, ReplyBody, bearer_token};
use plumbline_apiserver::status::Status;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::error::WorldError;
use super::spec::WorldSpec;
use super::state::WorldState;
use crate::subject::Running;

/// Requests that wait for their turn.
const QUEUE: usize = 1024;

/// Pieces of a stream, such as a watch, that wait for the client.
const STREAM_QUEUE: usize = 64;

/// Commands to the thread of a world.
enum WorldCommand {
    Request(Box<ApiRequest>, oneshot::Sender<Reply>),
    Advance(Duration, oneshot::Sender<Result<Timestamp, WorldError>>),
    Save(oneshot::Sender<Result<WorldState, WorldError>>),
    Restore(Option<Box<WorldState>>, oneshot::Sender<Result<(), WorldError>>),
}

/// A world in manual time. Dropping it ends its thread.
#[derive(Debug)]
pub(super) struct ManualWorld {
    commands: mpsc::Sender<WorldCommand>,
    server: Arc<RwLock<ApiServer>>,
}

impl ManualWorld {
    /// Starts the thread; returns when the world is ready.
    pub(super) async fn start(spec: Arc<WorldSpec>, now: Timestamp) -> Result<Self, WorldError> {
        let (commands, queue) = mpsc::channel(QUEUE);
        let (started, ready) = oneshot::channel();
        let body = move || {
            if let Err(error) = run_virtual(live(spec, now, queue, started)) {
                tracing::error!(%error, "a world has no runtime");
            }
        };
        std::thread::Builder::new().name("world".to_owned()).spawn(body).map_err(WorldError::Thread)?;
        let server = ready.await.map_err(|_| WorldError::EndedAtStart)??;
        Ok(Self { commands, server })
    }

    /// Returns the server, for what does not depend on its clock.
    pub(super) fn server(&self) -> ApiServer {
        self.server.read().clone()
    }

    /// Handles a request.
    pub(super) async fn handle(&self, request: ApiRequest) -> Reply {
        self.ask(|reply| WorldCommand::Request(Box::new(request), reply))
            .await
            .unwrap_or_else(|error| Status::failure(503, "ServiceUnavailable", error.to_string()).into())
    }

    /// Moves time by `duration` and waits until the world has come to rest. Returns the time.
    pub(super) async fn advance(&self, duration: Duration) -> Result<Timestamp, WorldError> {
        self.ask(|reply| WorldCommand::Advance(duration, reply)).await?
    }

    /// Returns the state.
    pub(super) async fn save(&self) -> Result<WorldState, WorldError> {
        self.ask(WorldCommand::Save).await?
    }

    /// Returns to a state, or to the initial one.
    pub(super) async fn restore(&self, state: Option<WorldState>) -> Result<(), WorldError> {
        self.ask(|reply| WorldCommand::Restore(state.map(Box::new), reply)).await?
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> WorldCommand) -> Result<T, WorldError> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).await.map_err(|_| WorldError::Ended)?;
        answer.await.map_err(|_| WorldError::Ended)
    }
}

/// Keeps virtual time where it is: tokio's paused time does not advance while a blocking task runs.
struct TimeHold {
    release: std::sync::mpsc::Sender<()>,
    task: JoinHandle<()>,
}

impl TimeHold {
    fn new() -> Self {
        let (release, released) = std::sync::mpsc::channel::<()>();
        // Ends with an error when `release` is dropped, which is the signal.
        let task = tokio::task::spawn_blocking(move || {
            let _ = released.recv();
        });
        Self { release, task }
    }

    async fn release(self) {
        drop(self.release);
        // The task cannot panic.
        let _ = self.task.await;
    }
}

/// The parts that run.
struct RunningWorld {
    server: ApiServer,
    loops: tokio::task::JoinSet<()>,
    controllers: Option<Box<dyn Running>>,
}

impl RunningWorld {
    fn start(spec: &WorldSpec, now: Timestamp, state: Option<&WorldState>) -> Result<Self, WorldError> {
        let server = spec.server(now, state)?;
        let loops = spec.start_loops(&server);
        let controllers = spec.launch_controllers(&server)?;
        Ok(Self { server, loops, controllers })
    }

    /// Returns the reason if a part ended.
    fn ended(&mut self) -> Option<WorldError> {
        if let Some(Err(error)) = self.loops.try_join_next() {
            return Some(WorldError::Loop(error));
        }
        self.controllers.as_mut()?.ended().map(WorldError::Controllers)
    }
}

type StartSender = oneshot::Sender<Result<Arc<RwLock<ApiServer>>, WorldError>>;

/// Lives until the queue is closed.
async fn live(spec: Arc<WorldSpec>, now: Timestamp, mut queue: mpsc::Receiver<WorldCommand>, started: StartSender) {
    let mut hold = TimeHold::new();
    let mut world = match RunningWorld::start(&spec, now, None) {
        Ok(world) => world,
        Err(error) => {
            let _ = started.send(Err(error));
            hold.release().await;
            return;
        }
    };
    settle().await;
    let shared = Arc::new(RwLock::new(world.server.clone()));
    let _ = started.send(Ok(shared.clone()));
    while let Some(command) = queue.recv().await {
        // A client that no longer waits for its reply is no error.
        match command {
            WorldCommand::Request(request, reply) => answer(&world.server, *request, reply).await,
            WorldCommand::Advance(duration, reply) => {
                hold.release().await;
                world.server.clock().sleep(duration).await;
                hold = TimeHold::new();
                settle().await;
                let outcome = world.ended().map_or_else(|| Ok(world.server.clock().now()), Err);
                let _ = reply.send(outcome);
            }
            WorldCommand::Save(reply) => drop(reply.send(WorldState::of(&world.server))),
            WorldCommand::Restore(state, reply) => {
                let outcome = RunningWorld::start(&spec, now, state.as_deref()).map(|restored| {
                    world.server.faults().end_watches(None, WatchEnd::Closed);
                    world = restored;
                });
                settle().await;
                *shared.write() = world.server.clone();
                let _ = reply.send(outcome);
            }
        }
    }
    hold.release().await;
}

/// Handles a request and waits until the world has come to rest. A request that needs time to pass, because a fault
/// delays it, is answered later, and others go first.
async fn answer(server: &ApiServer, request: ApiRequest, mut reply: oneshot::Sender<Reply>) {
    if !is_allowed(server, &request) {
        let _ = reply.send(Status::unauthorized().into());
        return;
    }
    let handled = tokio::spawn({
        let server = server.clone();
        async move { bridged(RequestHandler::handle(&server, request).await) }
    });
    settle().await;
    let waiting = async move {
        let handle = handled.abort_handle();
        tokio::select! {
            biased;
            () = reply.closed() => handle.abort(),
            outcome = handled => {
                let failed = |error| Status::failure(500, "InternalError", format!("the request panicked: {error}"));
                let _ = reply.send(outcome.unwrap_or_else(|error| failed(error).into()));
            }
        }
    };
    tokio::spawn(waiting);
}

/// Returns false if the request has a service account's token that is no longer valid. The listener, which runs in
/// another time, checks the signature alone.
pub(super) fn is_allowed(server: &ApiServer, request: &ApiRequest) -> bool {
    let token = bearer_token(&request.headers).unwrap_or_default();
    !token.contains('.') || RequestHandler::issued_token(server, token)
}

/// Returns a reply whose stream is read in this world, and whose pieces go to the listener through a queue.
fn bridged(reply: Reply) -> Reply {
    let ReplyBody::Stream(mut stream) = reply.body else { return reply };
    let (sender, mut receiver) = mpsc::channel(STREAM_QUEUE);
    tokio::spawn(async move {
        loop {
            let piece = tokio::select! {
                biased;
                () = sender.closed() => return,
                piece = stream.next() => piece,
            };
            let Some(piece) = piece else { return };
            if sender.send(piece).await.is_err() {
                return;
            }
        }
    });
    let pieces = futures::stream::poll_fn(move |context| receiver.poll_recv(context));
    Reply { body: ReplyBody::Stream(Box::pin(pieces)), ..reply }
}
