//! Badges: the state of a controller as an endpoint for <https://shields.io/badges/endpoint-badge>.
//!
//! PURE: functions of the table.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::standing::{Board, Verdict};

/// The badge of a controller of an implementation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Badge {
    /// The implementation's name.
    pub project: String,
    /// The controller.
    pub controller: &'static str,
    /// The text on its right side.
    pub message: String,
    /// A colour that shields.io knows.
    pub color: &'static str,
}

impl Badge {
    /// The path of the endpoint in the site.
    #[must_use]
    pub fn path(&self) -> String {
        format!("badges/{}/{}.json", self.project, self.controller)
    }

    /// The endpoint's document.
    #[must_use]
    pub fn endpoint(&self) -> Value {
        json!({
            "schemaVersion": 1,
            "label": self.controller,
            "message": self.message,
            "color": self.color,
            "isError": self.color == "red",
        })
    }
}

/// Returns the badges of all tested controllers. The newest Kubernetes version counts; one that is no longer in the
/// window makes no green badge.
#[must_use]
pub fn badges(board: &Board<'_>) -> Vec<Badge> {
    let mut badges = BTreeMap::new();
    // Rows are in the order of versions, newest first.
    for row in board.rows() {
        let current = board.window.contains(&row.minor);
        for cell in &row.cells {
            let color = match cell.verdict {
                Verdict::NotTested | Verdict::NotImplemented => continue,
                Verdict::Conformant if current => "brightgreen",
                Verdict::NotConformant if current => "red",
                _ => "lightgrey",
            };
            let outdated = if current { "" } else { ", outdated" };
            badges.entry((row.project, cell.controller)).or_insert_with(|| Badge {
                project: row.project.to_owned(),
                controller: cell.controller,
                message: format!("{}, Kubernetes {}{outdated}", cell.verdict.words(), row.minor),
                color,
            });
        }
    }
    badges.into_values().collect()
}
