//! Compares the store with a model: every list at every revision, every watch from every revision.

use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::json::{Value, json};

fn pods() -> ResourceId {
    ResourceId::new("", "pods")
}

fn draft(name: &str, content: u8) -> Draft {
    let node = format!("n{}", content % 3);
    let object = json!({
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "ns", "uid": format!("u-{name}"), "labels": {"content": content.to_string()}},
        "spec": {"nodeName": node},
    });
    Draft::new(&object, vec![("spec.nodeName".into(), node)])
}

fn waker() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

fn drain(store: &Store, cursor: &mut WatchCursor) -> Vec<Arc<LogEntry>> {
    let mut all = Vec::new();
    while let EventPoll::Events(events) = store.poll_events(cursor, 3, &waker()) {
        all.extend(events);
    }
    all
}

#[test]
fn an_object_is_encoded_in_upstreams_order() {
    let store = Store::default();
    let committed = store.create(&pods(), draft("a", 1)).unwrap();
    let stored = committed.new;
    assert_eq!(stored.revision(), 2);
    let text = String::from_utf8(stored.event_as(EventType::Added, 2).to_vec()).unwrap();
    assert_eq!(
        text,
        concat!(
            r#"{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"ns","uid":"u-a","#,
            r#""resourceVersion":"2","labels":{"content":"1"}},"spec":{"nodeName":"n1"}}}"#,
            "\n"
        )
    );
    let mut tail = Vec::new();
    stored.write_tail(&mut tail);
    assert!(text.ends_with(&format!("{}}}\n", String::from_utf8(tail.clone()).unwrap())));
    assert!(tail.starts_with(br#""metadata":"#));
    assert_eq!(stored.value()["metadata"]["resourceVersion"], "2");
    let gone = store.delete(&pods(), "ns/a", 2).unwrap().new;
    assert_eq!(gone.value()["metadata"]["resourceVersion"], "3");
    let mut cursor = store.watch_from(&pods(), 2).unwrap();
    assert!(drain(&store, &mut cursor)[0].event().starts_with(EventType::Deleted.prefix()));
}

#[test]
fn writing_what_is_there_changes_nothing() {
    let store = Store::default();
    let first = store.create(&pods(), draft("a", 1)).unwrap().new;
    let same = store.update(&pods(), &first, draft("a", 1)).unwrap();
    assert!(!same.changed);
    assert_eq!((store.revision(), same.new.revision()), (2, 2));
    assert!(matches!(store.update(&pods(), &first.with_revision(1), draft("a", 2)), Err(CommitError::Changed(_))));
    assert!(matches!(store.update(&pods(), &first, draft("b", 2)), Err(CommitError::NotFound)));
    assert!(matches!(store.create(&pods(), draft("a", 2)), Err(CommitError::Exists(_))));
}

#[test]
fn a_changed_object_shares_its_words_and_is_found_on_its_node_only() {
    let store = Store::default();
    let first = store.create(&pods(), draft("a", 1)).unwrap().new;
    let second = store.update(&pods(), &first, draft("a", 4)).unwrap().new;
    assert!(Arc::ptr_eq(first.key(), second.key()) && Arc::ptr_eq(first.shared_uid(), second.shared_uid()));
    assert_eq!((first.label("content"), second.label("content")), (Some("1"), Some("4")));
    let third = store.update(&pods(), &second, draft("a", 2)).unwrap().new;
    let on = |node| store.list(&pods(), KeyRange { node: Some(node), ..KeyRange::default() }).0;
    assert_eq!((on("n1").len(), on("n2").len()), (0, 1));
    store.delete(&pods(), third.key(), third.revision()).unwrap();
    assert_eq!(on("n2").len(), 0);
}

#[rstest]
#[case::node(KeyRange { node: Some("n1"), ..KeyRange::default() }, &["a", "d"])]
#[case::name(KeyRange { namespace: Some("ns"), name: Some("b"), ..KeyRange::default() }, &["b"])]
#[case::other_namespace(KeyRange { namespace: Some("n"), ..KeyRange::default() }, &[])]
#[case::after(KeyRange { namespace: Some("ns"), after: Some("ns/b"), ..KeyRange::default() }, &["c", "d"])]
#[case::after_everywhere(KeyRange { after: Some("ns/c"), ..KeyRange::default() }, &["d"])]
fn ranges(#[case] range: KeyRange<'_>, #[case] names: &[&str]) {
    let store = Store::default();
    for (content, name) in (1..).zip(["a", "b", "c", "d"]) {
        store.create(&pods(), draft(name, content)).unwrap();
    }
    let (found, _) = store.list(&pods(), range);
    assert_eq!(found.iter().map(|stored| stored.name()).collect::<Vec<_>>(), names);
}

#[test]
fn keys_are_in_etcds_order() {
    let store = Store::default();
    for namespace in ["a", "a-b", "a.b"] {
        let object = json!({"metadata": {"name": "x", "namespace": namespace}});
        store.create(&pods(), Draft::new(&object, Vec::new())).unwrap();
    }
    let (found, _) = store.list(&pods(), KeyRange::default());
    assert_eq!(found.iter().map(|stored| stored.namespace()).collect::<Vec<_>>(), ["a-b", "a.b", "a"]);
    assert_eq!(store.list(&pods(), KeyRange { namespace: Some("a"), ..KeyRange::default() }).0.len(), 1);
}

#[rstest]
#[case::everywhere(None, &[1, 2], &[9, 7])]
#[case::namespace(Some("ns"), &[2, 3], &[6, 3])]
fn each_page_says_how_many_follow(
    #[case] namespace: Option<&str>,
    #[case] limits: &[usize],
    #[case] expected: &[usize],
) {
    let store = Store::default();
    store.create(&pods(), Draft::new(&json!({"metadata": {"name": "x", "namespace": "a"}}), Vec::new())).unwrap();
    for content in 0..8 {
        store.create(&pods(), draft(&format!("p{content}"), content)).unwrap();
    }
    store.create(&pods(), Draft::new(&json!({"metadata": {"name": "x", "namespace": "z"}}), Vec::new())).unwrap();
    let revision = store.revision();
    let mut after = None;
    let mut seen = 0;
    for (limit, left) in limits.iter().zip(expected) {
        let range = KeyRange { namespace, after: after.as_deref(), ..KeyRange::default() };
        let page = store.page(&pods(), range, Some(revision), *limit, None).unwrap();
        seen += page.objects.len();
        assert_eq!((page.objects.len(), page.left), (*limit, *left));
        after = page.objects.last().map(|stored| stored.key().to_string());
        // Objects created later are not part of the list.
        store.create(&pods(), draft(&format!("q{seen}"), 0)).unwrap();
    }
    let now = KeyRange { namespace, after: after.as_deref(), ..KeyRange::default() };
    let page = store.page(&pods(), now, None, 1, None).unwrap();
    assert_eq!(page.left, expected[1] + 2 - 1, "at another resourceVersion it is counted again");
    let rest = KeyRange { namespace, after: after.as_deref(), ..KeyRange::default() };
    let rest = store.page(&pods(), rest, Some(revision), usize::MAX, None).unwrap();
    assert_eq!((rest.objects.len(), rest.left), (expected[1], 0));
}

#[test]
fn the_log_is_bounded() {
    let store = Store::new(HistoryLimits { entries: 4, bytes: usize::MAX });
    let mut slow = store.watch_from(&pods(), 1).unwrap();
    for content in 0..8 {
        let name = format!("p{content}");
        store.create(&pods(), draft(&name, content)).unwrap();
    }
    assert!(matches!(store.poll_events(&mut slow, 9, &waker()), EventPoll::Compacted(CompactedError { oldest: 5 })));
    assert_eq!(store.watch_from(&pods(), 4).unwrap_err(), CompactedError { oldest: 5 });
    let mut on_time = store.watch_from(&pods(), 5).unwrap();
    assert_eq!(drain(&store, &mut on_time).len(), 4);
}

#[derive(Clone, Debug)]
enum StoreStep {
    Put(u8, u8),
    Delete(u8),
    Compact,
}

fn step() -> impl Strategy<Value = StoreStep> {
    prop_oneof![
        6 => (0..6_u8, any::<u8>()).prop_map(|(name, content)| StoreStep::Put(name, content)),
        2 => (0..6_u8).prop_map(StoreStep::Delete),
        1 => Just(StoreStep::Compact),
    ]
}

type Model = BTreeMap<String, Value>;

fn snapshot(objects: &[Arc<StoredObject>]) -> Model {
    objects.iter().map(|stored| (stored.key().to_string(), stored.value())).collect()
}

fn take(store: &Store, step: &StoreStep) {
    let name = |number: u8| format!("p{number}");
    match step {
        StoreStep::Put(number, content) => {
            let draft = draft(&name(*number), *content);
            match store.get(&pods(), draft.key()) {
                Some(old) => drop(store.update(&pods(), &old, draft)),
                None => drop(store.create(&pods(), draft)),
            }
        }
        StoreStep::Delete(number) => {
            if let Some(old) = store.get(&pods(), &key("ns", &name(*number))) {
                drop(store.delete(&pods(), old.key(), old.revision()));
            }
        }
        StoreStep::Compact => store.compact(store.revision()),
    }
}

proptest! {
    #[test]
    fn the_past_is_what_it_was(steps in proptest::collection::vec(step(), 1..40)) {
        let store = Store::default();
        let mut history: BTreeMap<u64, Model> = BTreeMap::new();
        let mut compacted = 0;
        history.insert(1, Model::new());
        for step in &steps {
            take(&store, step);
            if matches!(step, StoreStep::Compact) {
                compacted = store.revision();
            }
            let (now, revision) = store.list(&pods(), KeyRange::default());
            history.insert(revision, snapshot(&now));
        }
        for (&revision, model) in &history {
            let listed = store.list_at(&pods(), KeyRange::default(), revision);
            let watched = store.watch_from(&pods(), revision);
            if revision < compacted {
                prop_assert!(listed.is_err() && watched.is_err());
                continue;
            }
            prop_assert_eq!(&snapshot(&listed.unwrap()), model);
            let mut replayed = model.clone();
            let mut last = revision;
            for entry in drain(&store, &mut watched.unwrap()) {
                prop_assert!(entry.current.revision() > last);
                last = entry.current.revision();
                let key = entry.current.key().to_string();
                prop_assert_eq!(replayed.contains_key(&key), entry.previous.is_some());
                match entry.event_type {
                    EventType::Deleted => drop(replayed.remove(&key)),
                    _ => drop(replayed.insert(key, entry.current.value())),
                }
            }
            prop_assert_eq!(Some(&replayed), history.values().last());
        }
    }
}
