//! An existing cluster: any kubeconfig, any context. Nothing is started; connectivity and permissions are checked
//! before anything runs.

use std::path::{Path, PathBuf};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt as _};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use kube::Client;
use kube::api::{Api, PostParams};
use kube::config::Kubeconfig;

use super::built_in_controllers::built_in;
use super::environment_error::{EnvironmentError, FailureKind};
use super::private_files::{temporary_folder, write_private};
use super::server::{Bystanders, Server, ServerBackend};
use super::{leftovers, probe};

/// Number of concurrent access reviews.
const AT_ONCE: usize = 8;

/// Options for an existing cluster.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(id = "kubeconfig_options")]
pub struct ExistingClusterOptions {
    /// With --cluster kubeconfig: kubeconfig file [default: KUBECONFIG, else ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// With --cluster kubeconfig: context to use [default: the file's current context]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,

    /// With --cluster kubeconfig: also run fixtures that change nodes or affect pods of the whole cluster. Use a
    /// disposable cluster only
    #[arg(long)]
    pub allow_disruptive: bool,

    /// With --cluster kubeconfig: the cluster runs no scheduler and no controllers for workloads, garbage collection
    /// and nodes. Without this flag, fixtures that they would disturb are skipped
    #[arg(long)]
    pub no_bystanders: bool,

    /// With --cluster kubeconfig: test the cluster's own built-in versions of the controllers, which are running
    #[arg(long)]
    pub built_in_controllers: bool,
}

/// A permission that the suite or the subject needs (they share credentials): verbs, API group, resource with
/// subresource.
type RequiredPermission = (&'static [&'static str], &'static str, &'static str);

/// All verbs for objects that fixtures create and change.
const EVERYTHING: &[&str] = &["get", "list", "watch", "create", "update", "patch", "delete"];
/// Permissions for the namespaces that the suite creates.
const PERMISSIONS: &[RequiredPermission] = &[
    (&["get", "list", "create", "delete"], "", "namespaces"),
    (EVERYTHING, "", "pods"),
    (&["update", "patch"], "", "pods/status"),
    (&["create"], "", "pods/eviction"),
    (&["get", "list", "watch"], "", "nodes"),
    (&["get", "list", "watch", "create", "patch"], "", "events"),
    (&["create", "patch"], "events.k8s.io", "events"),
    (EVERYTHING, "policy", "poddisruptionbudgets"),
    (&["update", "patch"], "policy", "poddisruptionbudgets/status"),
    (EVERYTHING, "", "replicationcontrollers"),
    (EVERYTHING, "apps", "deployments"),
    (EVERYTHING, "apps", "replicasets"),
    (EVERYTHING, "apps", "statefulsets"),
];
/// Permissions for cluster-wide changes.
const DISRUPTIVE_PERMISSIONS: &[RequiredPermission] = &[
    (&["create", "update", "patch", "delete"], "", "nodes"),
    (&["update", "patch"], "", "nodes/status"),
    (&["get", "create", "delete"], "apiextensions.k8s.io", "customresourcedefinitions"),
];

/// Finds the cluster and checks that it responds and grants the permissions that the suite needs.
///
/// # Errors
///
/// Returns an error if the file or context does not exist, the cluster does not respond, or permissions are missing
/// (each with its verb).
pub async fn start(options: &ExistingClusterOptions, logs: &Path) -> Result<Server, EnvironmentError> {
    let folder = temporary_folder()?;
    let path = folder.path().join("kubeconfig");
    let (text, context) = select(options)?;
    write_private(&path, &text)?;
    let client = probe::client(&path).await?;
    let version = probe::version(&client).await.map_err(|why| {
        let what = format!("the cluster of context {context:?} does not respond: {why}");
        let next = format!("check it with `kubectl --context {context} version`");
        EnvironmentError::new(FailureKind::Unreachable, what, next)
    })?;
    let missing = missing_rights(&client, options.allow_disruptive, &context).await?;
    if !missing.is_empty() {
        let what = format!("context {context:?} lacks permissions that the suite needs:");
        let next = "grant these permissions with a ClusterRole, or choose another context with --context";
        return Err(EnvironmentError::new(FailureKind::Forbidden, what, next).with(missing));
    }
    let removed = leftovers::remove(&client).await;
    if removed > 0 {
        tracing::info!(context, removed, "removed the namespaces of a killed run");
    }
    Ok(Server {
        name: "kubeconfig",
        image: None,
        version,
        kubeconfig: path,
        log_folder: logs.to_owned(),
        allows_disruption: options.allow_disruptive,
        built_in: built_in(options.built_in_controllers),
        bystanders: Bystanders { scheduler: !options.no_bystanders, meddlers: !options.no_bystanders },
        started: Box::new(ExistingCluster { client, _folder: folder }),
    })
}

