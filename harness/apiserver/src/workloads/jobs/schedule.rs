//! Schedules of cron jobs. Pure.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::cron::{CronSchedule, split_zone};
use crate::go_duration::go_duration;
use crate::json::Value;

/// The times at which a cron job starts a job.
pub(super) enum Schedule {
    /// Times of the calendar of a time zone.
    Calendar(CronSchedule, TimeZone),
    /// `@every`: equal distances, in whole seconds.
    Interval(Duration),
}

impl Schedule {
    /// Reads the schedule of a cron job; `None` if it, or its time zone, is unknown.
    pub(super) fn of(cron_job: &Value) -> Option<Self> {
        let (zone, text) = split_zone(cron_job["spec"]["schedule"].as_str()?);
        let zone = match zone.or_else(|| cron_job["spec"]["timeZone"].as_str()) {
            Some(name) if name != "UTC" => TimeZone::get(name).ok()?,
            _ => TimeZone::UTC,
        };
        if let Some(every) = text.strip_prefix("@every ") {
            let seconds = u64::try_from(go_duration(every.trim())? / 1_000_000_000).ok()?;
            return Some(Self::Interval(Duration::from_secs(seconds.max(1))));
        }
        Some(Self::Calendar(CronSchedule::parse(text).ok()?, zone))
    }

