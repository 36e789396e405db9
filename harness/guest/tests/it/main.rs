//! Tests of guests: programs of every kind in virtual time. Their subjects are small programs in Python, shell, Java
//! and Go, and this program itself in a role.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod bad_input;
mod c_programs;
mod clocks;
mod containers;
mod interruptions;
mod pitfalls;
mod programs;
mod random;
mod refusals;
mod roles;
mod support;
