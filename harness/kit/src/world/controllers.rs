//! The controllers under test: start, crash, restart.

use std::fmt::Display;
use std::sync::Arc;

use futures::FutureExt as _;

use super::cluster::World;
use super::error::{Error, Result};
use super::service::{Connection, WorldService};
use super::world_state::{Registration, Start};

/// Names that transcripts give to other parties.
const RESERVED: [&str; 4] = ["harness", "kubelet", "server", "user"];

/// The output of a controller's task.
pub trait TaskOutput {
    /// Returns the text of the failure, if it is one.
    fn failure(self) -> Option<String>;
}

impl TaskOutput for () {
    fn failure(self) -> Option<String> {
        None
    }
}

impl<T, E: Display> TaskOutput for std::result::Result<T, E> {
    fn failure(self) -> Option<String> {
        self.err().map(|error| format!("{error:#}"))
    }
}

impl World {
    /// Starts a controller: a function that gets a client and returns its work, such as the `run` of kube-runtime's
    /// `Controller`. `name` is the actor in transcripts.
    ///
    /// It begins at the next `await` of the test, and has all rights; [`World::run_as`] restricts it.
    ///
    /// A controller that ends with an error, panics, or repeats a write without time passing fails the test at the next
    /// [`World::advance`].
    ///
    /// # Errors
    ///
    /// Returns an error if the name is taken or not usable as a user agent.
    #[track_caller]
    pub fn run<F>(&self, name: &str, start: impl Fn(kube::Client) -> F + Send + Sync + 'static) -> Result
    where
        F: Future<Output: TaskOutput> + Send + 'static,
    {
        here!(self.register(name, start, None))
    }

    pub(super) fn register<F>(
        &self,
        name: &str,
        start: impl Fn(kube::Client) -> F + Send + Sync + 'static,
        token: Option<String>,
    ) -> Result
    where
        F: Future<Output: TaskOutput> + Send + 'static,
    {
        self.register_boxed(name, Arc::new(move |client| start(client).map(TaskOutput::failure).boxed()), token)
    }

    fn register_boxed(&self, name: &str, start: Start, token: Option<String>) -> Result {
        check_name(name)?;
        {
            let mut controllers = self.shared.controllers.lock();
            if controllers.contains_key(name) {
                return Err(Error::new(format!(
                    "a controller named `{name}` exists already; call restart, or rename it"
                )));
            }
            controllers.insert(name.to_owned(), Registration { start, token, running: None });
        }
        if !self.elapsed().is_zero() {
            self.note(&format!("{name} starts"));
        }
        self.shared.start(name)
    }

    /// Returns the server as the controller `name` reaches it, for clients of another version of kube and for
    /// controllers that the test starts itself. Crash faults do not affect it.
    ///
    /// # Errors
    ///
    /// Returns an error if the name is not usable as a user agent.
    #[track_caller]
    pub fn service(&self, name: &str) -> Result<WorldService> {
        here!(check_name(name))?;
        let connection = Connection::new(name, self.server().clock());
        self.shared.services.lock().push(connection.clone());
        Ok(WorldService::new(self.server(), connection, None))
    }

    /// Kills a controller: no request of it arrives any more, and no reply reaches it.
    ///
    /// # Errors
    ///
    /// Returns an error if no such controller runs.
    #[track_caller]
    pub fn crash(&self, name: &str) -> Result {
        here!(self.shared.crash(name, &format!("{name} crashes")))
    }

    /// Starts a controller again that has crashed or ended.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such controller or it runs.
    #[track_caller]
    pub fn start(&self, name: &str) -> Result {
        here!(self.shared.start(name))?;
        self.note(&format!("{name} starts"));
        Ok(())
    }

    /// Kills a controller and starts it again.
    ///
    /// # Errors
    ///
    /// Returns an error if no such controller runs.
    #[track_caller]
    pub fn restart(&self, name: &str) -> Result {
        let crashed = self.shared.crash(name, &format!("{name} crashes and starts again"));
        here!(crashed.and_then(|()| self.shared.start(name)))
    }
}

fn check_name(name: &str) -> Result {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || !name.chars().all(is_plain) || !name.chars().any(|c| c.is_ascii_lowercase()) {
        return Err(Error::new(format!(
            "`{name}` cannot name a controller: use lower-case letters, digits and `-`, as in `my-operator`"
        )));
    }
    if RESERVED.contains(&name) {
        return Err(Error::new(format!("`{name}` names another party in transcripts; choose another name")));
    }
    Ok(())
}
