//! etcd and kube-apiserver as processes, like controller-runtime's envtest: no kubelet, no controller manager.
//!
//! They listen on free loopback ports with their own certificate authority, token and RBAC. The admission plugin
//! `ServiceAccount` is off: without a controller manager no namespace has the service account that pods need.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use plumbline::time::Clock;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, SanType,
};
use serde_json::json;

use super::environment_error::{EVIDENCE_LINES, EnvironmentError, FailureKind};
use super::private_files::{log_folder, random_token, temporary_folder, write_private};
use super::probe;
use super::probe::PAUSE;
use super::server::{Bystanders, Server, ServerBackend};
use crate::process::crash_cleanup::{CleanupGuard, CrashCleanup};
use crate::process::{GuardedProcess, ProcessSpec};

/// The programs.
const PROGRAMS: [&str; 2] = ["etcd", "kube-apiserver"];
/// Install location of kubebuilder's archives.
const KUBEBUILDER: &str = "/usr/local/kubebuilder/bin";
/// Time limit for a program to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);
/// Attempts to start when another process took a port.
const TRIES: usize = 3;
/// Log message of programs whose port is taken.
const PORT_TAKEN: &str = "address already in use";

/// Options for etcd and kube-apiserver.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(id = "envtest_options")]
pub struct EnvtestOptions {
    /// With --cluster envtest: folder with etcd and kube-apiserver [default: /usr/local/kubebuilder/bin, else the
    /// newest version installed by setup-envtest]
    #[arg(long, env = "KUBEBUILDER_ASSETS", value_name = "DIR")]
    pub envtest_assets: Option<PathBuf>,

    /// With --cluster envtest: extra flag for kube-apiserver, such as --feature-gates=X=true; may be repeated
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    pub envtest_apiserver_arg: Vec<String>,

    /// With --cluster envtest: time limit for kube-apiserver to become ready, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 90)]
    pub envtest_ready_limit: u64,
}

/// Starts etcd and kube-apiserver; their logs go to `logs`.
///
/// # Errors
///
/// Returns an error if programs are missing (with the places searched), a program ends (with the end of its log), or
/// the server is not ready in time.
pub async fn start(options: &EnvtestOptions, logs: &Path) -> Result<Server, EnvironmentError> {
    let named = options.envtest_assets.as_deref().filter(|folder| !folder.as_os_str().is_empty());
    let assets = find(named, &places())?;
    let logs = &log_folder(logs)?;
    let mut tries = 0;
    loop {
        tries += 1;
        match start_once(options, &assets, logs).await {
            Err(error) if tries < TRIES && error.evidence.iter().any(|line| line.contains(PORT_TAKEN)) => {}
            result => return result,
        }
    }
}

async fn start_once(options: &EnvtestOptions, assets: &Path, logs: &Path) -> Result<Server, EnvironmentError> {
    let folder = temporary_folder()?;
    let crash_cleanup = CrashCleanup { folder: Some(folder.path().to_owned()), ..CrashCleanup::default() }.start()?;
    let [server, client, peer] = free_ports()?;
    let token = random_token()?;
    let authority = write_secrets(folder.path(), &token)?;
    let kubeconfig = folder.path().join("kubeconfig");
    write_private(&kubeconfig, &kubeconfig_text(server, &authority, &token))?;

    let working_folder = folder.path().to_owned();
    let spawn = |name: &'static str, flags: Vec<String>| {
        let argv = std::iter::once(assets.join(name).into()).chain(flags.into_iter().map(Into::into)).collect();
        let folder = Some(working_folder.clone());
        let start = ProcessSpec { argv, env: Vec::new(), folder, log: logs.join(format!("{name}.log")) };
        start.spawn().map(|process| Program { name, process }).map_err(|error| {
            EnvironmentError::new(
                FailureKind::Failed,
                error.to_string(),
                format!("check that {} runs on this machine", assets.join(name).display()),
            )
        })
    };
    let etcd = spawn("etcd", etcd_flags(client, peer))?;
    let mut started = Envtest { apiserver: None, etcd, folder: Some(folder), crash_cleanup: Some(crash_cleanup) };
    let limit = Duration::from_secs(options.envtest_ready_limit);
    let version = async {
        // Start etcd first and alone: kube-apiserver ends without it, and it would be random which end is noticed
        // first.
        started.storage_answers(client, limit).await?;
        let mut flags = apiserver_flags(server, client);
        flags.extend(options.envtest_apiserver_arg.iter().cloned());
        started.apiserver = Some(spawn("kube-apiserver", flags)?);
        started.server_is_ready(&kubeconfig, limit).await
    };
    match version.await {
        Ok(version) => Ok(Server {
            name: "envtest",
            image: None,
            version,
            kubeconfig,
            log_folder: logs.to_owned(),
            allows_disruption: true,
            built_in: Vec::new(),
            bystanders: Bystanders::default(),
            started: Box::new(started),
        }),
        Err(error) => {
            // Report the first failure, not those of stopping.
            let _ = Box::new(started).stop().await;
            Err(error)
        }
    }
}

