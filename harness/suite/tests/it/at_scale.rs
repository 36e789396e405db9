//! Many objects, and long times. Tests start in the order of their names: the longest ones are among the first, so that
//! none of them runs alone at the end.

mod failover;
mod soak;
