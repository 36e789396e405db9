//! The encoded content of a stored object: its own bytes, and long parts that it shares with other objects.
//!
//! The pods of a replica set have the same containers and volumes, objects written by one field manager the same
//! `fieldsV1`, and many nodes and pods the same conditions. Such parts are stored once; an object is assembled when it
//! is sent.

use std::sync::Arc;

use crate::go_json::{self, EncodedMember, TypeCursor};
use crate::json::{Map, Value};
use crate::schema::TypeKind;

/// Minimum length in bytes of a shared part; shorter ones are not worth the bookkeeping.
const SHARED_MIN: usize = 192;

/// An encoded object without the digits of its resourceVersion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Content {
    own: Box<[u8]>,
    /// The shared parts and their offsets in `own`.
    shared: Box<[(u32, Arc<[u8]>)]>,
    /// The offset in `own` of the resourceVersion's digits.
    digits: u32,
    /// Total length in bytes, without the digits.
    length: u32,
}

impl Content {
    /// Appends the object from offset `from` (which is before the resourceVersion), with resourceVersion `revision`.
    pub(super) fn write(&self, out: &mut Vec<u8>, from: u32, revision: u64) {
        use std::io::Write as _;
        let mut at = self.digits as usize;
        out.extend_from_slice(&self.own[from as usize..at]);
        // Writing to a `Vec` does not fail.
        let _ = write!(out, "{revision}");
        for (place, part) in &self.shared {
            out.extend_from_slice(&self.own[at..*place as usize]);
            out.extend_from_slice(part);
            at = *place as usize;
        }
        out.extend_from_slice(&self.own[at..]);
    }

    /// If `text` starts with this object's encoding (at `revision`, up to offset `to` in its own bytes), returns the
    /// rest of `text`.
    pub(super) fn strip_encoded_prefix<'t>(&self, text: &'t [u8], to: u32, revision: u64) -> Option<&'t [u8]> {
        let mut at = self.digits as usize;
        let mut rest = text.strip_prefix(&self.own[..at])?.strip_prefix(revision.to_string().as_bytes())?;
        for (place, part) in self.shared.iter().take_while(|(place, _)| *place <= to) {
            rest = rest.strip_prefix(&self.own[at..*place as usize])?.strip_prefix(&**part)?;
            at = *place as usize;
        }
        rest.strip_prefix(self.own.get(at..to as usize)?)
    }

    /// Translates an offset in the complete encoding, outside shared parts, to an offset in the object's own bytes.
    pub(super) fn to_own_offset(&self, place: usize) -> u32 {
        let mut shared = 0;
        for (at, part) in &self.shared {
            if *at as usize + shared >= place {
                break;
            }
            shared += part.len();
        }
        (place - shared) as u32
    }

    /// Returns the length of the encoded object in bytes, without the digits.
    pub(super) fn len(&self) -> usize {
        self.length as usize
    }

    /// Returns a part of the object's own bytes.
    pub(super) fn own(&self, from: u32, length: u32) -> &[u8] {
        &self.own[from as usize..(from + length) as usize]
    }
}

/// An encoding under construction: the bytes before the resourceVersion's digits, the bytes after them, and the
/// ranges of the latter that may be shared.
#[derive(Debug, Default)]
pub(super) struct ContentBuilder {
    pub(super) head: Vec<u8>,
    pub(super) rest: Vec<u8>,
    parts: Vec<(usize, usize)>,
}

impl ContentBuilder {
    /// Appends the members of an object, each followed by a comma. `share` selects the values that may be shared.
    fn members(&mut self, place: TypeCursor<'_>, map: &Map, share: impl Fn(&str) -> bool) {
        for member in go_json::fields(place, map) {
            let from = self.member(&member);
            let to = self.rest.len() - 1;
            if share(member.name) && to - from >= SHARED_MIN {
                self.parts.push((from, to));
            }
        }
    }

    /// Appends a member followed by a comma; returns the offset of its value in `rest`.
    pub(super) fn member(&mut self, member: &EncodedMember<'_>) -> usize {
        member.write_name(&mut self.rest);
        let from = self.rest.len();
        go_json::write(&mut self.rest, member.place, member.value);
        self.rest.push(b',');
        from
    }

    /// Appends a member that is an object whose long members are shared; returns the offset of its value in `rest`.
    pub(super) fn shared_member(&mut self, member: &EncodedMember<'_>, map: &Map) -> usize {
        member.write_name(&mut self.rest);
        let from = self.rest.len();
        self.rest.push(b'{');
        self.members(member.place, map, |_| true);
        self.close(b'}');
        from
    }

