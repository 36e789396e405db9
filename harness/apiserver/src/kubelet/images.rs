//! Images that containers cannot have. PURE. See `pkg/kubelet/images/image_manager.go`, and `ParseNormalizedNamed` in
//! `normalize.go` of github.com/distribution/reference.

use crate::glob::glob;
use crate::json::Value;
use crate::json::fields::str_field;

/// The reason of a container that waits for its image.
pub(super) const WAITING: &str = "ImagePullBackOff";

/// The reason why a container does not get its image: that of its state, and the message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ImageProblem {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// Returns why a container does not get its image. `missing` are patterns of images that do not exist, in which `*` is
/// any text.
pub(super) fn problem(container: &Value, missing: &[String]) -> Option<ImageProblem> {
    let image = str_field(container, "image");
    if let Some(why) = malformed(image) {
        let why = format!("couldn't parse image name {image:?}: {why}");
        let message = format!("Failed to apply default image tag {image:?}: {why}");
        return Some(ImageProblem { reason: "InvalidImageName", message });
    }
    if !missing.iter().any(|pattern| glob(pattern, image)) {
        return None;
    }
    if container["imagePullPolicy"] == "Never" {
        let message = format!("Container image {image:?} is not present with pull policy of Never");
        return Some(ImageProblem { reason: "ErrImageNeverPull", message });
    }
    // The words of the registry are those of no particular one.
    let message = format!("Back-off pulling image {image:?}: ErrImagePull: {image}: not found");
    Some(ImageProblem { reason: WAITING, message })
}

/// Returns why a text is not the name of an image.
fn malformed(image: &str) -> Option<String> {
    let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if image.len() == 64 && is_hex(image) {
        return Some(format!("invalid repository name ({image}), cannot specify 64-byte hexadecimal strings"));
    }
    let (domain, rest) = split_domain(image);
    let remote = rest.split(':').next().unwrap_or_default();
    if remote.chars().any(char::is_uppercase) {
        let is_official = matches!(domain, "" | "docker.io" | "index.docker.io") && !rest.contains('/');
        let library = if is_official { "library/" } else { "" };
        return Some(format!("invalid reference format: repository name ({library}{remote}) must be lowercase"));
    }
    let (rest, digest) = rest.split_once('@').map_or((rest, None), |(rest, digest)| (rest, Some(digest)));
    let (path, tag) = rest.split_once(':').map_or((rest, None), |(path, tag)| (path, Some(tag)));
    let is_valid = path.split('/').all(is_path_component)
        && tag.is_none_or(is_tag)
        && digest.is_none_or(|digest| digest.split_once(':').is_some_and(|(_, hash)| hash.len() >= 32));
    (!is_valid).then(|| "invalid reference format".to_owned())
}

/// Parts the name of an image into the host of its registry, which may be empty, and the rest: `splitDockerDomain`.
fn split_domain(image: &str) -> (&str, &str) {
    match image.split_once('/') {
        Some((domain, rest))
            if domain.contains(['.', ':']) || domain == "localhost" || domain.chars().any(char::is_uppercase) =>
        {
            (domain, rest)
        }
        _ => ("", image),
    }
}

/// Returns true for letters and digits that are parted by single separators: `.`, `_`, `__` or any number of `-`.
fn is_path_component(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let mut separators = text.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    let ends = [text.bytes().next(), text.bytes().next_back()];
    ends.into_iter().all(|end| end.is_some_and(is_word))
        && separators.all(|part| matches!(part, "." | "_" | "__") || part.bytes().all(|byte| byte == b'-'))
}

