//! Rules that every controller should follow.

/// A rule that every controller should follow; see [`World::uphold`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule {
    /// A successful update or patch changes the object.
    NoIdleWrites,
    /// The same request is not sent more than 20 times within a second. Equal reads in one instant count once.
    NoStorms,
    /// A controller writes `status` through the subresource only: elsewhere the server ignores it.
    StatusBySubresource,
    /// No object is held by finalizers for more than a minute after its deletion.
    FinalizersAreRemoved,
    /// A controller changes nothing after ten minutes in which nothing has changed, until another client changes
    /// something, or a crash or fault ends. This is not for controllers with times of their own, such as cron jobs.
    NoWritesAfterQuiet,
}

impl Rule {
    /// All rules.
    pub const ALL: [Self; 5] = [
        Self::NoIdleWrites,
        Self::NoStorms,
        Self::StatusBySubresource,
        Self::FinalizersAreRemoved,
        Self::NoWritesAfterQuiet,
    ];

    /// The rules for controllers that act at times of their own, such as cron jobs: all but
    /// [`Rule::NoWritesAfterQuiet`].
    pub const OF_SCHEDULERS: [Self; 4] =
        [Self::NoIdleWrites, Self::NoStorms, Self::StatusBySubresource, Self::FinalizersAreRemoved];

    /// The name of the check in failures.
    pub(super) const fn check(self) -> &'static str {
        match self {
            Self::NoIdleWrites => "invariant no_idle_writes",
            Self::NoStorms => "invariant no_storms",
            Self::StatusBySubresource => "status by subresource",
            Self::FinalizersAreRemoved => "finalizers are removed",
            Self::NoWritesAfterQuiet => "no writes after quiet",
        }
    }
}
