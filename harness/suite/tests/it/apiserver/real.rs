//! A real etcd and kube-apiserver on loopback, which stop when the value is dropped.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use plumbline::time::Clock;
use plumbline_suite::process::free_port;

use super::script::{Answer, Line};

const TOKEN: &str = "two-arm-test";
/// Longest start-up time of both programs.
const PATIENCE: Duration = Duration::from_mins(1);

/// The running programs; both end when it is dropped.
pub(crate) struct Cluster {
    client: kube::Client,
    programs: Vec<Child>,
    folder: PathBuf,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for program in self.programs.iter_mut().rev() {
            // They may have exited already.
            let _ = program.kill();
            let _ = program.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Starts etcd and kube-apiserver from `assets` and waits until requests are answered.
pub(crate) async fn start(assets: &Path) -> io::Result<Cluster> {
    let folder = tempfile::Builder::new().prefix("plumbline-two-arm-").tempdir()?.keep();
    let key = rcgen::KeyPair::generate().map_err(io::Error::other)?;
    fs::write(folder.join("key.pem"), key.serialize_pem())?;
    fs::write(folder.join("public.pem"), key.public_key_pem())?;
    fs::write(folder.join("tokens.csv"), format!("{TOKEN},admin,1,\"system:masters\"\n"))?;
    let etcd_port = free_port()?;
    let peer_port = free_port()?;
    let port = free_port()?;
    let etcd = format!("http://127.0.0.1:{etcd_port}");
    let peer = format!("http://127.0.0.1:{peer_port}");
    let file = |name: &str| folder.join(name).display().to_string();
    let mut programs = Vec::new();
    programs.push(run(
        &assets.join("etcd"),
        &file("etcd.log"),
        &[
            format!("--data-dir={}", file("etcd")),
            "--unsafe-no-fsync".to_owned(),
            format!("--listen-client-urls={etcd}"),
            format!("--advertise-client-urls={etcd}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
        ],
    )?);
    programs.push(run(
        &assets.join("kube-apiserver"),
        &file("apiserver.log"),
        &[
            format!("--etcd-servers={etcd}"),
            format!("--cert-dir={}", file("certs")),
            format!("--secure-port={port}"),
            "--bind-address=127.0.0.1".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={}", file("public.pem")),
            format!("--service-account-signing-key-file={}", file("key.pem")),
            format!("--token-auth-file={}", file("tokens.csv")),
            "--authorization-mode=RBAC".to_owned(),
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        ],
    )?);
    let client = client(port)?;
    let mut cluster = Cluster { client, programs, folder };
    cluster.wait().await?;
    Ok(cluster)
}

/// A pod that is admitted once the default namespace and the system's priority classes exist and the admission plugins
/// know them: on a slow machine seconds after the server reports that it is ready.
const FIRST_POD: &str = r#"{"metadata":{"name":"first"},"spec":{"containers":[{"name":"c","image":"i"}],"priorityClassName":"system-node-critical"}}"#;

fn run(program: &Path, log: &str, arguments: &[String]) -> io::Result<Child> {
    let log = fs::File::create(log)?;
    Command::new(program).args(arguments).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()
}

fn client(port: u16) -> io::Result<kube::Client> {
    let url = format!("https://127.0.0.1:{port}").parse().map_err(io::Error::other)?;
    let mut config = kube::Config::new(url);
    config.accept_invalid_certs = true;
    config.default_retry = false;
    config.auth_info.token = Some(TOKEN.to_owned().into());
    kube::Client::try_from(config).map_err(io::Error::other)
}

impl Cluster {
    async fn wait(&mut self) -> io::Result<()> {
        let clock = Clock::wall();
        let mut last = String::new();
        while clock.elapsed() < PATIENCE {
            for program in &mut self.programs {
                if let Some(status) = program.try_wait()? {
                    let log = fs::read_to_string(self.folder.join("apiserver.log")).unwrap_or_default();
                    let last = log.lines().last().unwrap_or_default();
                    return Err(io::Error::other(format!("a program ended with {status}; last words: {last}")));
                }
            }
            let request = http::Request::post("/api/v1/namespaces/default/pods?dryRun=All")
                .header(http::header::CONTENT_TYPE, "application/json")
                .body(FIRST_POD.as_bytes().to_vec())
                .map_err(io::Error::other)?;
            match self.client.request_text(request).await {
                Ok(_) => return Ok(()),
                Err(error) => last = error.to_string(),
            }
            clock.sleep(Duration::from_millis(200)).await;
        }
        Err(io::Error::other(format!("kube-apiserver is not ready after {PATIENCE:?}: {last}")))
    }

    /// Returns the reply to one line of the script.
    pub(crate) async fn ask(&self, line: &Line) -> Answer {
        let request = line.http().map(kube::client::Body::from);
        let reply = self.client.send(request).await.expect("an answer");
        let status = reply.status().as_u16();
        let warnings = reply.headers().get_all(http::header::WARNING).iter();
        let warnings = warnings.filter_map(|value| value.to_str().ok().map(str::to_owned)).collect();
        let body = reply.into_body().collect_bytes().await.expect("a whole body");
        Answer::new(status, warnings, &body)
    }
}
