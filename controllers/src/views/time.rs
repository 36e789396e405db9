//! Times in JSON, `metav1.Time`.

use std::fmt;

use jiff::Timestamp;
use serde::de::{Deserialize, Deserializer, Error, Visitor};

use crate::runtime::proto::clamped;

/// A time that can always be read. jiff's range ends a day before Go's, and one time that is out of it must not make the
/// object, and with it the list of all objects, unreadable: it becomes the last time there is.
struct Lenient(Timestamp);

impl<'de> Deserialize<'de> for Lenient {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Lenient;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a time in RFC 3339")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Lenient, E> {
                Ok(Lenient(text.parse().unwrap_or_else(|_| clamped(i64::MAX))))
            }
        }
        from.deserialize_str(Text)
    }
}

/// A time, or `null` for none.
pub(super) fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    Ok(Option::<Lenient>::deserialize(from)?.map(|Lenient(time)| time))
}

/// Times by name. `null`, which is how Go writes its zero time, is the first there is.
pub(super) mod by_name {
    use std::collections::BTreeMap;

    use super::{Deserialize as _, Deserializer, Lenient, Timestamp};

    pub(in crate::views) fn deserialize<'de, D>(from: D) -> Result<BTreeMap<String, Timestamp>, D::Error>
    where
        D: Deserializer<'de>,
    {
        let times = BTreeMap::<String, Option<Lenient>>::deserialize(from)?;
        Ok(times.into_iter().map(|(name, time)| (name, time.map_or(Timestamp::MIN, |Lenient(time)| time))).collect())
    }
}
