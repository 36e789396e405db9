//! What a write does to the owners of fields, and writes that do the same.
//!
//! The pods of a replica set are created alike, and their kubelets report alike: which fields that adds need not be worked
//! out again for each of them, and the sets of fields, being the same objects in memory, rest and are encoded once.

use std::cmp::Ordering;
use std::sync::atomic::{AtomicBool, Ordering as Access};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::super::json::{Key, Value};
use super::super::schema::{List, ListTopology, Schema, Shape, TypeRef};
use super::compare::{Comparison, compare};
use super::reset::Reset;
use super::set::FieldSet;
use super::{Write, is_granular};

/// What a write does to the owners of fields.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Outcome {
    /// Fields that the write added or changed.
    pub(super) changed: FieldSet,
    /// Fields that the write removed.
    pub(super) removed: FieldSet,
    /// Fields that the writer owns from now on.
    pub(super) own: FieldSet,
}

impl Outcome {
    /// What a write from `left` to `right` does.
    ///
    /// # Errors
    /// If items of a list cannot be told apart.
    pub(super) fn of(schema: &Schema, left: &Value, right: &Value, write: &Write<'_>) -> Result<Self, String> {
        let mut comparison = compare(schema, left, right)?;
        comparison.exclude(write.reset);
        let Comparison { removed, modified, added } = comparison;
        let mut changed = added;
        changed.union(modified);
        let mut own = changed.clone();
        own.strip_meta();
        Ok(Self { changed, removed, own })
    }
}

/// Kinds of writes that are remembered.
const REMEMBERED: usize = 64;
/// A remembered write gives way to another when so many were not like it.
const MISSES: usize = 8;
/// Writes of a kind that are never alike are compared only once in a while: after at most so many that are not.
const PAUSE: usize = 512;

/// The last writes, one for each kind of write, with their outcomes.
#[derive(Debug, Default)]
pub struct Outcomes(Mutex<Vec<Remembered>>);

#[derive(Debug)]
struct Remembered {
    schema: Arc<Schema>,
    subresource: String,
    reset: Reset,
    created: bool,
    sample: Arc<Sample>,
    /// Writes that were not like the sample.
    misses: usize,
    /// Writes that are still not to be compared with it.
    pause: usize,
    /// How many that will be when the next sample was of no use either.
    next_pause: usize,
}

/// A write and its outcome.
#[derive(Debug)]
struct Sample {
    left: Value,
    right: Value,
    outcome: Outcome,
    /// Another write was like it.
    useful: AtomicBool,
}

impl Remembered {
    fn is_of(&self, schema: &Arc<Schema>, created: bool, write: &Write<'_>) -> bool {
        let same = Arc::ptr_eq(&self.schema, schema) && self.created == created;
        same && self.subresource == write.subresource && self.reset == write.reset
    }

    /// Notes that a write was not like the sample; returns the sample if `other` came in its place.
    fn miss(&mut self, other: impl FnOnce() -> Arc<Sample>) -> Option<Arc<Sample>> {
        if self.sample.useful.swap(false, Access::Relaxed) {
            (self.misses, self.next_pause) = (0, 0);
        }
        self.misses += 1;
        if self.misses < MISSES {
            return None;
        }
        (self.misses, self.pause) = (0, self.next_pause);
        self.next_pause = (2 * self.next_pause + MISSES).min(PAUSE);
        Some(std::mem::replace(&mut self.sample, other()))
    }
}

impl Outcomes {
    /// What a write from `live` (nothing for a creation) to `new` does.
    pub(super) fn find(
        &self,
        schema: &Arc<Schema>,
        live: Option<&Value>,
        new: &Value,
        write: &Write<'_>,
    ) -> Result<Outcome, String> {
        let left = live.unwrap_or_else(|| schema.empty());
        let sample = match self.sample(schema, live.is_none(), write) {
            Ok(sample) => sample,
            Err(Pause) => return Outcome::of(schema, left, new, write),
        };
        if let Some(sample) = &sample
            && are_alike(schema, [&sample.left, &sample.right], [left, new])
        {
            sample.useful.store(true, Access::Relaxed);
            return Ok(sample.outcome.clone());
        }
        let outcome = Outcome::of(schema, left, new, write)?;
        let (left, right, useful) = (left.clone(), new.clone(), AtomicBool::new(false));
        let fresh = || Arc::new(Sample { left, right, outcome: outcome.clone(), useful });
        // What is replaced is dropped, with all that hangs on it, when others may go on.
        let _replaced = self.miss(schema, live.is_none(), write, fresh);
        Ok(outcome)
    }

