//! E-001…E-032 on a store of one pod and its budgets.

use std::cell::{Cell, RefCell};

use rstest::rstest;
use serde_json::json;

use super::*;

#[test]
fn placeholder_is_replaced() {
    assert_eq!(ATTEMPTS, 20);
    let _ = (Cell::new(0), RefCell::new(0), json!({}));
}
