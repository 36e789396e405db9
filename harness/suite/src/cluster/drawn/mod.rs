//! Draws what a program under test cannot know before a run: the names of the objects, their namespaces and uids,
//! objects that it must leave alone, and the moment of the start. All follow from a seed.
//!
//! - [`names`]: the names that are drawn for those of a fixture, and both translations
//! - [`decoys`]: objects like the fixture's, which its promise does not touch
//!
//! The server has the drawn names. A step's request is translated before it is sent, and everything that the server
//! records is translated back, so that faults, transcript and verdict have the names of the fixture.

pub mod decoys;
pub mod names;
mod step_requests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use plumbline::expect;
use plumbline::fixture::Fixture;
use plumbline::transcript::{Attributed as _, RecordedJson, Transcript, TranscriptEntry, render};
use plumbline_apiserver::ApiRequest;
use plumbline_apiserver::listener::RequestHandler;
use plumbline_apiserver::record::RecordedNames;
use plumbline_apiserver::request::Target;
use serde_json::Value;

use decoys::Decoys;
use names::DrawnNames;

use crate::cluster::call::{Answer, Call};
use crate::cluster::embedded;

/// The latest that a run begins after the subject waits for its first read. Clients give up a request after ten seconds
/// or more.
const LATEST_START: Duration = Duration::from_secs(4);

/// The names, the decoys and the delay that are drawn for a run of a fixture.
#[derive(Debug, Default)]
pub struct Drawn {
    /// The seed of the server, from which its uids and tokens follow.
    pub server_seed: u64,
    /// The time by which the start of the run is delayed.
    pub delay: Duration,
    names: DrawnNames,
    decoys: Decoys,
    /// Sentences about names that the subject cannot know.
    known: Mutex<BTreeSet<String>>,
}

impl Drawn {
    /// Draws for a run of `fixture`; equal seeds give equal results.
    #[must_use]
    pub fn new(fixture: &Fixture, seed: u64) -> Self {
        let mut random = random_of(fixture, seed);
        let server_seed = random.u64(..);
        let delay = Duration::from_millis(random.u64(..=u64::try_from(LATEST_START.as_millis()).unwrap_or_default()));
        // Without controllers no program runs that could know them.
        if fixture.controllers.is_empty() {
            return Self { server_seed, ..Self::default() };
        }
        let mut names = DrawnNames::draw(fixture, &mut random);
        let decoys = Decoys::draw(fixture, &mut names, &mut random);
        Self { server_seed, delay, names, decoys, ..Self::default() }
    }

    /// Draws names and uids alone, for a real server: its scheduler would bind decoys, and no start of a program is
    /// like another there. The namespaces are created by the cluster.
    #[must_use]
    pub fn names_only(fixture: &Fixture, seed: u64) -> Self {
        if fixture.controllers.is_empty() {
            return Self::default();
        }
        let names = DrawnNames::draw(fixture, &mut random_of(fixture, seed)).without_namespaces();
        Self { names, ..Self::default() }
    }

    /// The names.
    #[must_use]
    pub const fn names(&self) -> &DrawnNames {
        &self.names
    }

    /// Returns the objects to seed for those of the fixture: with drawn names, the namespaces that they need, and the
    /// decoys.
    #[must_use]
    pub fn objects(&self, given: Vec<Value>) -> Vec<Value> {
        let mut objects = self.names.namespaces();
        objects.extend(self.decoys.objects(&given));
        objects.extend(given.into_iter().map(|mut object| {
            self.names.hide_in(&mut object);
            object
        }));
        objects
    }

    /// Returns true if this object, as stored by the server, is none of the fixture's.
    fn is_extra(&self, stored: &Value) -> bool {
        self.names.is_extra_namespace(stored) || self.decoys.has(stored)
    }

    /// Returns the fixture's objects among those that the server stored, with the names of the fixture.
    #[must_use]
    pub fn stored(&self, stored: Vec<RecordedJson>) -> Vec<RecordedJson> {
        let own = |stored: RecordedJson| {
            let mut object = Value::clone(&stored);
            self.names.own_in(&mut object);
            RecordedJson::from(object)
        };
        stored.into_iter().filter(|object| !self.is_extra(object)).map(own).collect()
    }

    /// Returns the translation of the names in a record to those of the fixture.
    #[must_use]
    pub fn recorded_names(self: &Arc<Self>) -> RecordedNames {
        let drawn = self.clone();
        RecordedNames::new(move |text| drawn.names.own(text))
    }

    /// Remembers names and uids of the fixture's file in a request of the subject, which the server never showed it.
    pub fn look_for_known_names(&self, request: &ApiRequest) {
        let own = self.names.own(&request.path);
        let shown = own.as_ref().unwrap_or(&request.path);
        let sentence = |what: &str| {
            format!(
                "the subject asked for {} {} with {what} of the fixture's file, which is none in this run: a program under \
                 test has to find objects by what the server tells",
                request.method, shown
            )
        };
        if let Target::Resource(path) = Target::parse(&request.path)
            && path.resource != "namespaces"
            && self.names.hides(&path.name)
            && (path.namespace.is_empty() || self.names.hides(&path.namespace))
        {
            self.known.lock().insert(sentence("the name"));
        }
        if self.names.has_hidden_uid(&request.body) {
            self.known.lock().insert(sentence("a uid"));
        }
    }

    fn misuse(&self, entries: &[TranscriptEntry]) -> BTreeSet<String> {
        let touched = expect::requests(entries).filter_map(|(entry, exchange)| {
            let request = &exchange.request;
            if !request.is_write() || request.resource == "events" || !entry.actor().is_subject() {
                return None;
            }
            let name = request.name.as_deref().unwrap_or("*");
            let decoy = self.decoys.describe(request.namespace.as_deref(), &request.resource, name)?;
            Some(format!("{} sent {} {}: {decoy}", entry.actor(), render::verb(request), render::target(request)))
        });
        touched.chain(self.known.lock().iter().cloned()).collect()
    }
}

/// Returns the source of what is drawn for a fixture.
fn random_of(fixture: &Fixture, seed: u64) -> fastrand::Rng {
    let id = fixture.id.bytes().fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    fastrand::Rng::with_seed(id)
}

/// Returns a text with the names of the fixture, if others were drawn.
pub(super) fn own_names(text: String, drawn: Option<&Drawn>) -> String {
    drawn.and_then(|drawn| drawn.names.own(&text)).unwrap_or(text)
}

/// Returns sentences about requests that only a subject makes that knows of the test.
pub(super) fn misuse(transcript: &Transcript, drawn: Option<&Drawn>) -> BTreeSet<String> {
    drawn.map(|drawn| transcript.with(|entries| drawn.misuse(entries))).unwrap_or_default()
}

/// Sends a request of a step to a server, with the drawn names if there are some, and returns the answer with the
/// fixture's.
pub(super) async fn send(server: &impl RequestHandler, call: Call, drawn: Option<&Drawn>) -> Answer {
    let Some(Drawn { names, .. }) = drawn else { return embedded::send(server, call).await };
    let mut answer = embedded::send(server, names.hide_in_call(call)).await;
    names.own_in(&mut answer.body);
    answer
}
