//! Schedules of cron jobs, as `github.com/robfig/cron/v3` reads them. PURE.

#[cfg(feature = "controllers")]
use jiff::civil::{Date, DateTime};
#[cfg(feature = "controllers")]
use jiff::tz::TimeZone;
#[cfg(feature = "controllers")]
use jiff::{SignedDuration, Timestamp};

/// The reason for which a schedule cannot be parsed, in the words of the parser.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ScheduleError {
    #[error("unrecognized descriptor: {0}")]
    Descriptor(String),
    #[error("expected exactly 5 fields, found {}: [{}]", .0.len(), .0.join(" "))]
    Fields(Vec<String>),
    #[error("too many slashes: {0}")]
    Slashes(String),
    #[error("too many hyphens: {0}")]
    Hyphens(String),
    #[error("step of range should be a positive number: {0}")]
    Step(String),
    #[error("beginning of range ({from}) below minimum ({least}): {part}")]
    Below { from: i64, least: i64, part: String },
    #[error("end of range ({to}) above maximum ({most}): {part}")]
    Above { to: i64, most: i64, part: String },
    #[error("beginning of range ({from}) beyond end of range ({to}): {part}")]
    Backwards { from: i64, to: i64, part: String },
    #[error("negative number ({0}) not allowed: {1}")]
    Negative(i64, String),
    #[error("failed to parse int from {0}: strconv.Atoi: parsing \"{0}\": invalid syntax")]
    NotANumber(String),
}

/// Names of months and days in schedules: field index, first number, names.
const NAMES: [(usize, i64, &[&str]); 2] = [
    (3, 1, &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]),
    (4, 0, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]),
];

/// Least and greatest numbers of the five fields: minutes, hours, days of the month, months, days of the week.
const BOUNDS: [(i64, i64); 5] = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)];

/// The times of a calendar that five fields describe.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CronSchedule {
    /// A set of numbers for each field: a bit for each number.
    fields: [u64; 5],
    /// True if a day has to fit both fields of days, because one of them is `*`; else one is enough.
    both_days: bool,
}

impl CronSchedule {
    /// Parses five fields, or a descriptor such as `@daily`.
    pub(crate) fn parse(text: &str) -> Result<Self, ScheduleError> {
        let plain = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            _ if text.starts_with('@') => return Err(ScheduleError::Descriptor(text.to_owned())),
            _ => text,
        };
        let words: Vec<&str> = plain.split_whitespace().collect();
        if words.len() != BOUNDS.len() {
            return Err(ScheduleError::Fields(words.into_iter().map(str::to_owned).collect()));
        }
        let mut schedule = Self { fields: [0; 5], both_days: false };
        for (i, (word, set)) in words.iter().zip(&mut schedule.fields).enumerate() {
            for part in word.split(',').filter(|part| !part.is_empty()) {
                let (numbers, is_star) = read_range(part, i)?;
                *set |= numbers;
                schedule.both_days |= is_star && matches!(i, 2 | 4);
            }
        }
        Ok(schedule)
    }
}

/// Returns the words of a schedule without its time zone, and that zone.
pub(crate) fn split_zone(schedule: &str) -> (Option<&str>, &str) {
    match schedule.split_once(' ') {
        Some((zone, rest)) if zone.starts_with("TZ=") || zone.starts_with("CRON_TZ=") => {
            (zone.split_once('=').map(|(_, zone)| zone), rest.trim())
        }
        _ => (None, schedule),
    }
}

/// Parses a schedule; only the error is of interest.
pub(crate) fn validate(schedule: &str) -> Result<(), ScheduleError> {
    let (_, plain) = split_zone(schedule);
    if plain.starts_with("@every ") { Ok(()) } else { CronSchedule::parse(plain).map(drop) }
}

