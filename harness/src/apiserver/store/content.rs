//! The encoded content of an object at rest: its own bytes, and long parts that it shares with others.
//!
//! The pods of a replica set have the same containers and volumes, and everything written by one manager the same
//! `fieldsV1`. Such parts are held once for all objects; an object is put together again as it is sent.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use super::common::Common;
use crate::apiserver::encoding::{self, Member, Place};
use crate::apiserver::json::{Map, Value};
use crate::apiserver::schema::Shape;

/// Shorter parts are not worth the bookkeeping.
const SHARED_MIN: usize = 192;

/// An encoded object without the digits of its resourceVersion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Content {
    own: Box<[u8]>,
    /// Parts, and where they belong in `own`.
    shared: Box<[(u32, Arc<[u8]>)]>,
    /// Where in `own` the digits of the resourceVersion belong.
    digits: u32,
    /// Length of all together.
    length: u32,
}

impl Content {
    /// Appends the object, or what begins at `from` (before the resourceVersion), with resourceVersion `revision`.
    pub(super) fn write(&self, out: &mut Vec<u8>, from: u32, revision: u64) {
        use std::io::Write as _;
        let mut at = self.digits as usize;
        out.extend_from_slice(&self.own[from as usize..at]);
        // Writing into memory cannot fail.
        let _ = write!(out, "{revision}");
        for (place, part) in &self.shared {
            out.extend_from_slice(&self.own[at..*place as usize]);
            out.extend_from_slice(part);
            at = *place as usize;
        }
        out.extend_from_slice(&self.own[at..]);
    }

    /// What stands in `text` behind the object's beginning under `revision`, if it begins so; the beginning ends at `to` in
    /// the object's own bytes, behind all shared parts.
    pub(super) fn behind<'t>(&self, text: &'t [u8], to: u32, revision: u64) -> Option<&'t [u8]> {
        let mut at = self.digits as usize;
        let mut rest = text.strip_prefix(&self.own[..at])?.strip_prefix(revision.to_string().as_bytes())?;
        for (place, part) in &self.shared {
            rest = rest.strip_prefix(&self.own[at..*place as usize])?.strip_prefix(&**part)?;
            at = *place as usize;
        }
        rest.strip_prefix(self.own.get(at..to as usize)?)
    }

    /// Bytes of the encoded object, but for the digits.
    pub(super) fn len(&self) -> usize {
        self.length as usize
    }

    /// A part of the object's own bytes.
    pub(super) fn own(&self, from: u32, length: u32) -> &[u8] {
        &self.own[from as usize..(from + length) as usize]
    }
}

/// An encoding in the making: what stands before the resourceVersion's digits, what stands behind them, and which parts
/// of that may be shared.
#[derive(Debug, Default)]
pub(super) struct Encoding {
    pub(super) head: Vec<u8>,
    pub(super) rest: Vec<u8>,
    parts: Vec<Part>,
}

/// A part of an encoding that may be shared.
#[derive(Debug)]
enum Part {
    /// It stands in `rest`; it is the encoding of `set`, if that may come again.
    Fresh { from: usize, to: usize, set: Option<Map> },
    /// It belongs there in `rest`.
    Known { at: usize, bytes: Arc<[u8]> },
}

impl Part {
    /// The bytes that are missing in `rest`.
    fn missing(&self) -> usize {
        if let Self::Known { bytes, .. } = self { bytes.len() } else { 0 }
    }

    /// The bytes of `rest` that may be shared.
    fn fresh(&self) -> usize {
        if let Self::Fresh { from, to, .. } = self { to - from } else { 0 }
    }
}

/// Sets of fields that are kept with their encodings.
const SETS: usize = 32;

/// The sets of fields that were encoded last: writes that are alike leave the same ones, the same in memory.
#[derive(Debug, Default)]
pub(super) struct Sets(Mutex<VecDeque<(Map, Arc<[u8]>)>>);

impl Sets {
    fn get(&self, set: &Map) -> Option<Arc<[u8]>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|(known, _)| known.is_same(set)).map(|(_, bytes)| bytes.clone())
    }

    fn put(&self, set: Map, bytes: Arc<[u8]>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.push_back((set, bytes));
        let oldest = if known.len() > SETS { known.pop_front() } else { None };
        // Dropped, with all that hangs on it, when others may go on.
        drop(known);
        drop(oldest);
    }
}

impl Encoding {
    /// Appends an entry of `managedFields` with a comma behind it.
    fn entry(&mut self, place: Place<'_>, entry: &Map, sets: &Sets) {
        self.rest.push(b'{');
        for member in encoding::fields(place, entry) {
            let set = member.value.as_object().filter(|_| member.name == "fieldsV1");
            if let Some(bytes) = set.and_then(|set| sets.get(set)) {
                member.write_name(&mut self.rest);
                self.parts.push(Part::Known { at: self.rest.len(), bytes });
                self.rest.push(b',');
                continue;
            }
            let from = self.member(&member);
            if let Some(set) = set {
                self.share_from(from, Some(set));
            }
        }
        self.close(b'}');
    }

    /// Has the member whose value begins at `from` shared, if it is long.
    fn share_from(&mut self, from: usize, set: Option<&Map>) {
        let to = self.rest.len() - 1;
        if to - from >= SHARED_MIN {
            self.parts.push(Part::Fresh { from, to, set: set.cloned() });
        }
    }

