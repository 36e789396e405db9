//! Clusters that clients in other processes use: one listener with any number of worlds, each with an API server, the
//! stand-ins for kubelets and controllers, our controllers if wanted, and a clock that may move only on request.
//!
//! - [`WorldSpec`]: what a world consists of · [`ServedWorld`]: a world that answers requests
//! - [`ServeHandler`]: routes requests to the worlds and serves the control API below `/plumbline`
//! - [`WorldError`]: failures of a world
//! - `manual`: a world whose time moves only by `POST /plumbline/clock` · `state`: saved states
//!
//! The control API is described by `openapi.json`, which the listener serves at `/plumbline/openapi.json`.

mod control;
mod error;
mod fault_rules;
mod handler;
pub(crate) mod kind;
mod manual;
mod spec;
mod state;
mod world;

pub use error::WorldError;
pub use fault_rules::{ServedFault, UnfitReason, UnfitRule, UnreadableRules, read_rules};
pub use handler::ServeHandler;
pub use spec::{ClockMode, ControllerLoop, WorldSpec};
pub use state::WorldState;
pub use world::ServedWorld;
