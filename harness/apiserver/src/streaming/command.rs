//! Exec: a command of a script; attach: the lines that a container writes. Follows `exec.go` and `attach.go` of
//! `staging/src/k8s.io/cri-streaming/pkg/streaming/remotecommand` of Kubernetes 1.36.

use std::time::Duration;

use jiff::Timestamp;

use super::connection::{Gone, Receiver, Sender, UpgradedStream, close, open};
use super::protocol::{CHANNELS, CommandEnd, ERROR, Message, Protocol, STDERR, STDIN, STDOUT};
use super::script::{self, Action, ScriptStep};
use crate::container_log;
use crate::json::Value;
use crate::object_watch::ObjectWatch;
use crate::server::ApiServer;
use crate::store::ResourceId;

/// Largest part of stdin in bytes that waits for the command to read it.
const STDIN_MAX: usize = 64 << 10;
/// The exit code of a command that the end of its container has killed.
const KILLED: i32 = 137;
/// The exit code of a command that does not exist.
const NOT_FOUND: i32 = 127;

/// The container that a connection leads to.
#[derive(Clone, Debug)]
pub(super) struct ContainerRef {
    pub(super) server: ApiServer,
    pub(super) namespace: String,
    pub(super) pod: String,
    pub(super) uid: String,
    pub(super) container: String,
}

impl ContainerRef {
    /// Returns the pod if it still has the container, and the container runs.
    fn running_pod(&self) -> Option<Value> {
        let stored = self.server.get(&ResourceId::new("", "pods"), &self.namespace, &self.pod)?;
        let pod = stored.value();
        (stored.uid() == self.uid && container_log::is_running(&pod, &self.container)).then_some(pod)
    }
}

/// The streams that a client asks for.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "these are the parameters of a request")]
pub(super) struct StreamOptions {
    pub(super) stdin: bool,
    pub(super) stdout: bool,
    pub(super) stderr: bool,
    pub(super) tty: bool,
}

/// The program that runs in the container.
#[derive(Clone, Debug)]
pub(super) enum Command {
    /// The steps of a script; `None` if the script does not have the command.
    Exec { words: Vec<String>, steps: Option<Vec<ScriptStep>> },
    /// The container's own process.
    Attach,
    /// Nothing: the kubelet refuses, and says so after the upgrade.
    Refused(String),
}

/// A connection to a container.
#[derive(Clone, Debug)]
pub(super) struct CommandSession {
    pub(super) target: ContainerRef,
    pub(super) options: StreamOptions,
    pub(super) protocol: Protocol,
    pub(super) command: Command,
}

impl CommandSession {
    /// Serves the connection until the command ends or the client is gone.
    pub(super) async fn serve(self, stream: UpgradedStream) {
        let clock = self.target.server.clock();
        let (sender, receiver) = open(stream, self.protocol, CHANNELS, clock).await;
        let changes = ObjectWatch::new(&self.target.server, ResourceId::new("", "pods"));
        let stdin = Stdin { receiver, buffer: Vec::new(), is_closed: false, is_wanted: self.options.stdin };
        let mut running = RunningCommand { session: &self, sender, stdin, changes, start: clock.now() };
        if running.run().await.is_err() {
            tracing::debug!(pod = self.target.pod, "the client of a command is gone");
        }
        let RunningCommand { sender, stdin, .. } = running;
        close(sender, stdin.receiver).await;
    }
}

/// The standard input of a command.
struct Stdin {
    receiver: Receiver,
    /// The bytes that the command has not read.
    buffer: Vec<u8>,
    is_closed: bool,
    /// The command may read it; otherwise it is thrown away.
    is_wanted: bool,
}

impl Stdin {
    /// Takes the next message. Waits forever while the buffer is full, as a pipe does.
    async fn fill(&mut self) -> Result<(), Gone> {
        if self.buffer.len() >= STDIN_MAX {
            return std::future::pending().await;
        }
        match self.receiver.receive().await? {
            Message::Data(STDIN, data) if self.is_wanted && !self.is_closed => self.buffer.extend(data),
            Message::Close(STDIN) => self.is_closed = true,
            _ => {}
        }
        Ok(())
    }

    /// Returns the first line, without its end; at the end of stdin what is left.
    fn line(&mut self) -> Option<String> {
        let end = self.buffer.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
        let is_complete = end.is_some() || self.is_closed || self.buffer.len() >= STDIN_MAX;
        let length = end.unwrap_or(self.buffer.len());
        if !is_complete || self.buffer.is_empty() {
            return None;
        }
        let line: Vec<u8> = self.buffer.drain(..length).collect();
        self.buffer.drain(..usize::from(end.is_some()));
        Some(String::from_utf8_lossy(&line).into_owned())
    }
}

/// The end of the wait for the next step.
enum Wake {
    Due,
    Input,
    Killed,
}

struct RunningCommand<'s> {
    session: &'s CommandSession,
    sender: Sender,
    stdin: Stdin,
    changes: ObjectWatch,
    start: Timestamp,
}