/// Reads a part of a field: its numbers, and whether it is `*`.
fn read_range(part: &str, field: usize) -> Result<(u64, bool), ScheduleError> {
    let (least, most) = BOUNDS[field];
    let (range, step) = part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
    if step.is_some_and(|step| step.contains('/')) {
        return Err(ScheduleError::Slashes(part.to_owned()));
    }
    let number = |text: &str| {
        let lower = text.to_lowercase();
        let named = NAMES.iter().find(|(of, _, _)| *of == field).and_then(|(_, first, names)| {
            let at = names.iter().position(|name| *name == lower)?;
            Some(first + i64::try_from(at).ok()?)
        });
        named.map_or_else(|| parse_uint(text), Ok)
    };
    let is_star = matches!(range, "*" | "?");
    let (from, to) = match range.split_once('-') {
        _ if is_star => (least, most),
        Some((_, to)) if to.contains('-') => return Err(ScheduleError::Hyphens(part.to_owned())),
        Some((from, to)) => (number(from)?, number(to)?),
        None => {
            let from = number(range)?;
            (from, if step.is_some() { most } else { from })
        }
    };
    let step = step.map(parse_uint).transpose()?.unwrap_or(1);
    if step == 0 {
        return Err(ScheduleError::Step(part.to_owned()));
    }
    if from < least {
        return Err(ScheduleError::Below { from, least, part: part.to_owned() });
    }
    if to > most {
        return Err(ScheduleError::Above { to, most, part: part.to_owned() });
    }
    if from > to {
        return Err(ScheduleError::Backwards { from, to, part: part.to_owned() });
    }
    let numbers = (from..=to).filter(|number| (number - from) % step == 0).map(|number| 1_u64 << number).sum();
    Ok((numbers, is_star && step == 1))
}

fn parse_uint(text: &str) -> Result<i64, ScheduleError> {
    match text.parse::<i64>() {
        Ok(number) if number >= 0 => Ok(number),
        Ok(number) => Err(ScheduleError::Negative(number, text.to_owned())),
        Err(_) => Err(ScheduleError::NotANumber(text.to_owned())),
    }
}

/// Times, as `SpecSchedule.Next` finds them.
#[cfg(feature = "controllers")]
impl CronSchedule {
    /// Returns the first time after `moment`; `None` if there is none within five years, as on 31 February.
    pub(crate) fn next(&self, moment: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let mut time = Timestamp::from_second(moment.as_second() + 1).ok()?;
        let last_year = zone.to_datetime(time).year() + 5;
        loop {
            let civil = zone.to_datetime(time);
            let (minute, second) = (i64::from(civil.minute()), i64::from(civil.second()));
            if civil.year() > last_year {
                return None;
            }
            time = if !self.has(3, civil.month()) {
                beginning(civil.date().last_of_month().tomorrow().ok()?, zone)?
            } else if !self.has_day(civil) {
                beginning(civil.date().tomorrow().ok()?, zone)?
            } else if !self.has(1, civil.hour()) {
                time.checked_add(SignedDuration::from_secs(3600 - minute * 60 - second)).ok()?
            } else if !self.has(0, civil.minute()) || second != 0 {
                time.checked_add(SignedDuration::from_secs(60 - second)).ok()?
            } else {
                return Some(time);
            };
        }
    }

    /// Returns the last time after `start` that is not after `now`.
    pub(crate) fn last(&self, start: Timestamp, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let due = |after: i64| self.next(Timestamp::from_second(after).ok()?, zone).filter(|time| *time <= now);
        let mut last = due(start.as_second())?;
        // No time after `to` is due.
        let mut to = now.as_second();
        while last.as_second() + 1 < to {
            let middle = last.as_second().midpoint(to);
            match due(middle) {
                Some(time) => last = time,
                None => to = middle,
            }
        }
        Some(last)
    }

    fn has(&self, field: usize, number: i8) -> bool {
        self.fields[field] >> number & 1 == 1
    }

    fn has_day(&self, civil: DateTime) -> bool {
        let of_month = self.has(2, civil.day());
        let of_week = self.has(4, civil.weekday().to_sunday_zero_offset());
        if self.both_days { of_month && of_week } else { of_month || of_week }
    }
}

/// Returns the first moment of a day, which is not midnight where clocks skip it.
#[cfg(feature = "controllers")]
fn beginning(day: Date, zone: &TimeZone) -> Option<Timestamp> {
    Some(day.to_zoned(zone.clone()).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::hours("*/5 0-6 1,15 jan-mar sun", Ok(()))]
    #[case::descriptor("@hourly", Ok(()))]
    #[case::no_descriptor("@never", Err("unrecognized descriptor: @never"))]
    #[case::fields("bad", Err("expected exactly 5 fields, found 1: [bad]"))]
    #[case::above("60 * * * *", Err("end of range (60) above maximum (59): 60"))]
    #[case::no_number("x * * * *", Err("failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"))]
    fn schedules(#[case] schedule: &str, #[case] expected: Result<(), &str>) {
        assert_eq!(validate(schedule).map_err(|error| error.to_string()), expected.map_err(str::to_owned));
    }
}
