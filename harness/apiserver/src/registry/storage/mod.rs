//! The kinds of `storage.k8s.io`. See `pkg/registry/storage`.

pub(in crate::registry) mod common;
pub(in crate::registry) mod csi_driver;
pub(in crate::registry) mod csi_node;
pub(in crate::registry) mod csi_storage_capacity;
pub(in crate::registry) mod storage_class;
pub(in crate::registry) mod volume_attachment;
pub(crate) mod volume_attributes_class;
