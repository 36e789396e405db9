//! A `plumbline serve` process for one test, and a minimal HTTP client that sends and receives raw bytes.

pub(crate) mod h2;

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::support;

/// Time limit of every operation; exceeding it means that the server hangs.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
pub(crate) const TOKEN: &str = "t0ken";

/// A running server; killed when dropped.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) out: BufReader<ChildStdout>,
    pub(crate) ready: String,
    pub(crate) address: SocketAddr,
    pub(crate) folder: PathBuf,
}

impl Server {
    /// Starts `plumbline serve --token …` with more flags; the log goes to a file.
    pub(crate) fn start(flags: &[&str]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("serve-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let log = std::fs::File::create(folder.join("log")).expect("a log");
        let mut child = support::program()
            .args(["serve", "--token", TOKEN, "--kubeconfig"])
            .arg(folder.join("kubeconfig"))
            .args(flags)
            .env_remove("RUST_LOG")
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("the server starts");
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut ready = String::new();
        out.read_line(&mut ready).expect("a line");
        let url = ready.split(' ').nth(1).unwrap_or_else(|| panic!("{ready:?}"));
        let address = url.split("//").nth(1).expect("a URL").parse().expect("an address");
        Self { child, out, ready, address, folder }
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).expect("the log")
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_none()
    }

    /// Peak memory of the server in MiB; 0 if the system does not report it.
    pub(crate) fn peak_mib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) / 1024
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        stream
    }

    /// Sends bytes and reads until the server closes. Ignores write errors, since the server may stop reading.
    pub(crate) fn exchange(&self, bytes: &[u8]) -> Answer {
        let mut stream = self.connect();
        let _ = stream.write_all(bytes);
        read_all(stream)
    }

    pub(crate) fn ask(&self, method: &str, path: &str, content_type: &str, body: &[u8]) -> Answer {
        self.exchange(&request(method, path, content_type, body))
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.exchange(&request("GET", path, "", b""))
    }

    /// Sends a signal, waits, and returns the exit code.
    #[cfg(unix)]
    pub(crate) fn stop(&mut self) -> Option<i32> {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill").success());
        self.child.wait().expect("an end").code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A whole request with `Connection: close`.
pub(crate) fn request(method: &str, path: &str, content_type: &str, body: &[u8]) -> Vec<u8> {
    let mut head =
        format!("{method} {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\nconnection: close\r\n");
    if !content_type.is_empty() {
        let _ = write!(head, "content-type: {content_type}\r\n");
    }
    if method != "GET" {
        let _ = write!(head, "content-length: {}\r\n", body.len());
    }
    [head.as_bytes(), b"\r\n", body].concat()
}

/// Reads until the connection ends, orderly or not.
pub(crate) fn read_all(mut stream: TcpStream) -> Answer {
    let mut bytes = Vec::new();
    let mut piece = vec![0; 65_536];
    let closed = loop {
        match stream.read(&mut piece) {
            Ok(0) => break true,
            Ok(read) => bytes.extend_from_slice(&piece[..read]),
            Err(error) => {
                break !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut);
            }
        }
    };
    assert!(closed, "the server neither answered nor closed; so far: {}", String::from_utf8_lossy(&bytes));
    Answer::new(&bytes)
}

/// A reply.
#[derive(Debug)]
pub(crate) struct Answer {
    /// 0 if no reply arrived.
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        let body = if head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
            unchunked(body)
        } else {
            body.to_owned()
        };
        Self { status, head: head.to_owned(), body }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// Returns the message of a `Status` whose code must be the HTTP status.
    pub(crate) fn refusal(&self) -> String {
        let status = self.json();
        assert_eq!((&status["kind"], &status["apiVersion"]), (&"Status".into(), &"v1".into()), "{self:?}");
        assert_eq!((&status["status"], &status["code"]), (&"Failure".into(), &self.status.into()), "{self:?}");
        status["message"].as_str().expect("a message").to_owned()
    }
}

/// Decodes a chunked body; panics if the last chunk is missing or truncated.
pub(crate) fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    loop {
        let (size, rest) = body.split_once("\r\n").unwrap_or_else(|| panic!("half a chunk: {body:?}"));
        let size = usize::from_str_radix(size, 16).expect("a size");
        let (piece, rest) = rest.split_at(size);
        body = rest.strip_prefix("\r\n").expect("the end of a chunk");
        if size == 0 {
            return whole;
        }
        whole.push_str(piece);
    }
}
