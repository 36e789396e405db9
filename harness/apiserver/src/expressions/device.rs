//! Selectors of devices. See `staging/src/k8s.io/dynamic-resource-allocation/cel/compile.go`. PURE.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::check::check_in;
use super::compile_error::NO_THREAD;
use super::parse::parse;
use super::types::CelType;

/// Returns the type of the variable `device`.
fn device_type() -> CelType {
    let map = |values: CelType| CelType::Map(Box::new(CelType::Text), Box::new(values));
    let fields = [
        ("driver", CelType::Text),
        ("allowMultipleAllocations", CelType::Bool),
        ("attributes", map(map(CelType::Dyn))),
        ("capacity", map(map(CelType::Other("kubernetes.Quantity")))),
    ];
    CelType::Object(Arc::new(BTreeMap::from(fields.map(|(name, ty)| (name.to_owned(), ty)))))
}

/// Returns the reason why a text is no selector of devices. Costs are not estimated.
pub(crate) fn device_selector_error(source: &str) -> Option<String> {
    let failed = |why: String| Some(format!("compilation failed: {why}"));
    let expression = match parse(source) {
        Ok(expression) => expression,
        Err(error) => return failed(error.to_string()),
    };
    // Upstream has `cel.bind` here, and nowhere else. Its types are not checked.
    if source.contains("cel.bind(") {
        return None;
    }
    let scope = vec![("device".to_owned(), device_type())];
    let Some(checked) = expression.walk(|program| check_in(program, scope)) else {
        return failed(NO_THREAD.to_owned());
    };
    let checked = match checked.valid() {
        Ok(checked) => checked,
        Err(error) => return Some(error.to_string()),
    };
    let fits = matches!(checked.ty, CelType::Bool | CelType::Dyn);
    (!fits).then(|| format!("must evaluate to bool or the unknown type, not {}", checked.ty))
}