    /// The sample of a kind of write, if there is one.
    fn sample(&self, schema: &Arc<Schema>, created: bool, write: &Write<'_>) -> Result<Option<Arc<Sample>>, Pause> {
        let mut known = self.lock();
        let Some(known) = known.iter_mut().find(|known| known.is_of(schema, created, write)) else { return Ok(None) };
        if known.pause > 0 {
            known.pause -= 1;
            return Err(Pause);
        }
        Ok(Some(known.sample.clone()))
    }

    /// Notes a write that was like no other; returns the sample that gave way to it.
    fn miss(
        &self,
        schema: &Arc<Schema>,
        created: bool,
        write: &Write<'_>,
        fresh: impl FnOnce() -> Arc<Sample>,
    ) -> Option<Arc<Sample>> {
        let mut known = self.lock();
        if let Some(known) = known.iter_mut().find(|known| known.is_of(schema, created, write)) {
            return known.miss(fresh);
        }
        known.push(Remembered {
            schema: schema.clone(),
            subresource: write.subresource.to_owned(),
            reset: write.reset,
            created,
            sample: fresh(),
            misses: 0,
            pause: 0,
            next_pause: 0,
        });
        if known.len() > REMEMBERED { Some(known.remove(0).sample) } else { None }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Remembered>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes of this kind are not compared for now.
struct Pause;

/// Whether two writes, each from the first object to the second, have the same outcome; `false` where that is not plain.
fn are_alike(schema: &Schema, one: [&Value; 2], other: [&Value; 2]) -> bool {
    alike(schema, schema.root(), one.map(Some), other.map(Some))
}

type Sides<'v> = [Option<&'v Value>; 2];

/// What matters of a value, besides what is in it, for the question whether its parts are compared.
fn class(value: Option<&Value>) -> u8 {
    match value {
        None => 0,
        Some(Value::Null) => 1,
        Some(Value::Object(map)) => 2 + u8::from(map.is_empty()),
        Some(Value::Array(items)) => 4 + u8::from(items.is_empty()),
        Some(_) => 6,
    }
}

/// Follows what `compare::walk` does with either write.
fn alike(schema: &Schema, ty: TypeRef, one: Sides<'_>, other: Sides<'_>) -> bool {
    if one.map(class) != other.map(class) {
        return false;
    }
    let equal = |[left, right]: Sides<'_>| left == right;
    let leaf = || one.contains(&None) || equal(one) == equal(other);
    if let Shape::List(list) = schema.shape(ty) {
        let empty = |side: Option<&Value>| !matches!(side, Some(Value::Array(items)) if !items.is_empty());
        if list.topology == ListTopology::Atomic || one.into_iter().all(empty) {
            return leaf();
        }
        return match (equal(one), equal(other)) {
            (false, false) => alike_items(schema, list, one, other),
            (unchanged, also) => unchanged == also,
        };
    }
    if !is_granular(schema, ty, one) {
        // Free-form values that turn from objects into something else are rare.
        let plain = !matches!(schema.shape(ty), Shape::Any) || schema.is_raw(ty) || one.contains(&None);
        return plain && leaf();
    }
    if ty != schema.root() && equal(one) && equal(other) {
        return true;
    }
    let same_names = |at: usize| match (one[at].and_then(Value::as_object), other[at].and_then(Value::as_object)) {
        (Some(one), Some(other)) => one.has_names_of(other),
        (one, other) => one.is_none() && other.is_none(),
    };
    same_names(0) && same_names(1) && alike_members(schema, ty, one, other)
}

/// The member of an object on one side of a write that is the `at`th in order.
fn nth(sides: Sides<'_>, side: usize, at: usize) -> Option<(&Key, &Value)> {
    sides[side].and_then(Value::as_object)?.nth(at)
}

/// The same of the members of objects, which have the same names.
fn alike_members(schema: &Schema, ty: TypeRef, one: Sides<'_>, other: Sides<'_>) -> bool {
    let shape = match schema.shape(ty) {
        Shape::Struct(shape) => Some(shape),
        _ => None,
    };
    let child = |name: &str| {
        let declared = shape.and_then(|shape| shape.field(name)).map(|field| field.ty);
        declared.or_else(|| schema.field_type(ty, name))
    };
    // Members with the same names are at the same places on their side of either write.
    let (mut left, mut right) = (0, 0);
    loop {
        let (name, order) = match (nth(one, 0, left), nth(one, 1, right)) {
            (None, None) => return true,
            (Some((name, _)), None) => (name, Ordering::Less),
            (None, Some((name, _))) => (name, Ordering::Greater),
            (Some((left, _)), Some((right, _))) => (left.min(right), left.cmp(right)),
        };
        if let Some(ty) = child(name) {
            let [one, other] = [one, other].map(|sides| {
                let left = nth(sides, 0, left).filter(|_| order.is_le()).map(|(_, value)| value);
                [left, nth(sides, 1, right).filter(|_| order.is_ge()).map(|(_, value)| value)]
            });
            if !alike(schema, ty, one, other) {
                return false;
            }
        }
        left += usize::from(order.is_le());
        right += usize::from(order.is_ge());
    }
}

/// Each item of a list is compared with all the others: longer ones are not.
const COMPARED: usize = 32;

/// The same of lists whose items are told apart: those at the same places must be known by the same keys, each by its own.
fn alike_items(schema: &Schema, list: &List, one: Sides<'_>, other: Sides<'_>) -> bool {
    fn items(side: Option<&Value>) -> &[Value] {
        side.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }
    let same = |one: &Value, other: &Value| match (&list.topology, one, other) {
        (ListTopology::Map(keys), Value::Object(one), Value::Object(other)) => {
            // A key that is missing may have a default: not plain.
            keys.iter().all(|key| one.get(key).is_some_and(|value| other.get(key) == Some(value)))
        }
        (ListTopology::Set, Value::Object(_) | Value::Array(_) | Value::Null, _) => false,
        (ListTopology::Set, one, other) => one == other,
        _ => false,
    };
    let unique = |items: &[Value]| {
        items.iter().enumerate().all(|(at, item)| items[..at].iter().all(|before| !same(before, item)))
    };
    let (left, right) = (items(one[0]), items(one[1]));
    let (left_too, right_too) = (items(other[0]), items(other[1]));
    let known_alike = |one: &[Value], other: &[Value]| {
        one.len() == other.len()
            && one.len() <= COMPARED
            && one.iter().zip(other).all(|(one, other)| same(one, other))
            && unique(one)
    };
    if !known_alike(left, left_too) || !known_alike(right, right_too) {
        return false;
    }
    let partner = |item: &Value| right.iter().position(|candidate| same(candidate, item));
    let kept = left.iter().zip(left_too).all(|(item, too)| {
        let at = partner(item);
        let partners = at.map_or([None; 2], |at| [right.get(at), right_too.get(at)]);
        alike(schema, list.items, [Some(item), partners[0]], [Some(too), partners[1]])
    });
    let is_new = |item: &Value| !left.iter().any(|candidate| same(candidate, item));
    let new = right.iter().zip(right_too).filter(|(item, _)| is_new(item));
    kept && new.into_iter().all(|(item, too)| alike(schema, list.items, [None, Some(item)], [None, Some(too)]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::super::super::json::json;
    use super::super::super::schema::builtin;
    use super::super::reset_fields;
    use super::*;

    const POD: &str = "io.k8s.api.core.v1.Pod";

    fn write(subresource: &str) -> Write<'_> {
        let now = jiff::Timestamp::UNIX_EPOCH;
        Write { manager: "m", api_version: "v1", subresource, reset: reset_fields(POD, subresource), now }
    }

    fn pod() -> Value {
        json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a", "labels": {"app": "x"}, "finalizers": ["f"]},
            "spec": {"nodeName": "n", "containers": [
                {"name": "c", "image": "i", "ports": [{"containerPort": 80, "protocol": "TCP"}]},
                {"name": "d", "image": "j", "env": [{"name": "A", "value": "1"}]}],
                "tolerations": [{"key": "k", "operator": "Exists"}]},
            "status": {"phase": "Pending", "conditions": [{"type": "Ready", "status": "False"}]}})
    }

