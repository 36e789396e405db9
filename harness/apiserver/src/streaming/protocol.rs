//! PURE: the WebSocket protocols of exec, attach and port-forward: their names, their channels, the frames of data and
//! the last message. Follows `staging/src/k8s.io/streaming/pkg/httpstream/wsstream/conn.go`,
//! `staging/src/k8s.io/cri-streaming/pkg/streaming/remotecommand` and
//! `staging/src/k8s.io/apiserver/pkg/util/proxy/websocket.go` of Kubernetes 1.36.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::json::{Value, json};
use crate::status::Status;

/// The first byte of the message that closes a channel, in version 5.
const CLOSE: u8 = 255;

/// The channels of exec and attach.
pub(super) const STDIN: u8 = 0;
pub(super) const STDOUT: u8 = 1;
pub(super) const STDERR: u8 = 2;
pub(super) const ERROR: u8 = 3;
/// Number of channels of exec and attach; the last one has the size of the terminal.
pub(super) const CHANNELS: u8 = 5;

/// The version of a protocol, by which exec and attach tell of their end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProtocolVersion {
    /// A text, and nothing after a success.
    First,
    /// A `Status`.
    Fourth,
    /// A `Status`; stdin can be closed.
    Fifth,
}

/// A protocol that both sides know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Protocol {
    /// The name; empty if the client names none.
    pub(super) name: &'static str,
    pub(super) version: ProtocolVersion,
    /// Messages are texts in base64.
    pub(super) is_base64: bool,
}

/// A message of a client.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// Data for a channel.
    Data(u8, Vec<u8>),
    /// The channel ends.
    Close(u8),
    /// Nothing that a channel has to know.
    Nothing,
    /// The connection ends.
    Broken,
}

const fn protocol(name: &'static str, version: ProtocolVersion, is_base64: bool) -> Protocol {
    Protocol { name, version, is_base64 }
}

/// The protocol that the API server translates.
const FIFTH: Protocol = protocol("v5.channel.k8s.io", ProtocolVersion::Fifth, false);
/// The protocols of the kubelet.
const OF_KUBELET: [Protocol; 5] = [
    protocol("", ProtocolVersion::First, false),
    protocol("channel.k8s.io", ProtocolVersion::First, false),
    protocol("base64.channel.k8s.io", ProtocolVersion::First, true),
    protocol("v4.channel.k8s.io", ProtocolVersion::Fourth, false),
    protocol("v4.base64.channel.k8s.io", ProtocolVersion::Fourth, true),
];
/// The protocols of the kubelet for forwarded ports.
const OF_PORTS: [Protocol; 3] = [OF_KUBELET[0], OF_KUBELET[3], OF_KUBELET[4]];

impl Protocol {
    /// Returns the protocol for exec and attach among those that a client names. One that names version 5 gets that.
    pub(super) fn of_commands(header: &str) -> Option<Self> {
        let wanted = names(header);
        if wanted.contains(&FIFTH.name) { Some(FIFTH) } else { first(&wanted, &OF_KUBELET) }
    }

    /// Returns the protocol for forwarded ports among those that a client names.
    pub(super) fn of_ports(header: &str) -> Option<Self> {
        first(&names(header), &OF_PORTS)
    }

    /// Reads a message of a client, for one of a number of channels.
    pub(super) fn read(self, message: &[u8], channels: u8) -> Message {
        let Some((&first, data)) = message.split_first() else { return Message::Nothing };
        if self.version == ProtocolVersion::Fifth && first == CLOSE {
            return match *data {
                [channel] if channel < channels => Message::Close(channel),
                _ => Message::Broken,
            };
        }
        let channel = if self.is_base64 { first.wrapping_sub(b'0') } else { first };
        if channel >= channels {
            return Message::Nothing;
        }
        if !self.is_base64 {
            return Message::Data(channel, data.to_owned());
        }
        BASE64.decode(data).map_or(Message::Nothing, |data| Message::Data(channel, data))
    }

    /// Writes a message for a client.
    pub(super) fn write(self, channel: u8, data: &[u8]) -> Vec<u8> {
        let mut message = vec![if self.is_base64 { b'0' + channel } else { channel }];
        if self.is_base64 {
            message.extend(BASE64.encode(data).into_bytes());
        } else {
            message.extend(data);
        }
        message
    }

    /// Returns the last message of a command; `None` if there is none.
    pub(super) fn end(self, end: &CommandEnd) -> Option<Vec<u8>> {
        match (self.version, end) {
            (ProtocolVersion::First, CommandEnd::Success) => None,
            (ProtocolVersion::First, end) => Some(end.message(self.version).into_bytes()),
            (version, end) => Some(end.status(version).to_string().into_bytes()),
        }
    }
}

/// Returns the names in a header; a client without it names the empty one.
fn names(header: &str) -> Vec<&str> {
    header.split(',').map(str::trim).collect()
}

fn first(wanted: &[&str], known: &[Protocol]) -> Option<Protocol> {
    wanted.iter().find_map(|name| known.iter().find(|known| known.name == *name).copied())
}

/// The end of exec or attach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CommandEnd {
    Success,
    /// The command ended with a code other than 0.
    Exit {
        code: i32,
        words: Vec<String>,
    },
    /// The kubelet refused the connection.
    Refused(String),
}

impl CommandEnd {
    fn message(&self, version: ProtocolVersion) -> String {
        match self {
            Self::Success => String::new(),
            Self::Exit { code, words } => {
                // The API server translates what the kubelet says; the kubelet says what containerd says.
                let why = match version {
                    ProtocolVersion::Fifth => format!("command terminated with exit code {code}"),
                    _ => format!("error executing command [{}], exit code {code}", words.join(" ")),
                };
                format!("command terminated with non-zero exit code: {why}")
            }
            Self::Refused(why) => format!("Internal error occurred: {why}"),
        }
    }