    /// Bytes of all together.
    pub(super) fn len(&self) -> usize {
        self.head.len() + self.rest.len() + self.parts.iter().map(Part::missing).sum::<usize>()
    }

    /// The place in the object's own bytes of what is at `place` in `rest`, behind all parts.
    pub(super) fn own_place(&self, place: usize) -> usize {
        self.head.len() + place - self.parts.iter().map(Part::fresh).sum::<usize>()
    }

    /// Appends a member of an object with a comma behind it; returns where its value begins.
    pub(super) fn member(&mut self, member: &Member<'_>) -> usize {
        member.write_name(&mut self.rest);
        let from = self.rest.len();
        encoding::write(&mut self.rest, member.place, member.value);
        self.rest.push(b',');
        from
    }

    /// Appends a member that is an object, its members shared where they are long.
    pub(super) fn shared_member(&mut self, member: &Member<'_>, map: &Map) {
        member.write_name(&mut self.rest);
        self.rest.push(b'{');
        for member in encoding::fields(member.place, map) {
            let from = self.member(&member);
            self.share_from(from, None);
        }
        self.close(b'}');
    }

    /// Appends `managedFields` as a member; the sets of fields are shared.
    pub(super) fn managed_fields(&mut self, member: &Member<'_>, entries: &[Value], sets: &Sets) {
        let place = member.place.and_then(|(schema, ty)| match schema.shape(ty) {
            Shape::List(list) => Some((schema, list.items)),
            _ => None,
        });
        member.write_name(&mut self.rest);
        self.rest.push(b'[');
        for entry in entries {
            if let Value::Object(entry) = entry {
                self.entry(place, entry, sets);
            } else {
                encoding::write(&mut self.rest, None, entry);
                self.rest.push(b',');
            }
        }
        self.close(b']');
    }

    /// Puts a closing bracket in the place of the last comma, and a comma behind it.
    fn close(&mut self, bracket: u8) {
        self.rest.pop_if(|last| *last == b',');
        self.rest.extend_from_slice(&[bracket, b',']);
    }

    /// The content, with the parts that `known` holds already.
    pub(super) fn share(self, known: &Mutex<Common<[u8]>>, sets: &Sets) -> Content {
        let (length, digits) = (self.len(), self.head.len());
        let mut own = Vec::with_capacity(self.own_place(self.rest.len()));
        own.extend_from_slice(&self.head);
        let (mut shared, mut at) = (Vec::with_capacity(self.parts.len()), 0);
        for part in self.parts {
            match part {
                Part::Fresh { from, to, set } => {
                    own.extend_from_slice(&self.rest[at..from]);
                    let bytes = known.lock().unwrap_or_else(PoisonError::into_inner).get(&self.rest[from..to]);
                    if let Some(set) = set {
                        sets.put(set, bytes.clone());
                    }
                    shared.push((own.len() as u32, bytes));
                    at = to;
                }
                Part::Known { at: place, bytes } => {
                    own.extend_from_slice(&self.rest[at..place]);
                    shared.push((own.len() as u32, bytes));
                    at = place;
                }
            }
        }
        own.extend_from_slice(&self.rest[at..]);
        Content { own: own.into(), shared: shared.into(), digits: digits as u32, length: length as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apiserver::json::json;

    fn encode(object: &Value, known: &Mutex<Common<[u8]>>, sets: &Sets) -> Content {
        let mut encoding = Encoding { head: b"{\"v\":".to_vec(), ..Encoding::default() };
        encoding.rest.push(b',');
        for member in encoding::fields(None, object.as_object().unwrap()) {
            match member.value {
                Value::Array(entries) => encoding.managed_fields(&member, entries, sets),
                Value::Object(spec) => encoding.shared_member(&member, spec),
                _ => {}
            }
        }
        encoding.close(b'}');
        encoding.rest.pop();
        encoding.share(known, sets)
    }

    fn text(content: &Content) -> Value {
        let mut out = Vec::new();
        content.write(&mut out, 0, 7);
        assert_eq!(out.len(), content.len() + 1);
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn long_parts_are_held_once_and_nothing_is_lost() {
        let long = "x".repeat(SHARED_MIN);
        let (known, sets) = (Mutex::default(), Sets::default());
        let encode = |object: &Value| encode(object, &known, &sets);
        let one =
            json!({"v": 7, "managed": [{"fieldsV1": {"f": long}, "time": "1"}, {}, 5], "spec": {"a": [long], "b": 1}});
        let two = json!({"v": 7, "managed": [{"fieldsV1": {"f": long}, "time": "2"}], "spec": {"a": [long], "b": 2}});
        let none = json!({"v": 7, "managed": [], "spec": {}});
        let (first, second) = (encode(&one), encode(&two));
        assert_eq!((text(&first), text(&second), text(&encode(&none))), (one.clone(), two, none));
        assert_eq!(known.lock().unwrap().len(), 2);
        assert!(first.own.len() < 100, "{}", first.own.len());
        assert!(first.shared.iter().zip(&second.shared).all(|(a, b)| Arc::ptr_eq(&a.1, &b.1)));
        // Sets that are the same in memory are found without being encoded.
        let again = encode(&one);
        assert_eq!(again, first);
        assert_eq!(text(&again), one);
        assert!(sets.get(one["managed"][0]["fieldsV1"].as_object().unwrap()).is_some());
    }
}
