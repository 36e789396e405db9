//! Versions of built-in kinds that Kubernetes removed, as views of the versions that are stored: for clients that are
//! older than the release that the server behaves as.
//!
//! A [`View`] is the stored resource under another version. Shapes that differ have a conversion of their own; the
//! others differ in `apiVersion` only. See `pkg/apis/*/v1beta1` of Kubernetes; deprecations are those of
//! `zz_generated.prerelease-lifecycle.go` in `staging/src/k8s.io/api`.

use std::sync::Arc;

use crate::json::fields::semantic_equal;
use crate::json::{Value, json};
use crate::registry::admissionregistration::webhooks::WebhookConfigurations;
use crate::registry::core::event::{EventsV1Beta1Event, from_core, to_core};
use crate::registry::networking::ingress;
use crate::registry::scheme::Registry;
use crate::registry::served_resource::{Conversion, Resource};
use crate::registry::strategy::Strategy;

/// A removed version of resources of one group.
pub(crate) struct View {
    /// Group.
    pub group: &'static str,
    /// The removed version.
    pub version: &'static str,
    /// The version from which the resources are taken.
    pub of: &'static str,
    /// Plural names of the resources.
    pub plurals: &'static [&'static str],
    /// The releases that deprecated and removed the version.
    pub releases: (&'static str, &'static str),
    /// The warning names the version to use instead.
    pub names_replacement: bool,
    /// The kind that the warning names, if it is not that of the resource.
    pub replacement: Option<&'static str>,
    /// Conversion between the version and the storage version.
    pub conversion: &'static Conversion,
    /// Makes the strategy of a resource, if it is not that of the other version.
    pub strategy: Option<MakeStrategy>,
}

/// Makes the strategy of a view from the resource that it shows.
pub(crate) type MakeStrategy = fn(&Resource) -> Arc<dyn Strategy>;

impl View {
    const fn new(
        (group, version, of): (&'static str, &'static str, &'static str),
        plurals: &'static [&'static str],
        releases: (&'static str, &'static str),
        conversion: &'static Conversion,
    ) -> Self {
        Self {
            group,
            version,
            of,
            plurals,
            releases,
            names_replacement: true,
            replacement: None,
            conversion,
            strategy: None,
        }
    }

    const fn without_replacement(self) -> Self {
        Self { names_replacement: false, ..self }
    }

    const fn rules(self, strategy: MakeStrategy) -> Self {
        Self { strategy: Some(strategy), ..self }
    }

    /// Returns a resource as this version serves it.
    fn of_resource(&self, stored: &Resource) -> Resource {
        let mut view = stored.clone();
        view.version = self.version.into();
        view.schema = stored.schema.replacen(&format!(".{}.", self.of), &format!(".{}.", self.version), 1).into();
        view.conversion = Some(self.conversion);
        if let Some(strategy) = self.strategy {
            view.strategy = strategy(stored);
        }
        let (deprecated, removed) = self.releases;
        let kind = &stored.kind;
        let version = view.api_version();
        let instead = self
            .names_replacement
            .then(|| format!("; use {} {}", stored.api_version(), self.replacement.unwrap_or(kind)));
        let instead = instead.unwrap_or_default();
        let warning = format!("{version} {kind} is deprecated in v{deprecated}+, unavailable in v{removed}+{instead}");
        view.deprecation = Some(warning.into());
        view
    }
}

impl Registry {
    /// Returns this registry with these views of its resources.
    pub(crate) fn with_views<'v>(mut self, views: impl Iterator<Item = &'v View>) -> Self {
        for view in views {
            for plural in view.plurals {
                let stored = self.get(view.group, view.of, plural).cloned();
                if let Some(stored) = stored {
                    self.insert(view.of_resource(&stored));
                }
            }
        }
        self
    }
}

/// Makes a view whose objects differ from those of the other version in `apiVersion` only.
macro_rules! same_shape {
    ($group:literal, $version:literal, $of:literal, $plurals:expr, $releases:expr) => {
        View::new(
            ($group, $version, $of),
            $plurals,
            $releases,
            &Conversion {
                to_storage: |object| with_version(object, concat!($group, "/", $of)),
                from_storage: |object| with_version(object, concat!($group, "/", $version)),
            },
        )
    };
}

fn with_version(mut object: Value, version: &'static str) -> Value {
    object["apiVersion"] = version.into();
    object
}

