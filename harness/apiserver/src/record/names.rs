//! Names in a record that differ from those that clients see.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::delivery::DeliveredObject;
use super::entry::{Change, RecordedReply, RecordedRequest};
use super::json::RecordedJson;

/// Translates the names in what a server records. A program that embeds the server can thus give its clients names
/// other than those of its record, its faults and its notes.
#[derive(Clone, Default)]
pub struct RecordedNames(Option<Arc<Translate>>);

type Translate = dyn Fn(&str) -> Option<String> + Send + Sync;

impl RecordedNames {
    /// Creates the translation. `translate` gets a text and returns it with other names, or `None` if it has none of
    /// them.
    pub fn new(translate: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(translate)))
    }

    /// Translates a text.
    pub fn text(&self, text: &mut String) {
        if let Some(translate) = &self.0
            && let Some(other) = translate(text)
        {
            *text = other;
        }
    }

    fn optional(&self, text: &mut Option<String>) {
        if let Some(text) = text {
            self.text(text);
        }
    }

    fn shared(&self, text: &mut Arc<str>) {
        if let Some(other) = self.0.as_ref().and_then(|translate| translate(text)) {
            *text = other.into();
        }
    }

    /// Translates all texts of a value, names of fields included.
    pub fn value(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(fields) => {
                let translated = std::mem::take(fields).into_iter().map(|(mut name, mut field)| {
                    self.text(&mut name);
                    self.value(&mut field);
                    (name, field)
                });
                *fields = translated.collect();
            }
            _ => {}
        }
    }

    /// Translates a document.
    #[must_use]
    pub fn document(&self, document: RecordedJson) -> RecordedJson {
        if self.0.is_none() {
            return document;
        }
        let mut value = Value::clone(&document);
        self.value(&mut value);
        value.into()
    }

    fn optional_document(&self, document: &mut Option<RecordedJson>) {
        *document = document.take().map(|document| self.document(document));
    }

    /// Translates a request.
    #[must_use]
    pub fn request(&self, mut request: RecordedRequest) -> RecordedRequest {
        if self.0.is_some() {
            self.text(&mut request.path);
            self.optional(&mut request.namespace);
            self.optional(&mut request.name);
            request.query.iter_mut().for_each(|(_, value)| self.text(value));
            self.optional_document(&mut request.body);
        }
        request
    }

    /// Translates a reply.
    pub(super) fn reply(&self, mut reply: RecordedReply) -> RecordedReply {
        if self.0.is_some() {
            self.optional(&mut reply.message);
            self.optional_document(&mut reply.body);
        }
        reply
    }

    /// Translates a change.
    pub(super) fn change(&self, mut change: Change) -> Change {
        if self.0.is_some() {
            self.optional(&mut change.namespace);
            self.text(&mut change.name);
            self.optional_document(&mut change.old);
            self.optional_document(&mut change.new);
        }
        change
    }

    /// Translates the object of a watch event.
    pub(super) fn delivered(&self, mut object: DeliveredObject) -> DeliveredObject {
        if let Some(namespace) = &mut object.namespace {
            self.shared(namespace);
        }
        self.shared(&mut object.name);
        object
    }
}

impl fmt::Debug for RecordedNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "RecordedNames" } else { "RecordedNames(none)" })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_texts_of_a_record_are_translated() {
        let names = RecordedNames::new(|text| text.contains("x7f3").then(|| text.replace("x7f3", "a")));
        let body =
            json!({"metadata": {"name": "x7f3"}, "status": {"disruptedPods": {"x7f3": "now"}}, "n": [1, "x7f3"]});
        let request = RecordedRequest {
            path: "/api/v1/namespaces/default/pods/x7f3".to_owned(),
            name: Some("x7f3".to_owned()),
            query: vec![("fieldSelector".to_owned(), "metadata.name=x7f3".to_owned())],
            body: Some(body.into()),
            ..RecordedRequest::default()
        };
        let translated = names.request(request.clone());
        assert_eq!(translated.path, "/api/v1/namespaces/default/pods/a");
        assert_eq!((translated.name.as_deref(), translated.query[0].1.as_str()), (Some("a"), "metadata.name=a"));
        let expected = json!({"metadata": {"name": "a"}, "status": {"disruptedPods": {"a": "now"}}, "n": [1, "a"]});
        assert_eq!(translated.body.as_deref(), Some(&expected));
        assert_eq!(RecordedNames::default().request(request.clone()), request);
    }
}
