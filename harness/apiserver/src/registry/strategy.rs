//! The rules of a resource, in the steps of a request.

use std::fmt::Debug;

use jiff::Timestamp;

use crate::field_errors::ErrorList;
use crate::json::Value;
use crate::registry::lister::ObjectLister;
use crate::registry::prepare::reset_all_but_status;
use crate::status::Status;
use crate::user::UserInfo;

/// The data of a request that strategies may use in addition to the objects.
#[derive(Clone, Copy)]
pub(crate) struct StrategyContext<'a> {
    /// Server time.
    pub now: Timestamp,
    /// The requesting user.
    pub user: &'a UserInfo,
    /// Other objects, for admission (priority classes, services' addresses, namespaces).
    pub lookup: &'a dyn ObjectLister,
    /// Nothing is stored.
    pub dry_run: bool,
}

#[cfg(test)]
impl<'a> StrategyContext<'a> {
    /// Creates the context of a request at the epoch, by no user, that finds these objects.
    pub(crate) fn of_test(lookup: &'a dyn ObjectLister) -> Self {
        Self { now: Timestamp::UNIX_EPOCH, user: &crate::authn::NO_USER, lookup, dry_run: false }
    }
}

impl Debug for StrategyContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("now", &self.now).field("user", &self.user.name).finish_non_exhaustive()
    }
}

/// The rules of a resource: `RESTCreateStrategy`, `RESTUpdateStrategy`, defaulting and the default admission plugins.
///
/// The default methods do nothing, so a resource without rules needs no code.
pub(crate) trait Strategy: Send + Sync + Debug {
    /// Fills in default values; runs first on every decoded object.
    fn default(&self, _object: &mut Value) {}

    /// Like [`Strategy::default`] for an object that has its defaults except in the status.
    fn default_status(&self, object: &mut Value) {
        self.default(object);
    }

    /// Like [`Strategy::default`] for the result of a server-side apply, which is not decoded.
    fn default_applied(&self, object: &mut Value) {
        self.default(object);
    }

    /// Mutating admission on create, for the plugins that are enabled by default.
    fn admit_create(&self, _object: &mut Value, _ctx: &StrategyContext<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// Mutating admission on update.
    fn admit_update(&self, _new: &mut Value, _old: &Value, _ctx: &StrategyContext<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// Drops fields that clients may not set on create (status) and sets the first generation.
    fn prepare_for_create(&self, _object: &mut Value, _ctx: &StrategyContext<'_>) {}

    /// Kind-specific validation on create; [`validate_create`] adds the rules for all metadata.
    fn validate(&self, _object: &Value) -> ErrorList {
        ErrorList::new()
    }

    /// Validation on create that needs other objects; its errors come first.
    fn validate_among_others(&self, _object: &Value, _ctx: &StrategyContext<'_>) -> ErrorList {
        ErrorList::new()
    }

    /// Runs before a new object is prepared and validated, to allocate IP addresses and ports: `BeginCreate` of
    /// upstream's store.
    fn begin_create(&self, _object: &mut Value, _ctx: &StrategyContext<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// Like [`Strategy::begin_create`] for an object that exists before the first request: what it has is not checked.
    fn begin_seed(&self, object: &mut Value, ctx: &StrategyContext<'_>) -> Result<(), Status> {
        self.begin_create(object, ctx)
    }

    /// Like [`Strategy::begin_create`] for an update.
    fn begin_update(&self, _new: &mut Value, _old: &Value, _ctx: &StrategyContext<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// Changes a valid object that passed admission, right before it is stored.
    fn canonicalize(&self, _object: &mut Value) {}

    /// Restores fields that this endpoint may not change (status) and increments the generation.
    fn prepare_for_update(&self, _new: &mut Value, _old: &Value, _ctx: &StrategyContext<'_>) {}

    /// Kind-specific validation on update; [`validate_update`] adds the rules for all metadata.
    fn validate_update(&self, _new: &Value, _old: &Value) -> ErrorList {
        ErrorList::new()
    }

    /// Restores all fields except the status (and others that the kind allows) on a write to `/status`.
    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, _ctx: &StrategyContext<'_>) {
        reset_all_but_status(new, old);
    }

    /// Kind-specific validation on a write to `/status`.
    fn validate_status_update(&self, _new: &Value, _old: &Value) -> ErrorList {
        ErrorList::new()
    }

    /// Restores fields that a write through `subresource` (not the object itself or its status) may not change. As
    /// upstream, this runs after field ownership is updated: a manager that tried to change such a field owns it.
    fn narrow(&self, _subresource: &str, _new: &mut Value, _old: &Value) {}

    /// Prepares a write through `subresource` for storage.
    fn prepare_for_subresource_update(
        &self,
        subresource: &str,
        new: &mut Value,
        old: &Value,
        ctx: &StrategyContext<'_>,
    ) {
        self.narrow(subresource, new, old);
        self.prepare_for_update(new, old, ctx);
    }

    /// Kind-specific validation on a write through `subresource`.
    fn validate_subresource_update(&self, _subresource: &str, new: &Value, old: &Value) -> ErrorList {
        self.validate_update(new, old)
    }

    /// Mutating admission on an update through `subresource`.
    fn admit_subresource(
        &self,
        _subresource: &str,
        _new: &mut Value,
        _old: &Value,
        _ctx: &StrategyContext<'_>,
    ) -> Result<(), Status> {
        Ok(())
    }

    /// Validating admission on a valid write of the object itself (`subresource` is empty) or through a subresource
    /// other than the status; `old` is the object before an update.
    fn check_admission(
        &self,
        _subresource: &str,
        _new: &Value,
        _old: Option<&Value>,
        _ctx: &StrategyContext<'_>,
    ) -> Result<(), Status> {
        Ok(())
    }

    /// Returns warnings for the client, without a prefix.
    fn warnings_on_create(&self, _object: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Returns warnings for the client, without a prefix.
    fn warnings_on_update(&self, _new: &Value, _old: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Returns warnings about a write to `/status` for the client, without a prefix.
    fn warnings_on_status_update(&self, _new: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Returns true if an object that is created without a name gets a random one.
    fn names_new_objects(&self) -> bool {
        false
    }

    /// Returns true if PUT on a name that does not exist creates the object.
    fn allow_create_on_update(&self) -> bool {
        false
    }

    /// Returns true if updates do not need a resourceVersion.
    fn allow_unconditional_update(&self) -> bool {
        true
    }

    /// Like [`Strategy::allow_unconditional_update`] for writes to `/status`.
    fn allow_unconditional_status_update(&self) -> bool {
        self.allow_unconditional_update()
    }

    /// Returns the grace period in seconds of a graceful deletion; `None` for kinds that are deleted immediately.
    ///
    /// `wanted` is `gracePeriodSeconds` of the request.
    fn grace_period(&self, _object: &Value, _wanted: Option<i64>) -> Option<i64> {
        None
    }

    /// Returns true if dependents are orphaned when a deletion has no policy (batch/v1 Job and core/v1
    /// `ReplicationController`).
    fn orphans_by_default(&self) -> bool {
        false
    }
}

/// The strategy of resources without rules.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct DefaultStrategy;

impl Strategy for DefaultStrategy {}