fn is_tag(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (1..=128).contains(&text.len())
        && text.bytes().next().is_some_and(is_word)
        && text.bytes().all(|byte| is_word(byte) || matches!(byte, b'.' | b'-'))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rstest::rstest;

    use super::*;
    use crate::clock::{Clock, epoch, run_virtual};
    use crate::controllers::{ControllerClient, STRATEGIC_PATCH};
    use crate::json::fields::array_field;
    use crate::json::json;
    use crate::kubelet::{KubeletOptions, run};
    use crate::server::{ApiServer, ApiServerConfig};
    use crate::store::ResourceId;

    /// The messages of `EnsureImageExists`, and the cases of `reference_test.go` of github.com/distribution/reference.
    #[rstest]
    #[case::plain("nginx", "", None)]
    #[case::registry("registry.k8s.io:443/a/b_c__d--e.f:v1.2_3", "", None)]
    #[case::digest("nginx@sha256:e692418e4cbaf90ca69d05a66403747baa33ee08806650b51fab815ad7fc331f", "", None)]
    #[case::upper_tag("nginx:V1-Alpha", "", None)]
    #[case::upper("Nginx:1", "", Some(("InvalidImageName", "Failed to apply default image tag \"Nginx:1\": couldn't parse \
        image name \"Nginx:1\": invalid reference format: repository name (library/Nginx) must be lowercase")))]
    #[case::upper_path("a.io/Team/web", "", Some(("InvalidImageName", "Failed to apply default image tag \
        \"a.io/Team/web\": couldn't parse image name \"a.io/Team/web\": invalid reference format: repository name \
        (Team/web) must be lowercase")))]
    #[case::separators("a..b", "", Some(("InvalidImageName", "Failed to apply default image tag \"a..b\": couldn't parse \
        image name \"a..b\": invalid reference format")))]
    #[case::empty_tag("web:", "", Some(("InvalidImageName", "Failed to apply default image tag \"web:\": couldn't parse \
        image name \"web:\": invalid reference format")))]
    #[case::missing("web:broken", "", Some(("ImagePullBackOff",
        "Back-off pulling image \"web:broken\": ErrImagePull: web:broken: not found")))]
    #[case::never("web:broken", "Never", Some(("ErrImageNeverPull",
        "Container image \"web:broken\" is not present with pull policy of Never")))]
    #[case::never_there("web:1", "Never", None)]
    fn containers_need_their_images(#[case] image: &str, #[case] policy: &str, #[case] expected: Option<(&str, &str)>) {
        let container = json!({"name": "c", "image": image, "imagePullPolicy": policy});
        let found = problem(&container, &["*:broken".to_owned()]);
        assert_eq!(found.as_ref().map(|found| (found.reason, found.message.as_str())), expected);
    }

    #[test]
    fn a_pod_waits_for_its_image() {
        run_virtual(async {
            let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
            server.seed([json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})]).expect("seeded");
            let missing_images = vec!["*:broken".to_owned()];
            tokio::spawn(run(server.clone(), KubeletOptions { missing_images, ..KubeletOptions::default() }));
            let client = ControllerClient::new(&server, "user");
            let containers = json!([{"name": "good", "image": "web:1"}, {"name": "bad", "image": "web:broken"}]);
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
                "spec": {"nodeName": "n", "containers": containers}});
            assert!(client.create("/api/v1/namespaces/default/pods", &pod).await.is_ok());
            server.clock().sleep(Duration::from_mins(1)).await;
            let read = || server.get(&ResourceId::new("", "pods"), "default", "p").expect("the pod").value();
            let waiting = read();
            assert_eq!(waiting["status"]["phase"], "Pending");
            // Statuses come in the order of their names.
            assert_eq!(waiting["status"]["containerStatuses"][1]["ready"], true);
            assert_eq!(waiting["status"]["containerStatuses"][0]["state"]["waiting"]["reason"], WAITING);
            let conditions = array_field(&waiting["status"], "conditions");
            let ready = conditions.iter().find(|condition| condition["type"] == "Ready").expect("Ready");
            assert_eq!((&ready["status"], &ready["reason"]), (&json!("False"), &json!("ContainersNotReady")));

            server.clock().sleep(Duration::from_mins(1)).await;
            assert_eq!(read(), waiting, "its status is written once");
            let other = json!({"spec": {"containers": [{"name": "bad", "image": "web:2"}]}});
            client.patch("/api/v1/namespaces/default/pods/p", STRATEGIC_PATCH, &other).await;
            server.clock().sleep(Duration::from_secs(1)).await;
            let running = read();
            assert_eq!(running["status"]["phase"], "Running", "{running}");
            assert_eq!(running["status"]["containerStatuses"][0]["ready"], true);
            assert_eq!(running["status"]["podIP"], waiting["status"]["podIP"]);
            assert_eq!(running["status"]["podIP"], "10.1.0.1", "outside of the services' range");
            let conditions = array_field(&running["status"], "conditions");
            let ready = conditions.iter().find(|condition| condition["type"] == "Ready").expect("Ready");
            assert_eq!((&ready["status"], ready.get("reason")), (&json!("True"), None));
        })
        .expect("a runtime");
    }
}