/// All views but that of definitions, which are implemented outside of this module.
pub(crate) const VIEWS: &[View] = &[
    View::new(("policy", "v1beta1", "v1"), &["poddisruptionbudgets"], ("1.21", "1.25"), &BUDGETS),
    same_shape!("batch", "v1beta1", "v1", &["cronjobs"], ("1.21", "1.25")),
    same_shape!("autoscaling", "v2beta2", "v2", &["horizontalpodautoscalers"], ("1.23", "1.26")),
    same_shape!(
        "rbac.authorization.k8s.io",
        "v1beta1",
        "v1",
        &["clusterrolebindings", "clusterroles", "rolebindings", "roles"],
        ("1.17", "1.22")
    ),
    same_shape!(
        "admissionregistration.k8s.io",
        "v1beta1",
        "v1",
        &["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
        ("1.16", "1.22")
    )
    .rules(|stored| Arc::new(WebhookConfigurations { mutating: stored.plural.starts_with("mutating"), beta: true })),
    same_shape!(
        "storage.k8s.io",
        "v1beta1",
        "v1",
        &["csidrivers", "storageclasses", "volumeattachments"],
        ("1.19", "1.22")
    ),
    View::new(("networking.k8s.io", "v1beta1", "v1"), &["ingresses"], ("1.19", "1.22"), &ingress::BETA)
        .rules(|_| Arc::new(ingress::beta_rules())),
    // The markers of upstream's type name the list.
    View {
        replacement: Some("IngressClassList"),
        ..same_shape!("networking.k8s.io", "v1beta1", "v1", &["ingressclasses"], ("1.19", "1.22"))
    },
    same_shape!("storage.k8s.io", "v1beta1", "v1", &["csinodes"], ("1.17", "1.22")),
    same_shape!("storage.k8s.io", "v1beta1", "v1", &["csistoragecapacities"], ("1.24", "1.27")),
    same_shape!("scheduling.k8s.io", "v1beta1", "v1", &["priorityclasses"], ("1.14", "1.22")),
    same_shape!("coordination.k8s.io", "v1beta1", "v1", &["leases"], ("1.19", "1.22")),
    same_shape!("node.k8s.io", "v1beta1", "v1", &["runtimeclasses"], ("1.22", "1.25")).without_replacement(),
    same_shape!("apiregistration.k8s.io", "v1beta1", "v1", &["apiservices"], ("1.19", "1.22")),
    View::new(
        ("events.k8s.io", "v1beta1", "v1"),
        &["events"],
        ("1.22", "1.25"),
        &Conversion {
            to_storage: to_core,
            from_storage: |event| with_version(from_core(event), "events.k8s.io/v1beta1"),
        },
    )
    .without_replacement()
    .rules(|_| Arc::new(EventsV1Beta1Event)),
];

/// The key in the selectors of budgets that select everything or nothing in the other version.
const EMPTY_SELECTOR: &str = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match";

/// The conversion of budgets: `pkg/apis/policy/v1beta1/conversion.go`. An empty selector selects nothing in `v1beta1`
/// and everything in `v1`.
const BUDGETS: Conversion = Conversion {
    to_storage: |mut budget| {
        if !exchange_selector(&mut budget, "Exists", "DoesNotExist")
            && let Some(Value::Array(expressions)) = budget.pointer_mut("/spec/selector/matchExpressions")
        {
            expressions.retain(|expression| expression["key"] != EMPTY_SELECTOR);
        }
        with_version(budget, "policy/v1")
    },
    from_storage: |mut budget| {
        exchange_selector(&mut budget, "DoesNotExist", "Exists");
        with_version(budget, "policy/v1beta1")
    },
};

/// Replaces an empty selector with one that has the operator `instead`, and one with the operator `empty` with an empty
/// one. Returns false if the selector is another one.
fn exchange_selector(budget: &mut Value, instead: &str, empty: &str) -> bool {
    let marked = |operator: &str| json!({"matchExpressions": [{"key": EMPTY_SELECTOR, "operator": operator}]});
    let Some(selector) = budget.pointer_mut("/spec/selector").filter(|selector| selector.is_object()) else {
        return false;
    };
    let is = |wanted: &Value| {
        let fields = ["matchExpressions", "matchLabels"];
        fields.iter().all(|field| semantic_equal(selector.get(*field), wanted.get(*field)))
    };
    let exchanged = if is(&json!({})) {
        marked(instead)
    } else if is(&marked(empty)) {
        json!({})
    } else {
        return false;
    };
    *selector = exchanged;
    true
}