/// Returns a kubeconfig whose current context is the requested one, and the context's name.
fn select(options: &ExistingClusterOptions) -> Result<(String, String), EnvironmentError> {
    let place = options.kubeconfig.as_ref().map_or_else(|| "KUBECONFIG".to_owned(), |path| path.display().to_string());
    let read = match &options.kubeconfig {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    let mut file = read.map_err(|error| {
        let what = format!("unable to read the kubeconfig ({place}): {error}");
        EnvironmentError::new(FailureKind::Missing, what, "set the file with --kubeconfig or KUBECONFIG")
    })?;
    let names: Vec<String> = file.contexts.iter().map(|context| context.name.clone()).collect();
    let wanted = options.context.clone().or_else(|| file.current_context.clone()).filter(|name| !name.is_empty());
    let context = wanted.ok_or_else(|| {
        let what = format!("the kubeconfig ({place}) has no current context; its contexts:");
        EnvironmentError::new(FailureKind::Missing, what, "choose one with --context").with(names.clone())
    })?;
    if !names.contains(&context) {
        let what = format!("the kubeconfig ({place}) has no context {context:?}; its contexts:");
        return Err(EnvironmentError::new(FailureKind::Missing, what, "choose one of them with --context").with(names));
    }
    file.current_context = Some(context.clone());
    let text = serde_json::to_string_pretty(&file).map_err(|error| {
        let what = format!("unable to encode the kubeconfig ({place}): {error}");
        EnvironmentError::new(FailureKind::Failed, what, "report this as a bug")
    })?;
    Ok((text, context))
}

/// Returns the missing permissions, as `verb resource.group`.
async fn missing_rights(client: &Client, disruptive: bool, context: &str) -> Result<Vec<String>, EnvironmentError> {
    let more = if disruptive { DISRUPTIVE_PERMISSIONS } else { &[] };
    let questions: Vec<(&str, &str, &str)> = PERMISSIONS
        .iter()
        .chain(more)
        .flat_map(|(verbs, group, resource)| verbs.iter().map(move |verb| (*verb, *group, *resource)))
        .collect();
    let answers = stream::iter(questions.iter().map(|(verb, group, resource)| allowed(client, verb, group, resource)));
    let answers: Vec<Result<bool, kube::Error>> = answers.buffered(AT_ONCE).collect().await;
    let mut missing = Vec::new();
    for ((verb, group, resource), answer) in questions.iter().zip(answers) {
        let allowed = answer.map_err(|error| {
            let what = format!("unable to check permissions in the cluster of context {context:?}: {error}");
            let next = format!("check it with `kubectl --context {context} auth can-i --list`");
            EnvironmentError::new(FailureKind::Unreachable, what, next)
        })?;
        if !allowed {
            missing.push(if group.is_empty() {
                format!("{verb} {resource}")
            } else {
                format!("{verb} {resource}.{group}")
            });
        }
    }
    Ok(missing)
}

/// Returns true if the action is allowed in all namespaces: those of the suite do not exist yet.
async fn allowed(client: &Client, verb: &str, group: &str, resource: &str) -> Result<bool, kube::Error> {
    let (resource, subresource) = match resource.split_once('/') {
        Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
        None => (resource, None),
    };
    let attributes = ResourceAttributes {
        verb: Some(verb.to_owned()),
        group: Some(group.to_owned()),
        resource: Some(resource.to_owned()),
        subresource,
        ..ResourceAttributes::default()
    };
    let spec =
        SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..SelfSubjectAccessReviewSpec::default() };
    let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

/// A cluster that was not started by the harness.
struct ExistingCluster {
    client: Client,
    _folder: tempfile::TempDir,
}

impl std::fmt::Debug for ExistingCluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExistingCluster").finish_non_exhaustive()
    }
}

impl ServerBackend for ExistingCluster {
    fn ended(&mut self) -> BoxFuture<'_, Option<String>> {
        async { probe::version(&self.client).await.err().map(|error| error.to_string()) }.boxed()
    }

    fn stop(self: Box<Self>) -> BoxFuture<'static, Result<(), EnvironmentError>> {
        async { Ok(()) }.boxed()
    }
}