/// Returns the places to search for the programs when no folder is given.
fn places() -> Vec<PathBuf> {
    let mut places = vec![PathBuf::from(KUBEBUILDER)];
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = variable("HOME");
    let data = if cfg!(target_os = "macos") {
        home.map(|home| home.join("Library/Application Support/io.kubebuilder.envtest"))
    } else {
        let data = variable("XDG_DATA_HOME").or_else(|| home.map(|home| home.join(".local/share")));
        data.map(|data| data.join("kubebuilder-envtest"))
    };
    if let Some(store) = data.map(|data| data.join("k8s")) {
        let mut versions: Vec<PathBuf> = std::fs::read_dir(&store)
            .map(|entries| entries.filter_map(|entry| Some(entry.ok()?.path())).collect())
            .unwrap_or_default();
        versions.sort_by_key(|path| std::cmp::Reverse(version_of(path)));
        if versions.is_empty() {
            versions.push(store);
        }
        places.extend(versions);
    }
    places
}

/// Parses the version of a folder such as `1.36.1-linux-amd64`; empty for other names.
fn version_of(path: &Path) -> Vec<u64> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let version = name.split('-').next().unwrap_or_default().to_owned();
    version.split('.').map(str::parse).collect::<Result<_, _>>().unwrap_or_default()
}

/// Returns the folder that contains both programs.
fn find(wanted: Option<&Path>, places: &[PathBuf]) -> Result<PathBuf, EnvironmentError> {
    let places: Vec<PathBuf> = wanted.map_or_else(|| places.to_vec(), |wanted| vec![wanted.to_owned()]);
    let absent = |place: &PathBuf| PROGRAMS.into_iter().filter(|name| !place.join(name).is_file()).collect::<Vec<_>>();
    if let Some(place) = places.iter().find(|place| absent(place).is_empty()) {
        // Absolute, because the programs get their own working folder.
        return Ok(std::path::absolute(place).unwrap_or_else(|_| place.clone()));
    }
    let looked = places.iter().map(|place| format!("{}: no {}", place.display(), absent(place).join(", no ")));
    let next = "install them, for example with `setup-envtest use 1.36`, and set KUBEBUILDER_ASSETS or --envtest-assets to \
                their folder; --cluster fake needs no programs";
    let what = format!("{} were not found:", PROGRAMS.join(" and "));
    Err(EnvironmentError::new(FailureKind::Missing, what, next).with(looked))
}

/// Returns loopback ports that are currently free.
fn free_ports<const COUNT: usize>() -> Result<[u16; COUNT], EnvironmentError> {
    let failed = |error: std::io::Error| {
        let what = format!("unable to find a free port on 127.0.0.1: {error}");
        EnvironmentError::new(
            FailureKind::Failed,
            what,
            "stop programs that use many ports, or allow listening on loopback",
        )
    };
    let mut ports = [0; COUNT];
    for port in &mut ports {
        *port = crate::process::free_port().map_err(failed)?;
    }
    Ok(ports)
}

fn etcd_flags(client: u16, peer: u16) -> Vec<String> {
    vec![
        "--name=default".to_owned(),
        "--data-dir=etcd".to_owned(),
        // Durability is not needed.
        "--unsafe-no-fsync".to_owned(),
        format!("--listen-client-urls=http://127.0.0.1:{client}"),
        format!("--advertise-client-urls=http://127.0.0.1:{client}"),
        format!("--listen-peer-urls=http://127.0.0.1:{peer}"),
        format!("--initial-advertise-peer-urls=http://127.0.0.1:{peer}"),
        format!("--initial-cluster=default=http://127.0.0.1:{peer}"),
    ]
}