    fn with(pointer: &str, value: Value) -> Value {
        let mut pod = pod();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        match pod.pointer_mut(parent).unwrap() {
            Value::Array(items) => items.push(value),
            other => other[name] = value,
        }
        pod
    }

    #[rstest]
    #[case::another_name("/metadata/name", json!("b"), true)]
    #[case::another_label("/metadata/labels/app", json!("y"), true)]
    #[case::one_more_label("/metadata/labels/more", json!("y"), false)]
    #[case::another_finalizer("/metadata/finalizers/-", json!("g"), false)]
    #[case::another_image("/spec/containers/0/image", json!("k"), true)]
    #[case::another_container("/spec/containers/0/name", json!("e"), false)]
    #[case::one_more_container("/spec/containers/-", json!({"name": "e"}), false)]
    #[case::another_port("/spec/containers/0/ports/0/containerPort", json!(81), false)]
    #[case::an_atomic_list("/spec/tolerations/-", json!({"key": "l"}), true)]
    #[case::nothing_instead_of_something("/spec/nodeName", Value::Null, false)]
    #[case::an_object_that_is_empty("/metadata/labels", json!({}), false)]
    fn creations(#[case] pointer: &str, #[case] value: Value, #[case] expected: bool) {
        let schema = builtin(POD).unwrap();
        let (one, other) = (pod(), with(pointer, value));
        assert_eq!(are_alike(&schema, [schema.empty(), &one], [schema.empty(), &other]), expected);
        let outcome = |new: &Value| Outcome::of(&schema, schema.empty(), new, &write("")).unwrap();
        assert!(!expected || outcome(&one) == outcome(&other));
    }

