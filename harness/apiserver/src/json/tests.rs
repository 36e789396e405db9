//! Compares the JSON value with `serde_json::Value` by property tests, and checks that copies share structure.

use proptest::prelude::*;
use rstest::rstest;

use super::{Key, Map, Value};

type Model = serde_json::Value;

fn models() -> impl Strategy<Value = Model> {
    let leaf = prop_oneof![
        Just(Model::Null),
        any::<bool>().prop_map(Model::from),
        any::<i64>().prop_map(Model::from),
        any::<u64>().prop_map(Model::from),
        any::<f64>().prop_map(Model::from),
        "\\PC{0,40}".prop_map(Model::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Model::from),
            prop::collection::btree_map("[a-d/~]{0,3}", inner, 0..6)
                .prop_map(|map| Model::Object(map.into_iter().collect())),
        ]
    })
}

/// A change of an object.
#[derive(Clone, Debug)]
enum MapEdit {
    Insert(String, i32),
    Remove(String),
    OrInsert(String, i32),
    Modify(String, i32),
    Set(String, i32),
    Retain(i32),
    Double,
    Append(Vec<(String, i32)>),
}

fn changes() -> impl Strategy<Value = MapEdit> {
    let key = || prop_oneof!["[a-e]{1,2}", "same-beginning-[a-h]{2}"];
    prop_oneof![
        (key(), 0..9).prop_map(|(key, value)| MapEdit::Insert(key, value)),
        key().prop_map(MapEdit::Remove),
        (key(), 0..9).prop_map(|(key, value)| MapEdit::OrInsert(key, value)),
        (key(), 0..9).prop_map(|(key, value)| MapEdit::Modify(key, value)),
        (key(), 0..9).prop_map(|(key, value)| MapEdit::Set(key, value)),
        (0..9).prop_map(MapEdit::Retain),
        Just(MapEdit::Double),
        prop::collection::vec((key(), 0..9), 0..40).prop_map(MapEdit::Append),
    ]
}

/// Applies the same change to our object or `serde_json`'s; returns the removed or replaced value.
macro_rules! change {
    ($name:ident, $map:ty, $value:ty) => {
        fn $name(map: &mut $map, change: &MapEdit) -> Option<$value> {
            match change.clone() {
                MapEdit::Insert(key, value) => return map.insert(key, value.into()),
                MapEdit::Remove(key) => return map.remove(&key),
                MapEdit::OrInsert(key, value) => return Some(map.entry(key).or_insert(value.into()).clone()),
                MapEdit::Modify(key, value) => {
                    map.entry(key).and_modify(|old| *old = value.into()).or_insert_with(|| <$value>::Null);
                }
                MapEdit::Set(key, value) => {
                    let found = map.get_mut(&key)?;
                    *found = value.into();
                }
                MapEdit::Retain(least) => map.retain(|_, value| value.as_i64() >= Some(least.into())),
                MapEdit::Double => {
                    map.values_mut().for_each(|value| *value = value.as_i64().map(|number| number * 2).into());
                }
                MapEdit::Append(members) => {
                    map.append(&mut members.into_iter().map(|(key, value)| (key, <$value>::from(value))).collect());
                }
            }
            None
        }
    };
}
change!(ours, Map, Value);
change!(theirs, serde_json::Map<String, Model>, Model);

proptest! {
    #[test]
    fn values_read_write_and_compare_as_serde_json_has_it(one in models(), other in models()) {
        let ours = Value::from(one.clone());
        let theirs = Value::from(other.clone());
        prop_assert_eq!(ours.to_string(), one.to_string());
        prop_assert_eq!(format!("{ours:#}"), format!("{one:#}"));
        prop_assert_eq!(&serde_json::from_str::<Value>(&one.to_string()).unwrap(), &Value::from(serde_json::from_str::<Model>(&one.to_string()).unwrap()));
        prop_assert_eq!(ours == theirs, one == other);
        prop_assert_eq!(Model::from(ours), one);
    }

    #[test]
    fn objects_change_as_serde_json_has_it_and_copies_stay(all in prop_oneof![4 => prop::collection::vec(changes(), 0..30), 1 => prop::collection::vec(changes(), 0..300)]) {
        let mut map = Map::new();
        let mut model = serde_json::Map::new();
        for change in &all {
            let copy = map.clone();
            let before = model.clone();
            prop_assert_eq!(ours(&mut map, change).map(Model::from), theirs(&mut model, change));
            prop_assert_eq!(Model::from(Value::from(map.clone())), Model::Object(model.clone()));
            prop_assert_eq!(map.len(), model.len());
            prop_assert!(map.keys().map(Key::as_str).eq(model.keys().map(String::as_str)));
            prop_assert_eq!(Model::from(Value::from(copy)), Model::Object(before));
        }
    }

    #[test]
    fn pointers_lead_where_serde_json_has_it(model in models(), pointer in "(/([a-d]{0,2}|~0|~1|[0-2]|01|\\+1)){0,4}|a/b") {
        let mut value = Value::from(model.clone());
        prop_assert_eq!(value.pointer(&pointer).cloned().map(Model::from), model.pointer(&pointer).cloned());
        let copy = value.clone();
        let (Some(found), mut model) = (value.pointer_mut(&pointer), model) else { return Ok(()) };
        *found = "here".into();
        *model.pointer_mut(&pointer).unwrap() = "here".into();
        let before = copy.pointer(&pointer) == Some(&"here".into());
        prop_assert_eq!(Model::from(value), model);
        prop_assert!(before || copy.pointer(&pointer) != Some(&"here".into()));
    }
}