impl RunningCommand<'_> {
    async fn run(&mut self) -> Result<(), Gone> {
        let session = self.session;
        let options = session.options;
        let first = if options.stdout {
            STDOUT
        } else if options.stderr && !options.tty {
            STDERR
        } else {
            ERROR
        };
        // An empty message tells the client that the connection is there.
        self.sender.send(first, b"").await?;
        let end = match &session.command {
            Command::Refused(why) => CommandEnd::Refused(why.clone()),
            Command::Attach => self.attach().await?,
            Command::Exec { words, steps } => match self.exec(words, steps.as_deref()).await? {
                0 => CommandEnd::Success,
                code => CommandEnd::Exit { code, words: words.clone() },
            },
        };
        match session.protocol.end(&end) {
            Some(message) => self.sender.send(ERROR, &message).await,
            None => Ok(()),
        }
    }

    async fn exec(&mut self, words: &[String], steps: Option<&[ScriptStep]>) -> Result<i32, Gone> {
        let Some(steps) = steps else {
            let command = words.join(" ");
            let why =
                format!("{command}: not found: no command like this in the annotation {}", super::annotations::EXEC);
            self.write(STDERR, &why).await?;
            return Ok(NOT_FOUND);
        };
        // Input that nothing reads is thrown away, so that it does not stop the client.
        self.stdin.is_wanted &= steps.iter().any(|step| matches!(step.action, Action::Expect(_) | Action::Copy));
        let has_stdout = self.session.options.stdout;
        for step in steps {
            if self.wait_for(step.after).await? {
                return Ok(KILLED);
            }
            match &step.action {
                Action::Stdout(line) => self.write(STDOUT, line).await?,
                Action::Bytes(bytes) if has_stdout => self.sender.send(STDOUT, bytes).await?,
                Action::Bytes(_) => {}
                Action::Stderr(line) => self.write(STDERR, line).await?,
                Action::Exit(code) => return Ok(*code),
                Action::Copy => {
                    if self.copy().await? {
                        return Ok(KILLED);
                    }
                }
                Action::Expect(pattern) => match self.next_line().await? {
                    Some(Some(line)) if script::is_expected(pattern, &line) => {}
                    Some(Some(line)) => {
                        let why =
                            format!("{line}: not found: the annotation {} has: < {pattern}", super::annotations::EXEC);
                        self.write(STDERR, &why).await?;
                        return Ok(NOT_FOUND);
                    }
                    Some(None) => return Ok(0),
                    None => return Ok(KILLED),
                },
            }
        }
        Ok(0)
    }

    /// Waits until a time after the start; returns true if the container has ended before.
    async fn wait_for(&mut self, after: Duration) -> Result<bool, Gone> {
        let at = self.start.checked_add(after).unwrap_or(Timestamp::MAX);
        loop {
            match self.wake(Some(at)).await? {
                Wake::Due => return Ok(false),
                Wake::Killed => return Ok(true),
                Wake::Input => {}
            }
        }
    }

    /// Returns the next line of stdin, `Some(None)` at its end, `None` if the container has ended.
    async fn next_line(&mut self) -> Result<Option<Option<String>>, Gone> {
        loop {
            let line = self.stdin.line();
            if line.is_some() || self.stdin.is_closed || !self.stdin.is_wanted {
                return Ok(Some(line));
            }
            if let Wake::Killed = self.wake(None).await? {
                return Ok(None);
            }
        }
    }

    /// Copies stdin to stdout; returns true if the container has ended before stdin.
    async fn copy(&mut self) -> Result<bool, Gone> {
        loop {
            let data = std::mem::take(&mut self.stdin.buffer);
            if !data.is_empty() && self.session.options.stdout {
                self.sender.send(STDOUT, &data).await?;
            }
            if self.stdin.is_closed || !self.stdin.is_wanted {
                return Ok(false);
            }
            if let Wake::Killed = self.wake(None).await? {
                return Ok(true);
            }
        }
    }

    /// Writes the lines that the container writes from now on, until it ends.
    async fn attach(&mut self) -> Result<CommandEnd, Gone> {
        self.stdin.is_wanted = false;
        let target = &self.session.target;
        let mut since = self.start;
        loop {
            let Some(pod) = target.running_pod() else { return Ok(CommandEnd::Success) };
            let now = target.server.clock().now();
            let run = container_log::run_of(&pod, &target.container, false).ok();
            let lines = run.map(|run| container_log::timed_lines(&pod, &target.container, run)).unwrap_or_default();
            for (_, line) in lines.iter().filter(|(at, _)| *at > since && *at <= now) {
                self.write(STDOUT, line).await?;
            }
            since = now;
            let next = lines.iter().map(|(at, _)| *at).find(|at| *at > now);
            if let Wake::Killed = self.wake(next).await? {
                return Ok(CommandEnd::Success);
            }
        }
    }

    /// Waits for a time, for input, or for the end of the container.
    async fn wake(&mut self, at: Option<Timestamp>) -> Result<Wake, Gone> {
        let Self { session, stdin, changes, .. } = self;
        let target = &session.target;
        let killed = async {
            while target.running_pod().is_some() {
                changes.changed().await;
            }
        };
        tokio::select! {
            biased;
            () = target.server.clock().wait_until(at) => Ok(Wake::Due),
            () = killed => Ok(Wake::Killed),
            filled = stdin.fill() => filled.map(|()| Wake::Input),
        }
    }

    /// Writes a line to a stream; with a terminal both are one.
    async fn write(&mut self, channel: u8, line: &str) -> Result<(), Gone> {
        let StreamOptions { stdout, stderr, tty, .. } = self.session.options;
        let channel = if tty { STDOUT } else { channel };
        let is_open = if channel == STDOUT { stdout } else { stderr };
        let end = if tty { "\r\n" } else { "\n" };
        if is_open { self.sender.send(channel, format!("{line}{end}").as_bytes()).await } else { Ok(()) }
    }
}
