//! The part of a world that its tasks share: the server, and the controllers under test with the reasons why one of
//! them ends a test.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::task::AbortHandle;

use super::error::{Error, Result};
use super::service::{Connection, WorldService};
use crate::apiserver::ApiServer;
use crate::expect::{line, requests};
use crate::faults::CrashEvent;
use crate::transcript::{Actor, Attributed as _, redact};

/// Requests of a controller that a failure shows.
const SHOWN_REQUESTS: usize = 6;

pub(super) type Start = Arc<dyn Fn(kube::Client) -> BoxFuture<'static, Option<String>> + Send + Sync>;

pub(super) struct Registration {
    pub(super) start: Start,
    pub(super) token: Option<String>,
    pub(super) running: Option<(Arc<Connection>, Option<AbortHandle>)>,
}

/// The part of a world that its tasks share.
pub(super) struct WorldState {
    pub(super) server: ApiServer,
    pub(super) controllers: Mutex<BTreeMap<String, Registration>>,
    /// Connections of controllers that the kit does not start ([`World::service`]).
    pub(super) services: Mutex<Vec<Arc<Connection>>>,
    failure: Mutex<Option<String>>,
}

impl WorldState {
    pub(super) fn new(server: ApiServer) -> Arc<Self> {
        Arc::new(Self { server, controllers: Mutex::default(), services: Mutex::default(), failure: Mutex::default() })
    }

    pub(super) fn note(&self, text: &str) {
        self.server.transcript().note(self.server.clock().elapsed(), text);
    }

    pub(super) fn start(self: &Arc<Self>, name: &str) -> Result {
        let connection = Connection::new(name, self.server.clock());
        let (start, token) = {
            let mut controllers = self.controllers.lock();
            let registration = find(&mut controllers, name)?;
            if registration.running.is_some() {
                return Err(Error::new(format!("`{name}` runs already; crash it first, or call restart")));
            }
            registration.running = Some((connection.clone(), None));
            (registration.start.clone(), registration.token.clone())
        };
        let client =
            kube::Client::new(WorldService::new(&self.server, connection.clone(), token.as_deref()), "default");
        let task = tokio::spawn(supervise(Arc::downgrade(self), connection, start(client)));
        if let Some((_, handle)) = self.controllers.lock().get_mut(name).and_then(|found| found.running.as_mut()) {
            *handle = Some(task.abort_handle());
        }
        Ok(())
    }

    pub(super) fn crash(&self, name: &str, note: &str) -> Result {
        let mut controllers = self.controllers.lock();
        let registration = find(&mut controllers, name)?;
        let Some((connection, task)) = registration.running.take() else {
            return Err(Error::new(format!("`{name}` does not run; call start first")));
        };
        connection.cut();
        if let Some(task) = task {
            task.abort();
        }
        drop(controllers);
        self.note(note);
        Ok(())
    }

    /// Crashes the controller whose request has met a crash fault, and starts it again.
    pub(super) fn crashed(self: &Arc<Self>, event: &CrashEvent) {
        let Some(Actor::Controller(name)) = &event.actor else { return };
        if self.crash(name, &format!("{name} crashes {}", event.at)).is_err() {
            return;
        }
        let shared = Arc::downgrade(self);
        let name = name.clone();
        let after = event.restart_after;
        let clock = self.server.clock().clone();
        tokio::spawn(async move {
            if !after.is_zero() {
                clock.sleep(after).await;
            }
            let Some(shared) = shared.upgrade() else { return };
            // A controller that was started by the test in the meantime stays as it is.
            if shared.start(&name).is_ok() {
                shared.note(&format!("{name} starts"));
            }
        });
    }

    /// Handles the end of a controller's task.
    fn ended(&self, connection: &Arc<Connection>, failure: Option<String>) {
        let name = &connection.name;
        if let Some(found) = self.controllers.lock().get_mut(name)
            && found.running.as_ref().is_some_and(|(running, _)| Arc::ptr_eq(running, connection))
        {
            found.running = None;
        }
        let at = redact::at(self.server.clock().elapsed());
        let text = match &failure {
            Some(failure) => format!("{name} ends: {failure}"),
            None => format!("{name} ends"),
        };
        self.note(&text);
        if let Some(failure) = failure {
            let text = format!("controller `{name}` ended at {at}: {failure}{}", self.last_requests(name));
            self.failure.lock().get_or_insert(text);
        }
    }

