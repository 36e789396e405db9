//! Limits of estimated costs, and the errors of what exceeds them. PURE.

/// Largest estimate of one expression: `StaticEstimatedCostLimit` of apiextensions-apiserver.
pub(crate) const EXPRESSION_LIMIT: u64 = 10_000_000;

/// Largest estimate of all expressions of a schema: `StaticEstimatedCRDCostLimit` there.
pub(crate) const SCHEMA_LIMIT: u64 = 100_000_000;

/// The estimates of all expressions of one schema.
#[derive(Debug, Default)]
pub(crate) struct SchemaCost {
    total: u64,
    /// The most expensive expressions with their paths, the most expensive first.
    expensive: Vec<(u64, String)>,
}

impl SchemaCost {
    /// Adds an expression.
    pub(crate) fn add(&mut self, path: String, cost: u64) {
        self.total = self.total.saturating_add(cost);
        if cost >= SCHEMA_LIMIT / 100 {
            self.expensive.push((cost, path));
            self.expensive.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
            self.expensive.truncate(4);
        }
    }

    /// Returns the paths of the expressions that contribute most, and the error of the schema, if the sum is too large.
    pub(crate) fn exceeded(self) -> Option<(Vec<String>, String)> {
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        let message = exceeded(what, self.total, SCHEMA_LIMIT)?;
        Some((self.expensive.into_iter().map(|(_, path)| path).collect(), message))
    }
}

/// Returns the error of an estimate that exceeds its limit.
pub(crate) fn exceeded(what: &str, cost: u64, limit: u64) -> Option<String> {
    if cost <= limit {
        return None;
    }
    let factor = cost as f64 / limit as f64;
    let factor = match factor {
        more if more > 100.0 => "more than 100x".to_owned(),
        little if little < 1.5 => format!("{little:.6}x"),
        other => format!("{other:.1}x"),
    };
    Some(format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    ))
}