    #[rstest]
    #[case::of_another_phase("/status/phase", json!("Failed"), true)]
    #[case::of_no_phase("/status/phase", json!("Pending"), false)]
    #[case::of_a_condition("/status/conditions/0/status", json!("Unknown"), false)]
    #[case::of_the_spec("/spec/nodeName", json!("m"), false)]
    fn updates(#[case] pointer: &str, #[case] value: Value, #[case] expected: bool) {
        let schema = builtin(POD).unwrap();
        let (old, new, other) = (pod(), with("/status/phase", json!("Running")), with(pointer, value));
        assert_eq!(are_alike(&schema, [&old, &new], [&old, &other]), expected);
        assert_eq!(are_alike(&schema, [&old, &other], [&old, &new]), expected);
    }

    #[test]
    fn the_same_sets_are_the_same_objects_and_samples_give_way() {
        let (schema, known) = (builtin(POD).unwrap(), Outcomes::default());
        let find = |new: &Value| known.find(&schema, None, new, &write("")).unwrap().own;
        let first = find(&pod());
        assert!(find(&with("/metadata/name", json!("b"))).as_map().is_same(first.as_map()));
        let longer = with("/metadata/labels/more", json!("y"));
        for _ in 0..=MISSES {
            assert!(!find(&longer).as_map().is_same(first.as_map()));
        }
        let replaced = find(&longer);
        assert!(find(&longer).as_map().is_same(replaced.as_map()));
        assert_eq!(find(&pod()), first);
    }

    /// `value` with some of its texts and numbers changed, and few members taken out, as the bits of `seed` say.
    fn changed(value: &Value, seed: &mut u64) -> Value {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let dice = *seed >> 33;
        match value {
            Value::String(text) if dice.is_multiple_of(3) => format!("{text}x").into(),
            Value::Number(_) if dice.is_multiple_of(3) => 7.into(),
            Value::Object(_) if dice.is_multiple_of(41) => Value::Null,
            Value::Array(_) if dice.is_multiple_of(41) => json!([]),
            Value::Array(items) => items.iter().map(|item| changed(item, seed)).collect(),
            Value::Object(map) => {
                let members = map.iter().map(|(name, value)| (name.clone(), changed(value, seed)));
                members.filter(|(name, _)| !(dice.rotate_left(name.len() as u32)).is_multiple_of(61)).collect()
            }
            other => other.clone(),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn what_is_alike_has_the_same_outcome(seeds in any::<[u64; 4]>(), created in any::<bool>()) {
            let schema = builtin(POD).unwrap();
            let mut seeds = seeds;
            let base = pod();
            let [left, right, left_too, right_too] = &mut seeds;
            let (left, right) = (changed(&base, left), changed(&base, right));
            let (left_too, right_too) = (changed(&left, left_too), changed(&right, right_too));
            let empty = schema.empty();
            let (one, other) = if created { ([empty, &right], [empty, &right_too]) } else { ([&left, &right], [&left_too, &right_too]) };
            if are_alike(&schema, one, other) {
                let outcome = |[left, right]: [&Value; 2]| Outcome::of(&schema, left, right, &write(""));
                prop_assert_eq!(outcome(one), outcome(other));
            }
        }
    }
}
