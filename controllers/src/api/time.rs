//! Times: `metav1.Time` in JSON, and a compact optional timestamp.

use std::fmt;

use jiff::Timestamp;
use serde::de::{Deserialize, Deserializer, Error, Visitor};

use super::protobuf::clamped;

/// An optional point in time in microseconds: half the size of an `Option<Timestamp>`.
#[derive(Clone, Copy, Eq, Ord, PartialEq, PartialOrd)]
pub struct CompactTimestamp(i64);

impl CompactTimestamp {
    /// No time.
    pub const NONE: Self = Self(i64::MIN);

    /// Returns the time, if there is one.
    pub fn get(self) -> Option<Timestamp> {
        (self != Self::NONE).then(|| Timestamp::from_microsecond(self.0).unwrap_or(Timestamp::MIN))
    }
}

impl From<Option<Timestamp>> for CompactTimestamp {
    fn from(time: Option<Timestamp>) -> Self {
        time.map_or(Self::NONE, |time| Self(time.as_microsecond()))
    }
}

impl Default for CompactTimestamp {
    fn default() -> Self {
        Self::NONE
    }
}

impl fmt::Debug for CompactTimestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.get(), f)
    }
}

/// Truncates `time` to the second, as `metav1.Time` is encoded.
pub fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_nanosecond().div_euclid(1_000_000_000) as i64).unwrap_or(time)
}

/// A timestamp whose deserialization never fails. jiff's range ends a day before Go's; a time outside of it becomes the
/// last representable one, so that it does not make the whole list unreadable.
struct ClampedTime(Timestamp);

impl<'de> Deserialize<'de> for ClampedTime {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct ClampedTimeVisitor;
        impl Visitor<'_> for ClampedTimeVisitor {
            type Value = ClampedTime;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a time in RFC 3339")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<ClampedTime, E> {
                Ok(ClampedTime(text.parse().unwrap_or_else(|_| clamped(i64::MAX))))
            }
        }
        from.deserialize_str(ClampedTimeVisitor)
    }
}

/// Deserializes a time; `null` is `None`.
pub(super) fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    Ok(Option::<ClampedTime>::deserialize(from)?.map(|ClampedTime(time)| time))
}

/// Deserializes times by name. `null`, which is Go's zero time, becomes the first representable time.
pub(super) mod by_name {
    use std::collections::BTreeMap;

    use jiff::Timestamp;
    use serde::de::{Deserialize as _, Deserializer};

    use crate::api::time::ClampedTime;

    pub(in crate::api) fn deserialize<'de, D>(from: D) -> Result<BTreeMap<String, Timestamp>, D::Error>
    where
        D: Deserializer<'de>,
    {
        let times = BTreeMap::<String, Option<ClampedTime>>::deserialize(from)?;
        Ok(times
            .into_iter()
            .map(|(name, time)| (name, time.map_or(Timestamp::MIN, |ClampedTime(time)| time)))
            .collect())
    }
}