    /// Appends `managedFields` as a member; long `fieldsV1` sets are shared.
    pub(super) fn managed_fields(&mut self, member: &EncodedMember<'_>, entries: &[Value]) {
        let place = member.place.and_then(|(schema, ty)| match schema.shape(ty) {
            TypeKind::List(list) => Some((schema, list.items)),
            _ => None,
        });
        member.write_name(&mut self.rest);
        self.rest.push(b'[');
        for entry in entries {
            if let Value::Object(entry) = entry {
                self.rest.push(b'{');
                self.members(place, entry, |name| name == "fieldsV1");
                self.close(b'}');
            } else {
                go_json::write(&mut self.rest, None, entry);
                self.rest.push(b',');
            }
        }
        self.close(b']');
    }

    /// Replaces the last comma with a closing bracket and a comma.
    fn close(&mut self, bracket: u8) {
        self.rest.pop_if(|last| *last == b',');
        self.rest.extend_from_slice(&[bracket, b',']);
    }

    /// Builds the content. Parts are shared with `old` or else come from `find`.
    pub(super) fn share(self, old: Option<&Content>, find: &mut dyn FnMut(&[u8]) -> Arc<[u8]>) -> Content {
        let length = self.head.len() + self.rest.len();
        let digits = self.head.len();
        let mut own = Vec::with_capacity(length - self.parts.iter().map(|(from, to)| to - from).sum::<usize>());
        own.extend_from_slice(&self.head);
        let mut shared = Vec::with_capacity(self.parts.len());
        let mut at = 0;
        for (from, to) in self.parts {
            own.extend_from_slice(&self.rest[at..from]);
            let part = &self.rest[from..to];
            let before = old.and_then(|old| old.shared.iter().find(|(_, known)| **known == *part));
            shared.push((own.len() as u32, before.map_or_else(|| find(part), |(_, known)| known.clone())));
            at = to;
        }
        own.extend_from_slice(&self.rest[at..]);
        Content { own: own.into(), shared: shared.into(), digits: digits as u32, length: length as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::super::interner::Interner;
    use super::*;
    use crate::json::json;

    fn encode(object: &Value, known: &mut Interner<[u8]>) -> Content {
        let mut encoding = ContentBuilder { head: b"{\"v\":".to_vec(), ..ContentBuilder::default() };
        encoding.rest.push(b',');
        for member in go_json::fields(None, object.as_object().unwrap()) {
            match member.value {
                Value::Array(entries) => encoding.managed_fields(&member, entries),
                Value::Object(spec) => _ = encoding.shared_member(&member, spec),
                _ => {}
            }
        }
        encoding.close(b'}');
        encoding.rest.pop();
        encoding.share(None, &mut |part| known.get(part))
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
        let mut known = Interner::default();
        let one =
            json!({"v": 7, "managed": [{"fieldsV1": {"f": long}, "time": "1"}, {}, 5], "spec": {"a": [long], "b": 1}});
        let two = json!({"v": 7, "managed": [{"fieldsV1": {"f": long}, "time": "2"}], "spec": {"a": [long], "b": 2}});
        let none = json!({"v": 7, "managed": [], "spec": {}});
        let first = encode(&one, &mut known);
        let second = encode(&two, &mut known);
        assert_eq!((text(&first), text(&second), text(&encode(&none, &mut known))), (one.clone(), two, none));
        assert_eq!(known.len(), 2);
        assert!(first.own.len() < 100, "{}", first.own.len());
        assert!(first.shared.iter().zip(&second.shared).all(|(a, b)| Arc::ptr_eq(&a.1, &b.1)));
        assert_eq!(encode(&one, &mut known), first);
    }
    #[test]
    fn a_prefix_that_ends_before_shared_parts_is_found() {
        let long = "x".repeat(SHARED_MIN);
        let mut known = Interner::default();
        let object = json!({"spec": {"a": long}, "status": {"b": long, "c": 1}});
        let content = encode(&object, &mut known);
        assert_eq!(content.shared.len(), 2);
        let mut whole = Vec::new();
        content.write(&mut whole, 0, 7);
        let whole = String::from_utf8(whole).unwrap();
        let status = whole.find(r#""status":"#).unwrap() + r#""status":"#.len();
        // Without the one digit of the version.
        let to = content.to_own_offset(status - 1);
        let other = format!("{}{{}}}}", &whole[..status]);
        assert_eq!(content.strip_encoded_prefix(other.as_bytes(), to, 7), Some(&b"{}}"[..]));
        assert_eq!(content.strip_encoded_prefix(whole.as_bytes(), to, 7), Some(&whole.as_bytes()[status..]));
        assert_eq!(content.strip_encoded_prefix(other.as_bytes(), to, 8), None);
    }
}