#[rstest]
#[case::found(json!({"a": {"b": 1}}), "a", json!({"b": 1}))]
#[case::not_there(json!({"a": 1}), "b", Value::Null)]
#[case::no_object(json!([1]), "a", Value::Null)]
fn members_by_name(#[case] value: Value, #[case] name: &str, #[case] expected: Value) {
    assert_eq!(value[name], expected);
}

#[test]
fn members_are_made_where_they_are_set() {
    let mut value = Value::Null;
    value["a"]["b"] = 1.into();
    value["a"]["c"] = json!([1, 2]);
    value["a"]["c"][1] = "x".into();
    assert_eq!(value, json!({"a": {"b": 1, "c": [1, "x"]}}));
    assert_eq!(value["a"]["c"][7], Value::Null);
}

#[test]
fn a_copy_is_the_same_until_it_changes() {
    let one = json!({"spec": {"a": 1}, "status": {"b": 2}});
    let mut other = one.clone();
    let part = |value: &Value, name: &str| value[name].as_object().unwrap().clone();
    // A call that finds nothing to change leaves the object shared.
    assert!(other.as_object_mut().unwrap().remove("x").is_none());
    assert!(other.pointer_mut("/spec/x").is_none());
    assert!(one.as_object().unwrap().ptr_eq(other.as_object().unwrap()));
    other["status"]["b"] = 3.into();
    assert!(part(&one, "spec").ptr_eq(&part(&other, "spec")));
    assert!(!part(&one, "status").ptr_eq(&part(&other, "status")));
    assert_eq!((&one["status"]["b"], &other["status"]["b"]), (&json!(2), &json!(3)));
}

#[rstest]
#[case("1", true)]
#[case("1.0", false)]
#[case("-1", false)]
fn numbers_compare_by_kind(#[case] text: &str, #[case] equal: bool) {
    let value: Value = serde_json::from_str(text).unwrap();
    assert_eq!((value == 1_i64, value == 1_u64, value == 1_i32), (equal, equal, equal));
}

#[test]
fn texts_compare_with_texts() {
    let value = json!("a");
    assert!(value == "a" && value == *"a" && value != "b");
    assert!(json!(true) == true && json!(1) != true);
}

#[rstest]
#[case::short_before_long("ab", "abc")]
#[case::same_beginning("terminationMessagePath", "terminationMessagePolicy")]
#[case::a_nul_is_a_byte_like_others("a", "a\0")]
#[case::nuls_of_different_length("a\0", "a\0\0")]
#[case::beyond_ascii("z", "é")]
#[case::empty("", "\0")]
fn names_come_in_order_of_their_bytes(#[case] first: &str, #[case] second: &str) {
    for names in [[first, second], [second, first]] {
        let map: Map = names.into_iter().map(|name| (name, name)).collect();
        assert!(map.keys().eq([first, second]));
        assert_eq!((map.get(first), map.get(second)), (Some(&first.into()), Some(&second.into())));
    }
}

#[test]
fn many_members_take_no_longer_each_than_few() {
    // Worst order, equal prefixes: a list would be moved and compared as a whole for each insertion.
    const COUNT: usize = 200_000;
    let name = |number: usize| format!("same-beginning-{number:06}");
    let mut map: Map = (0..COUNT).rev().map(|number| (name(number), number)).collect();
    let copy = map.clone();
    for number in (0..COUNT).rev() {
        assert_eq!(map.get(name(number)), Some(&number.into()));
        assert_eq!(map.remove(name(number)), Some(number.into()));
    }
    assert!(map.is_empty() && copy.len() == COUNT);
    assert_eq!(copy.keys().next_back().map(Key::as_str), Some("same-beginning-199999"));
}

#[test]
fn few_and_many_are_equal_when_their_members_are() {
    let member = |number: usize| (format!("n{number:03}"), number);
    let few: Map = (0..64).map(member).collect();
    let mut many: Map = (0..65).map(member).collect();
    assert_ne!(few, many);
    many.remove("n064");
    assert_eq!((&few, &many), (&many, &few));
    assert!(many.iter().rev().eq(few.iter().rev()) && !many.ptr_eq(&few) && many.ptr_eq(&many.clone()));
    let mut copy = many.clone();
    let before = many.clone();
    for (_, value) in &mut copy {
        *value = Value::Null;
    }
    copy.retain(|name, _| name != "n000");
    assert_eq!((copy.len(), copy.get("n001")), (63, Some(&Value::Null)));
    assert_eq!((many, before.into_iter().count()), (few, 64));
}
