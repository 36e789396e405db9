//! Schedules of cron jobs, as `github.com/robfig/cron/v3` parses them. PURE.

/// The reason for which a schedule cannot be parsed, in the words of the parser.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ScheduleError {
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

/// Parses a schedule; only the error is of interest.
pub(super) fn validate(schedule: &str) -> Result<(), ScheduleError> {
    const BOUNDS: [(i64, i64); 5] = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)];
    let plain = match schedule.split_once(' ') {
        Some((zone, rest)) if zone.starts_with("TZ=") || zone.starts_with("CRON_TZ=") => rest.trim(),
        _ => schedule,
    };
    if let Some(name) = plain.strip_prefix('@') {
        let known = ["yearly", "annually", "monthly", "weekly", "daily", "midnight", "hourly"].contains(&name);
        let known = known || name.starts_with("every ");
        return if known { Ok(()) } else { Err(ScheduleError::Descriptor(plain.to_owned())) };
    }
    let fields: Vec<&str> = plain.split_whitespace().collect();
    if fields.len() != BOUNDS.len() {
        return Err(ScheduleError::Fields(fields.into_iter().map(str::to_owned).collect()));
    }
    for (i, (field, bounds)) in fields.iter().zip(BOUNDS).enumerate() {
        field.split(',').filter(|part| !part.is_empty()).try_for_each(|part| read_range(part, i, bounds))?;
    }
    Ok(())
}

fn read_range(part: &str, field: usize, (least, most): (i64, i64)) -> Result<(), ScheduleError> {
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
    let (from, to) = match range.split_once('-') {
        _ if matches!(range, "*" | "?") => (least, most),
        Some((_, to)) if to.contains('-') => return Err(ScheduleError::Hyphens(part.to_owned())),
        Some((from, to)) => (number(from)?, number(to)?),
        None => {
            let from = number(range)?;
            (from, if step.is_some() { most } else { from })
        }
    };
    if step.map(parse_uint).transpose()? == Some(0) {
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
    Ok(())
}

fn parse_uint(text: &str) -> Result<i64, ScheduleError> {
    match text.parse::<i64>() {
        Ok(number) if number >= 0 => Ok(number),
        Ok(number) => Err(ScheduleError::Negative(number, text.to_owned())),
        Err(_) => Err(ScheduleError::NotANumber(text.to_owned())),
    }
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
