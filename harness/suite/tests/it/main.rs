//! All integration tests that use the standard test harness, in one program, which is linked only once.

mod accounts;
mod apiserver;
mod at_scale;
mod bad_fixtures;
mod bad_subjects;
mod broken;
mod busy;
mod catalogue;
mod changed_snapshots;
mod cheats;
mod cli;
mod clients;
mod conformance;
mod controllers_program;
mod determinism;
mod documents;
mod evidence;
mod expensive;
mod explore;
mod fixtures;
mod fleet;
mod fuzz;
mod git_repository;
mod hostile;
mod image;
mod imports;
mod judging;
mod kubectl;
mod names;
mod outages;
mod pages;
mod programs;
mod reports;
mod reviews;
mod runner;
mod serve;
mod serving;
mod skips;
mod source_files;
mod streams;
mod support;
mod tidy;
mod virtual_time;
mod watching;
mod words;
mod worlds;

/// The allocator of the program `plumbline`: optimized in test builds, too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