fn apiserver_flags(server: u16, etcd: u16) -> Vec<String> {
    let mut flags = vec![
        format!("--etcd-servers=http://127.0.0.1:{etcd}"),
        format!("--secure-port={server}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
    ];
    flags.extend(
        [
            // Endpoints must not be loopback addresses, and the service `kubernetes` is not needed here.
            "--endpoint-reconciler-type=none",
            "--tls-cert-file=server.crt",
            "--tls-private-key-file=server.key",
            "--cert-dir=certs",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-account-key-file=sa.pub",
            "--service-account-signing-key-file=sa.key",
            "--token-auth-file=tokens.csv",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--disable-admission-plugins=ServiceAccount",
            "--allow-privileged=true",
        ]
        .map(str::to_owned),
    );
    flags
}

/// Writes certificates, keys and the token, and returns the authority's certificate as PEM.
fn write_secrets(folder: &Path, token: &str) -> Result<String, EnvironmentError> {
    let failed = |error: rcgen::Error| {
        EnvironmentError::new(
            FailureKind::Failed,
            format!("unable to create certificates: {error}"),
            "report this as a bug",
        )
    };
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.distinguished_name.push(DnType::CommonName, "plumbline-envtest-ca");
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let key = KeyPair::generate().map_err(failed)?;
    let authority = CertifiedIssuer::self_signed(authority, key).map_err(failed)?;

    let names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"].map(str::to_owned);
    let mut params = CertificateParams::new(names).map_err(failed)?;
    params.subject_alt_names.push(SanType::IpAddress(Ipv4Addr::LOCALHOST.into()));
    params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = params.signed_by(&key, &authority).map_err(failed)?;
    let accounts = KeyPair::generate().map_err(failed)?;

    let files = [
        ("server.crt", format!("{}{}", certificate.pem(), authority.pem())),
        ("server.key", key.serialize_pem()),
        ("sa.pub", accounts.public_key_pem()),
        ("sa.key", accounts.serialize_pem()),
        ("tokens.csv", format!("{token},plumbline,plumbline,system:masters\n")),
    ];
    for (name, content) in files {
        write_private(&folder.join(name), &content)?;
    }
    Ok(authority.pem())
}

/// Returns a kubeconfig as JSON, which is valid YAML.
fn kubeconfig_text(port: u16, authority: &str, token: &str) -> String {
    let cluster =
        json!({"server": format!("https://127.0.0.1:{port}"), "certificate-authority-data": BASE64.encode(authority)});
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "envtest", "cluster": cluster}],
        "users": [{"name": "plumbline", "user": {"token": token}}],
        "contexts": [{"name": "envtest", "context": {"cluster": "envtest", "user": "plumbline"}}],
        "current-context": "envtest",
    });
    format!("{config:#}\n")
}

/// A program and its name.
#[derive(Debug)]
struct Program {
    name: &'static str,
    process: GuardedProcess,
}

impl Program {
    /// Returns an error if it has ended.
    fn end(&mut self) -> Option<EnvironmentError> {
        let end = self.process.ended()?;
        let what = format!("{end}; log {}:", self.process.log().display());
        let next = format!("check the log of {}", self.name);
        Some(EnvironmentError::new(FailureKind::Failed, what, next).with(self.evidence()))
    }

    fn evidence(&self) -> Vec<String> {
        self.process.log_tail(EVIDENCE_LINES)
    }
}

/// The two programs. Fields are dropped in this order: the server before its storage.
#[derive(Debug)]
struct Envtest {
    /// `None` until etcd accepts connections.
    apiserver: Option<Program>,
    etcd: Program,
    folder: Option<tempfile::TempDir>,
    crash_cleanup: Option<CleanupGuard>,
}

impl Envtest {
    /// Checks etcd first, because the server ends without it.
    fn end(&mut self) -> Option<EnvironmentError> {
        self.etcd.end().or_else(|| self.apiserver.as_mut().and_then(Program::end))
    }

