//! A parsed text: the expression, and where each part of it was written.

use cel::common::ast::{IdedExpr, SourceInfo};

/// A parsed text.
#[derive(Debug)]
pub(crate) struct Program {
    expression: IdedExpr,
    source: SourceInfo,
}

impl Program {
    pub(super) fn new(expression: IdedExpr, source: SourceInfo) -> Self {
        Self { expression, source }
    }

    pub(crate) fn expression(&self) -> &IdedExpr {
        &self.expression
    }

    /// Returns where each part was written.
    pub(crate) fn source_info(&self) -> &SourceInfo {
        &self.source
    }
}
