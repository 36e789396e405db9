//! A world that answers requests, in either time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard, RwLock};
use plumbline::time::{Clock, run_wall};
use plumbline_apiserver::ApiServer;
use plumbline_apiserver::faults::WatchEnd;
use plumbline_apiserver::listener::RequestHandler;
use plumbline_apiserver::request::{ApiRequest, Reply};
use plumbline_apiserver::status::Status;
use plumbline_guest::AsyncClock;
use tokio_util::sync::CancellationToken;

use crate::guest;

use super::error::WorldError;
use super::fault_rules::{self, ServedFault};
use super::manual::{ManualWorld, is_allowed};
use super::spec::{ClockMode, WorldSpec};
use super::state::WorldState;

/// The longest time by which one request advances a clock.
pub(super) const ADVANCE_MAX: Duration = Duration::from_hours(24 * 366);

/// A world that answers requests.
#[derive(Debug)]
pub struct ServedWorld {
    spec: Arc<WorldSpec>,
    place: Place,
    /// States under the names that clients gave them.
    saved: Mutex<BTreeMap<String, Arc<WorldState>>>,
}

/// The thread or runtime of a world.
#[derive(Debug)]
enum Place {
    Manual(ManualWorld),
    Wall(RwLock<WallWorld>),
}

/// A world in the time of the machine. Dropping it ends its loops and controllers.
#[derive(Debug)]
struct WallWorld {
    server: ApiServer,
    stop: CancellationToken,
}

impl Drop for WallWorld {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl WallWorld {
    /// Starts the loops in the present runtime, and the controllers on a thread of their own.
    fn start(spec: &Arc<WorldSpec>, state: Option<&WorldState>) -> Result<Self, WorldError> {
        let server = spec.server(Clock::wall().now(), state)?;
        let stop = CancellationToken::new();
        let mut loops = spec.start_loops(&server);
        let stopped = stop.clone();
        tokio::spawn(async move {
            let watched = async {
                while let Some(ended) = loops.join_next().await {
                    if let Err(error) = ended {
                        tracing::error!(%error, "a controller loop ended; the server continues without it");
                    }
                }
                std::future::pending::<()>().await;
            };
            tokio::select! {
                biased;
                () = stopped.cancelled() => {}
                () = watched => {}
            }
        });
        let world = Self { server, stop };
        if !spec.controllers.is_empty() {
            world.start_controllers(spec.clone())?;
        }
        Ok(world)
    }

    fn start_controllers(&self, spec: Arc<WorldSpec>) -> Result<(), WorldError> {
        let server = self.server.clone();
        let stop = self.stop.clone();
        let (started, outcome) = std::sync::mpsc::channel();
        let body = move || {
            let ran = run_wall(async move {
                let launched = match spec.launch_controllers(&server) {
                    Ok(launched) => {
                        let _ = started.send(Ok(()));
                        launched
                    }
                    Err(error) => {
                        let _ = started.send(Err(error));
                        None
                    }
                };
                let Some(mut running) = launched else { return };
                while !stop.is_cancelled() {
                    if let Some(reason) = running.ended() {
                        tracing::error!(reason, "the controllers ended; the server continues without them");
                        return;
                    }
                    server.clock().timeout(Duration::from_secs(1), stop.cancelled()).await;
                }
                if let Err(error) = running.stop().await {
                    tracing::warn!(%error, "the controllers did not stop in order");
                }
            });
            if let Err(error) = ran {
                tracing::error!(%error, "the controllers have no runtime");
            }
        };
        let failed = |error: &dyn std::fmt::Display| WorldError::NotStarted(error.to_string());
        std::thread::Builder::new().name("controllers".to_owned()).spawn(body).map_err(|error| failed(&error))?;
        outcome.recv().map_err(|error| failed(&error))?.map_err(|error| failed(&error))
    }
}

impl ServedWorld {
    /// Starts a world; a manual clock begins at `now`.
    ///
    /// # Errors
    ///
    /// Returns the part that does not start, with the reason.
    pub async fn start(spec: Arc<WorldSpec>, now: Timestamp) -> Result<Self, WorldError> {
        let place = match spec.clock {
            ClockMode::Manual => Place::Manual(ManualWorld::start(spec.clone(), now).await?),
            ClockMode::Wall => Place::Wall(RwLock::new(WallWorld::start(&spec, None)?)),
        };
        Ok(Self { spec, place, saved: Mutex::default() })
    }

    /// Returns the mode of the clock.
    #[must_use]
    pub fn clock_mode(&self) -> ClockMode {
        self.spec.clock
    }