    /// Waits until etcd accepts connections at `port`.
    async fn storage_answers(&mut self, port: u16, limit: Duration) -> Result<(), EnvironmentError> {
        let clock = Clock::wall();
        loop {
            if let Some(end) = self.end() {
                return Err(end);
            }
            let Err(why) = tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await else { return Ok(()) };
            if clock.elapsed() > limit {
                let what = format!("etcd is not ready after {} s: port {port}: {why}", limit.as_secs());
                let next = "check its log; a slow machine may need a longer --envtest-ready-limit";
                return Err(EnvironmentError::new(FailureKind::NotReady, what, next).with(self.etcd.evidence()));
            }
            clock.sleep(PAUSE).await;
        }
    }

    /// Waits until the server is ready and returns its version.
    async fn server_is_ready(&mut self, kubeconfig: &Path, limit: Duration) -> Result<String, EnvironmentError> {
        let asked = probe::client(kubeconfig).await?;
        let ready = tokio::select! {
            ready = probe::ready("kube-apiserver", &asked, limit) => ready,
            error = self.first_end() => return Err(error),
        };
        // It may have just ended, which is a better explanation than not being ready.
        ready.map_err(|error| {
            let evidence = self.apiserver.as_ref().map(Program::evidence).unwrap_or_default();
            self.end().unwrap_or_else(|| error.with(evidence))
        })
    }

    /// Waits until one of them ends.
    async fn first_end(&mut self) -> EnvironmentError {
        loop {
            if let Some(end) = self.end() {
                return end;
            }
            Clock::wall().sleep(PAUSE).await;
        }
    }
}

impl ServerBackend for Envtest {
    fn ended(&mut self) -> BoxFuture<'_, Option<String>> {
        async { self.end().map(|end| end.to_string()) }.boxed()
    }

    fn stop(mut self: Box<Self>) -> BoxFuture<'static, Result<(), EnvironmentError>> {
        async move {
            let ended = self.end();
            // kube-apiserver may be slow to end because of open watches; it is then killed, which is not an error.
            if let Some(apiserver) = &mut self.apiserver {
                let _ = apiserver.process.terminate(GRACE).await;
            }
            let _ = self.etcd.process.terminate(GRACE).await;
            if let Some(folder) = self.folder.take() {
                folder.close().map_err(|error| {
                    let what = format!("unable to remove a temporary folder: {error}");
                    EnvironmentError::new(FailureKind::Failed, what, "remove it manually")
                })?;
            }
            if let Some(crash_cleanup) = self.crash_cleanup.take() {
                crash_cleanup.cancel();
            }
            ended.map_or(Ok(()), Err)
        }
        .boxed()
    }
}

impl Drop for Envtest {
    fn drop(&mut self) {
        // The programs need a moment to end and still write there: the crash cleanup retries until the folder is gone.
        if let Some(folder) = self.folder.take() {
            let _ = folder.keep();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(versions: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for version in versions {
            std::fs::create_dir_all(folder.path().join(version)).unwrap();
            for program in PROGRAMS {
                std::fs::write(folder.path().join(version).join(program), "").unwrap();
            }
        }
        folder
    }

    #[test]
    fn newest_version_is_by_numbers() {
        let mut versions = ["1.9.0-linux-amd64", "1.36.1-linux-amd64", "1.36.0-linux-amd64", "junk"].map(PathBuf::from);
        versions.sort_by_key(|path| std::cmp::Reverse(version_of(path)));
        assert_eq!(versions[0], Path::new("1.36.1-linux-amd64"));
        assert_eq!(versions[3], Path::new("junk"));
    }

    #[test]
    fn programs_are_found_together_or_all_places_are_named() {
        let store = store(&["whole", "half"]);
        let whole = store.path().join("whole");
        let half = store.path().join("half");
        std::fs::remove_file(half.join("etcd")).unwrap();
        assert_eq!(find(None, &[half.clone(), whole.clone()]).unwrap(), whole);
        assert_eq!(find(Some(&whole), &[]).unwrap(), whole);

        // A folder given explicitly is the only one searched.
        let error = find(Some(&half), std::slice::from_ref(&whole)).unwrap_err();
        assert_eq!(error.kind, FailureKind::Missing);
        assert_eq!(error.evidence, [format!("{}: no etcd", half.display())]);
        let error = find(None, &["/nowhere".into(), half]).unwrap_err();
        assert_eq!(error.evidence[0], "/nowhere: no etcd, no kube-apiserver");
        assert!(error.to_string().contains("next: install them"), "{error}");
    }

    #[test]
    fn ports_differ() {
        let [one, two, three] = free_ports().unwrap();
        assert!(one != two && two != three && three != one);
    }
}