    fn status(&self, version: ProtocolVersion) -> Value {
        let message = self.message(version);
        let mut status = match self {
            Self::Success => json!({"status": "Success"}),
            Self::Exit { code, .. } => {
                let causes = json!([{"reason": "ExitCode", "message": code.to_string()}]);
                let details = json!({"causes": causes});
                json!({"status": "Failure", "message": message, "reason": "NonZeroExitCode", "details": details})
            }
            Self::Refused(why) => return Status::internal(why).to_value(),
        };
        if version == ProtocolVersion::Fifth {
            status["metadata"] = json!({});
        }
        status
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::kubectl("v5.channel.k8s.io", Some("v5.channel.k8s.io"))]
    #[case::client_go("v5.channel.k8s.io,v4.channel.k8s.io, channel.k8s.io", Some("v5.channel.k8s.io"))]
    #[case::last("v4.channel.k8s.io, v5.channel.k8s.io", Some("v5.channel.k8s.io"))]
    #[case::python("v4.channel.k8s.io", Some("v4.channel.k8s.io"))]
    #[case::order("base64.channel.k8s.io,v4.channel.k8s.io", Some("base64.channel.k8s.io"))]
    #[case::none("", Some(""))]
    #[case::unknown("v6.channel.k8s.io", None)]
    #[case::third("v3.channel.k8s.io", None)]
    fn protocols(#[case] header: &str, #[case] expected: Option<&str>) {
        assert_eq!(Protocol::of_commands(header).map(|protocol| protocol.name), expected);
    }

    #[rstest]
    #[case::kr8s("v4.channel.k8s.io", Some("v4.channel.k8s.io"))]
    #[case::kubectl("SPDY/3.1+portforward.k8s.io", None)]
    #[case::first("channel.k8s.io", None)]
    #[case::fifth("v5.channel.k8s.io", None)]
    fn protocols_of_ports(#[case] header: &str, #[case] expected: Option<&str>) {
        assert_eq!(Protocol::of_ports(header).map(|protocol| protocol.name), expected);
    }

    #[rstest]
    #[case::data("v5.channel.k8s.io", b"\x00abc", Message::Data(0, b"abc".to_vec()))]
    #[case::nothing("v5.channel.k8s.io", b"\x00", Message::Data(0, Vec::new()))]
    #[case::empty("v5.channel.k8s.io", b"", Message::Nothing)]
    #[case::close("v5.channel.k8s.io", b"\xff\x00", Message::Close(0))]
    #[case::close_unknown("v5.channel.k8s.io", b"\xff\x05", Message::Broken)]
    #[case::close_nothing("v5.channel.k8s.io", b"\xff", Message::Broken)]
    #[case::close_more("v5.channel.k8s.io", b"\xff\x00\x00", Message::Broken)]
    #[case::close_is_of_version_5("v4.channel.k8s.io", b"\xff\x00", Message::Nothing)]
    #[case::unknown_channel("v4.channel.k8s.io", b"\x05abc", Message::Nothing)]
    #[case::base64("v4.base64.channel.k8s.io", b"0YWJj", Message::Data(0, b"abc".to_vec()))]
    #[case::not_base64("v4.base64.channel.k8s.io", b"0a", Message::Nothing)]
    #[case::base64_channel("v4.base64.channel.k8s.io", b"\x00YWJj", Message::Nothing)]
    fn messages(#[case] name: &str, #[case] message: &[u8], #[case] expected: Message) {
        let protocol = Protocol::of_commands(name).expect("a protocol");
        assert_eq!(protocol.read(message, CHANNELS), expected);
    }

    #[test]
    fn written_messages() {
        assert_eq!(OF_KUBELET[3].write(STDOUT, b"abc"), b"\x01abc");
        assert_eq!(OF_KUBELET[4].write(STDOUT, b"abc"), b"1YWJj");
    }

    /// The texts of `exec.go` of the kubelet and of `streamtranslator.go` of the API server.
    #[rstest]
    #[case("v5.channel.k8s.io", CommandEnd::Success, r#"{"status":"Success","metadata":{}}"#)]
    #[case("v4.channel.k8s.io", CommandEnd::Success, r#"{"status":"Success"}"#)]
    #[case("channel.k8s.io", CommandEnd::Success, "")]
    #[case("v5.channel.k8s.io", CommandEnd::Exit { code: 3, words: vec!["sh".to_owned()] },
        r#"{"status":"Failure","message":"command terminated with non-zero exit code: command terminated with exit code 3","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]},"metadata":{}}"#)]
    #[case("v4.channel.k8s.io", CommandEnd::Exit { code: 3, words: vec!["sh".to_owned(), "-c".to_owned()] },
        r#"{"status":"Failure","message":"command terminated with non-zero exit code: error executing command [sh -c], exit code 3","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#)]
    #[case("channel.k8s.io", CommandEnd::Exit { code: 3, words: vec!["sh".to_owned()] },
        "command terminated with non-zero exit code: error executing command [sh], exit code 3")]
    fn ends(#[case] name: &str, #[case] end: CommandEnd, #[case] expected: &str) {
        let last = Protocol::of_commands(name).expect("a protocol").end(&end).unwrap_or_default();
        if expected.starts_with('{') {
            let value = |text: &[u8]| serde_json::from_slice::<serde_json::Value>(text).expect("JSON");
            assert_eq!(value(&last), value(expected.as_bytes()));
        } else {
            assert_eq!(String::from_utf8_lossy(&last), expected);
        }
    }
}
