//! The controller of an object: the owner that manages it.

use std::sync::Arc;

use serde::Deserialize;

use super::intern::{Hasher, InternedStr, Interner};
use super::protobuf::{FieldValue, ProtoError};

/// The controller of an object: the first owner reference with `controller: true`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Owner {
    /// Group and version of the owner's kind.
    pub api_version: InternedStr,
    /// The owner's kind.
    pub kind: InternedStr,
    /// The owner's name.
    pub name: InternedStr,
    /// The owner's UID.
    pub uid: InternedStr,
}

static OWNERS: Interner<Owner> = Interner::new();

impl Owner {
    fn intern(self) -> Arc<Self> {
        let Self { api_version, kind, name, uid } = &self;
        let hash = Hasher::default().text(api_version).text(kind).text(name).text(uid).finish();
        OWNERS.intern(hash, |interned| *interned == self, || Arc::new(self.clone()))
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct OwnerReference {
    api_version: InternedStr,
    kind: InternedStr,
    name: InternedStr,
    uid: InternedStr,
    controller: Option<bool>,
}

pub(super) fn owner_of(references: Vec<OwnerReference>) -> Option<Arc<Owner>> {
    let owner = references.into_iter().find(|reference| reference.controller == Some(true))?;
    let OwnerReference { api_version, kind, name, uid, .. } = owner;
    Some(Owner { api_version, kind, name, uid }.intern())
}

/// Sets `owner` to `reference` if it is the first reference with `controller: true`.
pub(super) fn take_owner(owner: &mut Option<Arc<Owner>>, reference: FieldValue<'_>) -> Result<(), ProtoError> {
    let mut found = Owner::default();
    let mut manages = false;
    if owner.is_some() {
        return Ok(());
    }
    for field in reference.message()? {
        match field? {
            (1, value) => found.kind = value.text()?.into(),
            (3, value) => found.name = value.text()?.into(),
            (4, value) => found.uid = value.text()?.into(),
            (5, value) => found.api_version = value.text()?.into(),
            (6, value) => manages = value.flag()?,
            _ => {}
        }
    }
    if manages {
        *owner = Some(found.intern());
    }
    Ok(())
}
