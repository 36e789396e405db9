//! The end of a volume whose claim is gone: `findDeletablePlugin` and `deleteVolumeOperation` in
//! `pkg/controller/volume/persistentvolume/pv_controller.go`. PURE.

use super::annotations::{LOCAL_PATH, PROVISIONED_BY};
use crate::json::Value;
use crate::metadata;

/// The one who deletes a volume of the policy `Delete`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum VolumeDeleter {
    /// The loop deletes it.
    Controller,
    /// The provisioner of kind's class, which is part of the simulation, deletes it.
    LocalPath,
    /// The provisioner that made it, which is not here, deletes it.
    External,
    /// There is none, for this reason.
    Failed(String),
}

/// Returns who deletes a volume.
pub(super) fn deleter(volume: &Value) -> VolumeDeleter {
    match metadata::annotation(volume, PROVISIONED_BY) {
        Some(LOCAL_PATH) => return VolumeDeleter::LocalPath,
        Some(provisioner) if !provisioner.is_empty() && !provisioner.starts_with("kubernetes.io/") => {
            return VolumeDeleter::External;
        }
        _ => {}
    }
    let spec = &volume["spec"];
    let path = spec["hostPath"]["path"].as_str();
    if spec["csi"].is_object() || metadata::annotation(volume, "pv.kubernetes.io/migrated-to").is_some() {
        return VolumeDeleter::External;
    }
    if path.is_some_and(|path| path.find("/tmp/").is_some_and(|at| at + "/tmp/".len() < path.len())) {
        return VolumeDeleter::Controller;
    }
    if let Some(path) = path {
        return VolumeDeleter::Failed(format!("host_path deleter only supports /tmp/.+ but received provided {path}"));
    }
    let why = if spec["nfs"].is_object() { "no deletable volume plugin matched" } else { "no volume plugin matched" };
    let name = metadata::name(volume);
    VolumeDeleter::Failed(format!("error getting deleter volume plugin for volume {name:?}: {why}"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::json::json;

    #[rstest]
    #[case::ours(LOCAL_PATH, json!({"hostPath": {"path": "/var/x"}}), VolumeDeleter::LocalPath)]
    #[case::of_others("example.com/p", json!({"hostPath": {"path": "/tmp/x"}}), VolumeDeleter::External)]
    #[case::driver("", json!({"csi": {"driver": "example.com"}}), VolumeDeleter::External)]
    #[case::temporary("", json!({"hostPath": {"path": "/tmp/x"}}), VolumeDeleter::Controller)]
    #[case::on_a_host("", json!({"hostPath": {"path": "/tmp/"}}),
        VolumeDeleter::Failed("host_path deleter only supports /tmp/.+ but received provided /tmp/".to_owned()))]
    #[case::nfs("", json!({"nfs": {"path": "/x"}}),
        VolumeDeleter::Failed("error getting deleter volume plugin for volume \"v\": no deletable volume plugin matched".to_owned()))]
    #[case::local("", json!({"local": {"path": "/x"}}),
        VolumeDeleter::Failed("error getting deleter volume plugin for volume \"v\": no volume plugin matched".to_owned()))]
    fn volumes_are_deleted_by_those_who_can(
        #[case] provisioner: &str,
        #[case] spec: Value,
        #[case] expected: VolumeDeleter,
    ) {
        let mut volume = json!({"metadata": {"name": "v"}, "spec": spec});
        if !provisioner.is_empty() {
            metadata::set_annotation(&mut volume, PROVISIONED_BY, provisioner);
        }
        assert_eq!(deleter(&volume), expected);
    }
}
