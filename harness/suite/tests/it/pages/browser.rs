//! A headless Chromium, driven over its `DevTools` protocol.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use plumbline::time::Stopwatch;
use serde_json::{Value, json};

/// Names of the program.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// Time that the browser has for an answer.
const PATIENCE: Duration = Duration::from_mins(1);

/// A browser with one page.
pub(super) struct Browser {
    child: Child,
    requests: ChildStdin,
    messages: Receiver<Value>,
    session: Option<String>,
    last: u64,
    events: Vec<Value>,
}

impl Browser {
    /// Starts the browser; `None` if it is not installed. `profile` is an empty folder.
    pub(super) fn start(profile: &Path) -> Option<Self> {
        let paths = std::env::var_os("PATH")?;
        let found = |name: &&str| std::env::split_paths(&paths).any(|folder| folder.join(name).is_file());
        let name = NAMES.iter().find(|name| found(name))?;
        // The protocol uses the descriptors 3 and 4, which the shell connects.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 1>&2 0</dev/null", "sh", name])
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        let requests = child.stdin.take().expect("a pipe");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while output.read_until(0, &mut message).is_ok_and(|read| read > 0) {
                message.pop();
                let Ok(value) = serde_json::from_slice(&message) else { return };
                if sender.send(value).is_err() {
                    return;
                }
                message.clear();
            }
        });
        let mut browser = Self { child, requests, messages, session: None, last: 0, events: Vec::new() };
        let target = browser.call("Target.createTarget", &json!({"url": "about:blank"}));
        let target = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.call("Target.attachToTarget", &target);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        Some(browser)
    }

    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.last += 1;
        let mut message = json!({"id": self.last, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.requests.write_all(&bytes).expect("the browser runs");
        loop {
            let message = self.messages.recv_timeout(PATIENCE).expect("the browser answers");
            if message["id"] == self.last {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            self.events.push(message);
        }
    }

    /// Opens a page and waits until it is loaded.
    pub(super) fn open(&mut self, address: &str) {
        self.call("Page.navigate", &json!({"url": "about:blank"}));
        self.call("Page.navigate", &json!({"url": address}));
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'");
    }

    /// Waits until an expression is true.
    pub(super) fn wait(&mut self, expression: &str) {
        let begin = Stopwatch::start();
        while self.evaluate(expression) != true {
            assert!(begin.elapsed() < PATIENCE, "{expression} does not become true: {:?}", self.problems());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the value of an expression.
    pub(super) fn evaluate(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let result = self.call("Runtime.evaluate", &params);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {}", result["exceptionDetails"]);
        result["result"]["value"].clone()
    }

    /// Sets the size of the page and the preferred colours, which stay for all pages.
    pub(super) fn show_as(&mut self, (width, height): (u32, u32), colours: &str) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", &size);
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": colours}]});
        self.call("Emulation.setEmulatedMedia", &features);
    }

    /// Presses a key. 8 as a modifier is Shift.
    pub(super) fn press(&mut self, key: &str, modifiers: u32) {
        let code = match key {
            "Enter" => 13,
            "Escape" => 27,
            "Home" => 36,
            "ArrowRight" => 39,
            other => panic!("{other} is no known key"),
        };
        for kind in ["rawKeyDown", "keyUp"] {
            let event =
                json!({"type": kind, "key": key, "modifiers": modifiers, "windowsVirtualKeyCode": code, "code": key});
            self.call("Input.dispatchKeyEvent", &event);
        }
    }

    /// Returns a PNG of the visible part of the page.
    pub(super) fn screenshot(&mut self) -> Vec<u8> {
        let taken = self.call("Page.captureScreenshot", &json!({"format": "png"}));
        STANDARD.decode(taken["data"].as_str().expect("a picture")).expect("base64")
    }

    /// Returns everything on the console, and requests other than for the page itself.
    pub(super) fn problems(&mut self) -> Vec<String> {
        let events = std::mem::take(&mut self.events);
        let is_problem = |event: &&Value| match event["method"].as_str().unwrap_or_default() {
            "Runtime.exceptionThrown" | "Runtime.consoleAPICalled" | "Log.entryAdded" => true,
            "Network.requestWillBeSent" => {
                let address = event["params"]["request"]["url"].as_str().unwrap_or_default();
                !address.starts_with("file://") && !address.starts_with("about:")
            }
            _ => false,
        };
        events.iter().filter(is_problem).map(Value::to_string).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
