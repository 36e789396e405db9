//! Defaults that jobs and the job templates of cron jobs share. See `pkg/apis/batch/v1/defaults.go`. PURE.

use crate::json::Map;
use crate::registry::core::pod::defaults;

/// Sets the defaults of the pods' template.
pub(in crate::registry) fn job_template(spec: &mut Map) {
    if let Some(template) = spec.get_mut("template") {
        defaults::template(template);
    }
}