    /// Returns the API server. In manual time its clock can only be read on the world's own thread.
    pub(super) fn server(&self) -> ApiServer {
        match &self.place {
            Place::Manual(world) => world.server(),
            Place::Wall(world) => world.read().server.clone(),
        }
    }

    /// Handles a request to the Kubernetes API.
    pub async fn handle(&self, request: ApiRequest) -> Reply {
        match &self.place {
            Place::Manual(world) => world.handle(request).await,
            // The listener accepts a token that any of its worlds has issued.
            Place::Wall(_) if !is_allowed(&self.server(), &request) => Status::unauthorized().into(),
            // The trait's method: it moves long requests to where they hold up no others.
            Place::Wall(_) => RequestHandler::handle(&self.server(), request).await,
        }
    }

    /// Checks the tokens of service accounts that the world issued. In manual time only the world's thread can read its
    /// clock, so that requests to its API are checked again there.
    pub(super) fn issued_token(&self, token: &str) -> bool {
        match &self.place {
            Place::Manual(world) => world.server().has_signed(token),
            Place::Wall(_) => self.server().issued_token(token),
        }
    }

    /// Returns the time.
    ///
    /// # Errors
    ///
    /// Returns the reason if a part of the world ended.
    pub async fn now(&self) -> Result<Timestamp, WorldError> {
        match &self.place {
            Place::Manual(world) => world.advance(Duration::ZERO).await,
            Place::Wall(_) => Ok(self.server().clock().now()),
        }
    }

    /// Moves time by `duration`; returns the time when everything has come to rest.
    ///
    /// # Errors
    ///
    /// Returns an error if the clock is the machine's, if the duration is zero or longer than 366 days, or if a part
    /// of the world ended.
    pub async fn advance(&self, duration: Duration) -> Result<Timestamp, WorldError> {
        if duration.is_zero() {
            return Err(WorldError::NoAdvance);
        }
        if duration > ADVANCE_MAX {
            return Err(WorldError::AdvanceTooLong);
        }
        match &self.place {
            Place::Manual(world) => world.advance(duration).await,
            Place::Wall(_) if guest::is_inside() => {
                let clock = AsyncClock::from_env().await;
                let moved = async { clock?.advance(duration).await }.await;
                moved.map_err(WorldError::ClockOfGuest)?;
                self.now().await
            }
            Place::Wall(_) => Err(WorldError::ClockOfMachine),
        }
    }

    /// Waits until nothing is left to do at this moment; returns the time, which has not moved.
    ///
    /// # Errors
    ///
    /// Returns an error if the clock is the machine's, or if a part of the world ended.
    pub async fn settle(&self) -> Result<Timestamp, WorldError> {
        match &self.place {
            Place::Manual(world) => world.advance(Duration::ZERO).await,
            Place::Wall(_) if guest::is_inside() => {
                let clock = AsyncClock::from_env().await;
                let settled = async { clock?.settle().await }.await;
                settled.map_err(WorldError::ClockOfGuest)?;
                self.now().await
            }
            Place::Wall(_) => Err(WorldError::ClockOfMachine),
        }
    }

    /// Returns all objects and the time.
    ///
    /// # Errors
    ///
    /// Returns the object that cannot be saved.
    pub async fn save(&self) -> Result<WorldState, WorldError> {
        match &self.place {
            Place::Manual(world) => world.save().await,
            Place::Wall(_) => WorldState::of(&self.server()),
        }
    }

    /// Returns to `state`, or to the initial state. Watches end; a manual clock shows the time of the state.
    ///
    /// # Errors
    ///
    /// Returns the object that cannot be restored; the world is then unchanged.
    pub async fn restore(&self, state: Option<WorldState>) -> Result<(), WorldError> {
        match &self.place {
            Place::Manual(world) => world.restore(state).await,
            Place::Wall(world) => {
                let restored = WallWorld::start(&self.spec, state.as_ref())?;
                self.server().faults().end_watches(None, WatchEnd::Closed);
                *world.write() = restored;
                Ok(())
            }
        }
    }

    /// Arms fault rules, after those that are armed.
    ///
    /// # Errors
    ///
    /// Returns the first rule that the server cannot have; no rule is armed then.
    pub fn arm(&self, rules: &[ServedFault]) -> Result<(), WorldError> {
        Ok(fault_rules::arm(&self.server(), rules)?)
    }

    /// Locks the saved states.
    pub(super) fn saved(&self) -> MutexGuard<'_, BTreeMap<String, Arc<WorldState>>> {
        self.saved.lock()
    }
}