    /// Returns an error if a controller has failed or loops.
    pub(super) fn check(&self) -> Result {
        if let Some(text) = self.failure.lock().clone() {
            return Err(Error::new(text));
        }
        let hot = self.connections().into_iter().find_map(|connection| Some((connection.hot_loop()?, connection)));
        match hot {
            Some((text, connection)) => {
                let name = &connection.name;
                let cure = "no time passes between them: wait before a retry, and do not write what has not changed";
                Err(Error::new(format!("controller `{name}` {text}; {cure}{}", self.last_requests(name))))
            }
            None => Ok(()),
        }
    }

    fn connections(&self) -> Vec<Arc<Connection>> {
        let controllers = self.controllers.lock();
        let running = controllers.values().filter_map(|found| Some(found.running.as_ref()?.0.clone()));
        running.chain(self.services.lock().iter().cloned()).collect()
    }

    fn last_requests(&self, name: &str) -> String {
        let actor = Actor::Controller(name.to_owned());
        let mut lines: Vec<String> = self.server.transcript().with(|entries| {
            let own = requests(entries).rev().filter(|(entry, _)| entry.actor() == actor);
            own.take(SHOWN_REQUESTS).map(|(entry, exchange)| format!("\n    {}", line(entry, exchange))).collect()
        });
        lines.reverse();
        if lines.is_empty() {
            "; it has made no request".to_owned()
        } else {
            format!("; its last requests:{}", lines.concat())
        }
    }

    /// Describes a world in which nothing happens for `patience` of wall time.
    pub(super) fn stall(&self, patience: Duration) -> String {
        use std::fmt::Write as _;
        let at = redact::at(self.server.clock().elapsed());
        let mut text = format!(
            "virtual time has stayed at {at} for {} s of wall time. Something computes without an end, or waits for \
             what virtual time does not have: a socket, a signal, a file, another thread, or a message that the test \
             itself would have to send",
            patience.as_secs()
        );
        for connection in self.connections() {
            let polls = connection.polls.load(Ordering::Relaxed);
            let name = &connection.name;
            let last = self.last_requests(&connection.name);
            let _ = write!(text, "\n  controller `{name}`: its task was polled {polls} times{last}");
        }
        text
    }

    /// Ends all controllers.
    pub(super) fn close(&self) {
        for connection in self.connections() {
            connection.close();
        }
        for registration in self.controllers.lock().values_mut() {
            if let Some((_, Some(task))) = registration.running.take() {
                task.abort();
            }
        }
    }
}

fn find<'c>(controllers: &'c mut BTreeMap<String, Registration>, name: &str) -> Result<&'c mut Registration> {
    let known = controllers.keys().cloned().collect::<Vec<_>>().join(", ");
    controllers.get_mut(name).ok_or_else(|| {
        let known =
            if known.is_empty() { "none was started with run".to_owned() } else { format!("there are: {known}") };
        Error::new(format!("no controller is named `{name}`; {known}"))
    })
}

/// Runs a controller's task until its end or panic.
async fn supervise(shared: Weak<WorldState>, connection: Arc<Connection>, work: BoxFuture<'static, Option<String>>) {
    let work = AssertUnwindSafe(work).catch_unwind();
    let mut work = pin!(work);
    let counted = std::future::poll_fn(|context| {
        connection.polls.fetch_add(1, Ordering::Relaxed);
        work.as_mut().poll(context)
    });
    let failure = counted.await.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref().copied());
        Some(panic_text(text.unwrap_or("a panic")))
    });
    if let Some(shared) = shared.upgrade() {
        shared.ended(&connection, failure);
    }
}

/// Describes a panic; explains those of tokio that virtual time causes.
fn panic_text(text: &str) -> String {
    let what = if text.contains("IO is disabled") || text.contains("enable_io") {
        "sockets"
    } else if text.contains("signal") {
        "signals"
    } else {
        return format!("panicked: {text}");
    };
    format!(
        "panicked, because virtual time has no {what}: start what needs them outside of the controller, or make the \
         world with World::builder().io() ({text})"
    )
}
