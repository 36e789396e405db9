//! All tests of the controllers that need more than one of their modules, as one program.

mod app;
mod decisions;
mod deploy;
mod http;
mod layers;
mod logs;
mod serve;
mod support;
