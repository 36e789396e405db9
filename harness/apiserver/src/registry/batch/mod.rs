//! The kinds of `batch`. See `pkg/registry/batch`.

pub(in crate::registry) mod cron_job;
pub(in crate::registry) mod job;
