//! Module `kubelet`.