    /// Returns the first time after `moment`; `None` if there is none, as on 31 February.
    pub(super) fn next(&self, moment: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Calendar(schedule, zone) => schedule.next(moment, zone),
            Self::Interval(every) => Timestamp::from_second(moment.as_second()).ok()?.checked_add(*every).ok(),
        }
    }

    /// Returns the last time after `start` that is not after `now`.
    pub(super) fn last(&self, start: Timestamp, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Calendar(schedule, zone) => schedule.last(start, now, zone),
            Self::Interval(every) => {
                let every = i64::try_from(every.as_secs()).ok()?;
                let rounds = (now.as_second() - start.as_second()) / every;
                let last = Timestamp::from_second(start.as_second() + rounds * every).ok()?;
                (last > start).then_some(last)
            }
        }
    }

    /// Returns true if more than a hundred times between `start` and `now` have passed, by the distance of the first
    /// two: `mostRecentScheduleTime` in `pkg/controller/cronjob/utils.go`.
    pub(super) fn has_missed_many(&self, start: Timestamp, now: Timestamp) -> bool {
        let Some(first) = self.next(start) else { return false };
        let Some(second) = self.next(first) else { return false };
        let distance = (second.as_second() - first.as_second()).max(1);
        (now.as_second() - first.as_second()) / distance + 1 > 100
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;
    use rstest::rstest;

    fn time(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    /// The times are those of `Schedule.Next` in the tests of robfig/cron.
    #[rstest]
    #[case::quarters("0/15 * * *", "2012-07-09T14:45:00Z", None)]
    #[case::step("0/15 * * * *", "2012-07-09T14:45:00Z", Some("2012-07-09T15:00:00Z"))]
    #[case::range("20-35/15 * * * *", "2012-07-09T15:45:00Z", Some("2012-07-09T16:20:00Z"))]
    #[case::months("0 0 9 Apr-Oct ?", "2012-07-09T23:35:00Z", Some("2012-08-09T00:00:00Z"))]
    #[case::either_day("0 0 1,15 * Sun", "2012-07-09T00:00:00Z", Some("2012-07-15T00:00:00Z"))]
    #[case::leap_day("0 0 29 Feb ?", "2012-07-09T23:35:00Z", Some("2016-02-29T00:00:00Z"))]
    #[case::never("0 0 31 2 *", "2012-07-09T23:35:00Z", None)]
    #[case::next_year("0 0 * 1 *", "2012-12-31T23:59:30.5Z", Some("2013-01-01T00:00:00Z"))]
    #[case::step_is_no_star("0 0 */10 * Sun", "2012-07-12T00:00:00Z", Some("2012-07-15T00:00:00Z"))]
    #[case::star_needs_both("0 0 * * Mon", "2012-07-10T00:00:00Z", Some("2012-07-16T00:00:00Z"))]
    #[case::hourly("@hourly", "2012-07-09T23:35:00Z", Some("2012-07-10T00:00:00Z"))]
    #[case::every("@every 5m", "2012-07-09T14:45:00.5Z", Some("2012-07-09T14:50:00Z"))]
    #[case::hour_is_skipped("TZ=America/New_York 30 2 11 Mar ?", "2012-03-11T05:00:00Z", Some("2013-03-11T06:30:00Z"))]
    #[case::after_it("TZ=America/New_York 0 * * * ?", "2012-03-11T06:00:00Z", Some("2012-03-11T07:00:00Z"))]
    #[case::hour_twice("TZ=America/New_York 0 1 * * ?", "2012-11-04T05:00:00Z", Some("2012-11-04T06:00:00Z"))]
    #[case::later_hour("TZ=America/New_York 0 3 * * ?", "2012-11-04T04:00:00Z", Some("2012-11-04T08:00:00Z"))]
    #[case::no_midnight("TZ=America/Sao_Paulo 0 9 10 * ?", "2018-10-17T09:00:00Z", Some("2018-11-10T11:00:00Z"))]
    #[case::zone("TZ=Asia/Kolkata 0 9 * * *", "2012-07-09T00:00:00Z", Some("2012-07-09T03:30:00Z"))]
    fn next_times(#[case] schedule: &str, #[case] from: &str, #[case] expected: Option<&str>) {
        // A machine may have no database of time zones.
        if schedule.starts_with("TZ=") && TimeZone::get("America/New_York").is_err() {
            return;
        }
        let schedule = Schedule::of(&json!({"spec": {"schedule": schedule}}));
        assert_eq!(schedule.and_then(|schedule| schedule.next(time(from))), expected.map(time));
    }

    /// As `TestMostRecentScheduleTime` in `pkg/controller/cronjob/utils_test.go`.
    #[rstest]
    #[case::hundred("*/5 * * * *", "2012-07-09T00:00:00Z", "2012-07-09T08:20:00Z", false)]
    #[case::more("*/5 * * * *", "2012-07-09T00:00:00Z", "2012-07-09T08:25:00Z", true)]
    #[case::none("*/5 * * * *", "2012-07-09T00:00:00Z", "2012-07-09T00:01:00Z", false)]
    fn many_missed_times(#[case] schedule: &str, #[case] start: &str, #[case] now: &str, #[case] expected: bool) {
        let schedule = Schedule::of(&json!({"spec": {"schedule": schedule}})).expect("a schedule");
        assert_eq!(schedule.has_missed_many(time(start), time(now)), expected);
    }

    #[rstest]
    #[case::missed("*/5 * * * *", "2012-07-09T14:46:00Z", "2012-07-09T15:01:00Z", Some("2012-07-09T15:00:00Z"))]
    #[case::long_ago("0 0 29 2 *", "2000-07-09T00:00:00Z", "2011-12-31T23:59:59Z", Some("2008-02-29T00:00:00Z"))]
    #[case::on_time("*/5 * * * *", "2012-07-09T14:46:00Z", "2012-07-09T14:50:00Z", Some("2012-07-09T14:50:00Z"))]
    #[case::early("*/5 * * * *", "2012-07-09T14:46:00Z", "2012-07-09T14:49:59Z", None)]
    #[case::once("*/5 * * * *", "2012-07-09T14:50:00Z", "2012-07-09T14:50:01Z", None)]
    #[case::intervals("@every 1m", "2012-07-09T14:46:10Z", "2012-07-09T14:49:09Z", Some("2012-07-09T14:48:10Z"))]
    fn last_times(#[case] schedule: &str, #[case] start: &str, #[case] now: &str, #[case] expected: Option<&str>) {
        let schedule = Schedule::of(&json!({"spec": {"schedule": schedule}})).expect("a schedule");
        assert_eq!(schedule.last(time(start), time(now)), expected.map(time));
    }
}
