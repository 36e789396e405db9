//! The strategy of kinds with few rules: the generic one, with functions for defaults, validation and warnings.

use jiff::Timestamp;

use crate::Status;
use crate::field_errors::{ErrorList, Path};
use crate::json::fields::object_or_insert;
use crate::json::{Map, Value, json};
use crate::registry::generic::{Generic, UpdatePart};
use crate::registry::meta;
use crate::registry::prepare::reset_all_but_status;
use crate::registry::strategy::{Strategy, StrategyContext};

/// A generic strategy with defaults, validation and warnings.
#[derive(Debug, Clone, Copy)]
pub(super) struct KindStrategy {
    /// The generic rules.
    pub rules: Generic,
    /// Fills in defaults.
    pub default: fn(&mut Map),
    /// Mutating admission on create.
    pub admit: fn(&mut Value, &StrategyContext<'_>),
    /// Validating admission of a new object (`None`) or an update (the old object).
    pub check_admission: fn(&Value, Option<&Value>, &StrategyContext<'_>) -> Result<(), Status>,
    /// The finalizer that admission adds to new objects; empty for none.
    pub finalizer: &'static str,
    /// Kind-specific validation.
    pub check: fn(&Value) -> ErrorList,
    /// Kind-specific validation of an update, beside that of the new object.
    pub check_update: fn(&Value, &Value) -> ErrorList,
    /// Kind-specific validation of a new object only.
    pub check_new: fn(&Value) -> ErrorList,
    /// Kind-specific validation of a write to the status: the new and the old object.
    pub check_status: fn(&Value, &Value) -> ErrorList,
    /// Drops parts of a new status that the old object makes meaningless.
    pub drop_status: fn(&mut Value, &Value),
    /// Kind-specific validation of a new object among others.
    pub check_among_others: fn(&Value, &StrategyContext<'_>) -> ErrorList,
    /// Drops what clients cannot set in a new object (`None`) or an update (the old object).
    pub drop_fields: fn(&mut Value, Option<&Value>),
    /// Drops fields behind disabled feature gates, after a change of them has counted as one of the object.
    pub drop_late: fn(&mut Value),
    /// Adds defaults that are the time of the request.
    pub stamp: fn(&mut Value, Timestamp),
    /// Creations without a name get a random one.
    pub random_name: bool,
    /// Returns warnings for a new object (`None`) or an update (the old object).
    pub warn: fn(&Value, Option<&Value>) -> Vec<String>,
    /// Returns warnings for a write to the status.
    pub warn_status: fn(&Value) -> Vec<String>,
}

impl KindStrategy {
    /// Creates a strategy that adds defaults to the generic rules.
    pub(crate) const fn new(rules: Generic, default: fn(&mut Map)) -> Self {
        Self {
            rules,
            default,
            admit: |_, _| {},
            check_admission: |_, _, _| Ok(()),
            finalizer: "",
            check: |_| ErrorList::new(),
            check_update: |_, _| ErrorList::new(),
            check_new: |_| ErrorList::new(),
            check_status: |_, _| ErrorList::new(),
            drop_status: |_, _| {},
            check_among_others: |_, _| ErrorList::new(),
            drop_fields: |_, _| {},
            drop_late: |_| {},
            stamp: |_, _| {},
            random_name: false,
            warn: |_, _| Vec::new(),
            warn_status: |_| Vec::new(),
        }
    }

    /// Adds defaults that are the time of the request.
    #[must_use]
    pub(crate) const fn stamp_with(mut self, stamp: fn(&mut Value, Timestamp)) -> Self {
        self.stamp = stamp;
        self
    }

    /// Drops fields behind disabled feature gates, after a change of them has counted as one of the object.
    #[must_use]
    pub(crate) const fn drop_late_with(mut self, drop_late: fn(&mut Value)) -> Self {
        self.drop_late = drop_late;
        self
    }

    /// Adds mutating admission on create, before that of the finalizer.
    #[must_use]
    pub(crate) const fn admit_with(mut self, admit: fn(&mut Value, &StrategyContext<'_>)) -> Self {
        self.admit = admit;
        self
    }

    /// Adds validating admission.
    #[must_use]
    pub(crate) const fn check_admission_with(
        mut self,
        check: fn(&Value, Option<&Value>, &StrategyContext<'_>) -> Result<(), Status>,
    ) -> Self {
        self.check_admission = check;
        self
    }

    /// Makes admission add a finalizer to new objects.
    #[must_use]
    pub(crate) const fn with_finalizer(mut self, finalizer: &'static str) -> Self {
        self.finalizer = finalizer;
        self
    }

    /// Adds kind-specific validation.
    #[must_use]
    pub(crate) const fn check_with(mut self, check: fn(&Value) -> ErrorList) -> Self {
        self.check = check;
        self
    }

    /// Adds kind-specific validation of the new and the old object of an update.
    #[must_use]
    pub(crate) const fn check_update_with(mut self, check: fn(&Value, &Value) -> ErrorList) -> Self {
        self.check_update = check;
        self
    }

    /// Adds kind-specific validation that updates leave out, for kinds whose fields cannot change.
    #[must_use]
    pub(crate) const fn check_new_with(mut self, check: fn(&Value) -> ErrorList) -> Self {
        self.check_new = check;
        self
    }

    /// Adds kind-specific validation of writes to the status.
    #[must_use]
    pub(crate) const fn check_status_with(mut self, check: fn(&Value, &Value) -> ErrorList) -> Self {
        self.check_status = check;
        self
    }

    /// Adds a function that drops parts of a new status.
    #[must_use]
    pub(crate) const fn drop_status_with(mut self, drop_status: fn(&mut Value, &Value)) -> Self {
        self.drop_status = drop_status;
        self
    }

    /// Adds kind-specific validation of a new object that needs other objects.
    #[must_use]
    pub(crate) const fn check_among_others_with(
        mut self,
        check: fn(&Value, &StrategyContext<'_>) -> ErrorList,
    ) -> Self {
        self.check_among_others = check;
        self
    }

    /// Adds a function that drops what clients cannot set.
    #[must_use]
    pub(crate) const fn drop_with(mut self, drop_fields: fn(&mut Value, Option<&Value>)) -> Self {
        self.drop_fields = drop_fields;
        self
    }

    /// Names objects that are created without a name.
    #[must_use]
    pub(crate) const fn with_random_name(mut self) -> Self {
        self.random_name = true;
        self
    }

    /// Adds warnings.
    #[must_use]
    pub(crate) const fn warn_with(mut self, warn: fn(&Value, Option<&Value>) -> Vec<String>) -> Self {
        self.warn = warn;
        self
    }

    /// Adds warnings about writes to the status.
    #[must_use]
    pub(crate) const fn warn_status_with(mut self, warn_status: fn(&Value) -> Vec<String>) -> Self {
        self.warn_status = warn_status;
        self
    }
}

impl Strategy for KindStrategy {
    fn default(&self, object: &mut Value) {
        if let Some(map) = object.as_object_mut() {
            (self.default)(map);
        }
    }

    fn admit_create(&self, object: &mut Value, ctx: &StrategyContext<'_>) -> Result<(), Status> {
        (self.admit)(object, ctx);
        if self.finalizer.is_empty() {
            return Ok(());
        }
        let Some(metadata) = object_or_insert(object, "metadata") else { return Ok(()) };
        let finalizers = metadata.entry("finalizers").or_insert_with(|| json!([]));
        if let Some(finalizers) = finalizers.as_array_mut()
            && finalizers.iter().all(|f| f != self.finalizer)
        {
            finalizers.push(self.finalizer.into());
        }
        Ok(())
    }

    fn check_admission(
        &self,
        subresource: &str,
        new: &Value,
        old: Option<&Value>,
        ctx: &StrategyContext<'_>,
    ) -> Result<(), Status> {
        if subresource.is_empty() { (self.check_admission)(new, old, ctx) } else { Ok(()) }
    }

    fn prepare_for_create(&self, object: &mut Value, ctx: &StrategyContext<'_>) {
        self.rules.prepare_for_create(object, ctx);
        (self.drop_fields)(object, None);
        self.default(object);
        (self.stamp)(object, ctx.now);
        (self.drop_late)(object);
    }

    fn validate_among_others(&self, object: &Value, ctx: &StrategyContext<'_>) -> ErrorList {
        (self.check_among_others)(object, ctx)
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = self.rules.validate(object);
        errors.append((self.check)(object));
        errors.append((self.check_new)(object));
        errors
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, ctx: &StrategyContext<'_>) {
        (self.drop_fields)(new, Some(old));
        (self.stamp)(new, ctx.now);
        self.rules.prepare_for_update(new, old, ctx);
        (self.drop_late)(new);
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        for part in self.rules.updates.parts() {
            errors.append(match part {
                UpdatePart::Changes => meta::validate_update(new, old, &Path::new("metadata")),
                UpdatePart::Metadata => self.rules.validate(new),
                UpdatePart::Fields => (self.check)(new),
                UpdatePart::Stable => (self.check_update)(new, old),
            });
        }
        errors
    }

    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, _ctx: &StrategyContext<'_>) {
        reset_all_but_status(new, old);
        (self.drop_status)(new, old);
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> ErrorList {
        (self.check_status)(new, old)
    }

    fn warnings_on_create(&self, object: &Value) -> Vec<String> {
        (self.warn)(object, None)
    }

    fn warnings_on_update(&self, new: &Value, old: &Value) -> Vec<String> {
        (self.warn)(new, Some(old))
    }

    fn warnings_on_status_update(&self, new: &Value) -> Vec<String> {
        (self.warn_status)(new)
    }

    fn names_new_objects(&self) -> bool {
        self.random_name
    }

    fn allow_create_on_update(&self) -> bool {
        self.rules.create_on_update
    }

    fn allow_unconditional_update(&self) -> bool {
        self.rules.unconditional
    }
}
