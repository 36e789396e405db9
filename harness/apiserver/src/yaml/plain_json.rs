//! Recognizes the JSON that `sigs.k8s.io/yaml` reads as JSON parsers do; most clients send it. PURE.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use smallvec::SmallVec;

/// Deepest nesting.
const PLAIN_DEPTH: usize = 48;
/// Longest key: Go's YAML parser limits them.
const KEY: usize = 1000;

/// Returns true for an object in JSON that is the same in YAML: in ASCII, with unique keys, and without tabs, escapes
/// of code points, merge keys, and numbers other than 64-bit integers.
pub(super) fn is_plain_object(text: &str) -> bool {
    let is_usual = text.starts_with('{') && text.is_ascii() && !text.contains("\\u") && !text.contains('\t');
    let mut json = serde_json::Deserializer::from_str(text);
    is_usual && PlainValue { depth: 0 }.deserialize(&mut json).is_ok() && json.end().is_ok()
}

/// Reads a value without keeping it; fails if it is not plain.
#[derive(Clone, Copy)]
struct PlainValue {
    depth: usize,
}

impl PlainValue {
    fn below<E: Error>(self) -> Result<Self, E> {
        let depth = self.depth + 1;
        if depth > PLAIN_DEPTH { Err(E::custom("too deep")) } else { Ok(Self { depth }) }
    }
}

impl<'de> DeserializeSeed<'de> for PlainValue {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for PlainValue {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("plain JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let item = self.below()?;
        while list.next_element_seed(item)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let item = self.below()?;
        // A key with an escape cannot be borrowed: its object counts as not plain, and is read as YAML.
        let mut keys: SmallVec<[&'de str; 16]> = SmallVec::new();
        while let Some(key) = entries.next_key()? {
            keys.push(key);
            entries.next_value_seed(item)?;
        }
        keys.sort_unstable();
        let is_odd = |key: &&str| *key == "<<" || key.len() > KEY;
        if keys.windows(2).any(|pair| pair[0] == pair[1]) || keys.iter().any(is_odd) {
            return Err(A::Error::custom("keys that YAML reads in another way"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::super::read::read_all;
    use super::*;
    use crate::json::Value;

    #[rstest]
    #[case::usual(r#"{"a": [1, -2, true, null, "x: y\n\"z\"", {}], "b": {"c": "1.5"}}"#, true)]
    #[case::fraction(r#"{"a": 1.0}"#, false)]
    #[case::exponent(r#"{"a": 1e3}"#, false)]
    #[case::large(r#"{"a": 99999999999999999999}"#, false)]
    #[case::twice(r#"{"a": 1, "a": 2}"#, false)]
    #[case::merge(r#"{"<<": {"a": 1}}"#, false)]
    #[case::escape(r#"{"a": "\u0041"}"#, false)]
    #[case::tab("{\"a\":\t1}", false)]
    #[case::more(r#"{"a": 1} x"#, false)]
    #[case::list("[1]", false)]
    #[case::yaml("{a: 1}", false)]
    fn only_what_both_read_alike_is_plain(#[case] text: &str, #[case] plain: bool) {
        assert_eq!(is_plain_object(text), plain);
    }

    #[test]
    fn deep_objects_are_not_plain() {
        let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        assert!(is_plain_object(&nested(PLAIN_DEPTH - 1)) && !is_plain_object(&nested(PLAIN_DEPTH)));
    }

    fn any_json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(serde_json::Value::from),
            any::<i64>().prop_map(serde_json::Value::from),
            any::<u64>().prop_map(serde_json::Value::from),
            any::<f64>().prop_map(serde_json::Value::from),
            "[ -~\\n]{0,12}".prop_map(serde_json::Value::from),
            "\\PC{0,4}".prop_map(serde_json::Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
                prop::collection::btree_map("[ -~]{0,6}", inner, 0..4)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn plain_objects_are_the_same_in_yaml(value in any_json()) {
            let text = value.to_string();
            if is_plain_object(&text) {
                let read = read_all(&text);
                let value: Value = serde_json::from_str(&text).unwrap();
                prop_assert_eq!(read.ok(), Some((value, Vec::new())), "{}", text);
            }
        }
    }
}
