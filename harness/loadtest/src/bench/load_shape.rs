//! The size of the load.

use serde::{Deserialize, Serialize};

use super::bodies::LoadSpec;

/// The size of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoadShape {
    /// Pods.
    pub pods: usize,
    /// Nodes.
    pub nodes: usize,
    /// Budgets, each with a replica set.
    pub budgets: usize,
    /// Connections that write.
    pub connections: usize,
    /// HTTP/2 connections over which the writers of [`connections`](Self::connections) send their requests; 0: each has
    /// an HTTP/1.1 connection of its own.
    #[serde(default)]
    pub shared: usize,
    /// Watchers of the watch stage; 0 skips it.
    pub watchers: usize,
    /// Writes per second of the watch stage.
    pub rate: usize,
    /// Duration of the watch stage in seconds.
    pub seconds: usize,
}

impl Default for LoadShape {
    fn default() -> Self {
        Self {
            pods: 150_000,
            nodes: 5_000,
            budgets: 3_000,
            connections: 64,
            shared: 0,
            watchers: 100,
            rate: 1_000,
            seconds: 10,
        }
    }
}

impl LoadShape {
    /// Returns the text about the connections that write.
    pub(super) fn writers(&self) -> String {
        match self.shared {
            0 => format!("{} connections", self.connections),
            shared => format!("{} requests at a time over {shared} HTTP/2 connections", self.connections),
        }
    }

    /// Returns the load with this percentage of the nodes, pods and budgets.
    #[must_use]
    pub fn percent(self, percent: usize) -> Self {
        let part = |count: usize| (count * percent / 100).max(1);
        let Self { nodes, pods, budgets, .. } = self;
        Self { nodes: part(nodes), pods: part(pods), budgets: part(budgets), ..self }
    }

    pub(super) fn world(&self) -> LoadSpec {
        let Self { nodes, pods, budgets, .. } = *self;
        let budget = r#""minAvailable":"80%""#;
        LoadSpec { nodes, apps: budgets.max(1), pods, namespaces: NAMESPACES, budget, annotated: true }
    }
}

/// Number of namespaces for applications.
const NAMESPACES: usize = 100;
