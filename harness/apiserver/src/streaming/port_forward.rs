//! Port-forward: a connection to the address that the annotation `plumbline.dev/port-forward.PORT` of the pod names,
//! for each port. Follows `staging/src/k8s.io/cri-streaming/pkg/streaming/portforward/websocket.go` of Kubernetes 1.36.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::connection::{UpgradedStream, close, open};
use super::protocol::{Message, Protocol};
use crate::clock::Clock;
use crate::request::Query;

/// Largest number of ports of a connection. Each has two channels, whose numbers are bytes.
const PORTS_MAX: usize = 64;
/// Size of a piece in bytes.
const PIECE: usize = 32 << 10;
/// Number of pieces that wait in each direction.
const WAITING: usize = 4;

/// A port of a pod.
#[derive(Clone, Debug)]
pub(super) struct ForwardedPort {
    pub(super) port: u16,
    /// The address that it leads to.
    pub(super) address: Option<String>,
}

/// A connection to ports of a pod.
#[derive(Clone, Debug)]
pub(super) struct PortSession {
    pub(super) protocol: Protocol,
    pub(super) ports: Vec<ForwardedPort>,
    pub(super) pod: String,
    pub(super) uid: String,
    pub(super) clock: Clock,
}

/// The reason why a request does not name ports.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum PortsError {
    #[error("query parameter \"ports\" is required")]
    Missing,
    #[error("query parameter \"ports\" cannot be empty")]
    Empty,
    #[error("unable to parse {0:?} as a port")]
    NotNumber(String),
    #[error("port {0:?} must be > 0")]
    Zero(String),
    #[error("at most {PORTS_MAX} ports can be forwarded by one connection")]
    TooMany,
}

/// Returns the ports that a request names: `NewV4Options`.
pub(super) fn ports_of(query: &Query) -> Result<Vec<u16>, PortsError> {
    let mut ports = Vec::new();
    for text in query.all("ports") {
        if text.is_empty() {
            return Err(PortsError::Empty);
        }
        for part in text.split(',') {
            match part.parse() {
                Ok(0) => return Err(PortsError::Zero(text.to_owned())),
                Ok(port) => ports.push(port),
                Err(_) => return Err(PortsError::NotNumber(text.to_owned())),
            }
        }
    }
    match ports.len() {
        0 => Err(PortsError::Missing),
        1..=PORTS_MAX => Ok(ports),
        _ => Err(PortsError::TooMany),
    }
}

/// Messages for the client, each with its channel.
type Outgoing = mpsc::Sender<(u8, Vec<u8>)>;

impl PortSession {
    /// Serves the connection until all ports are closed or the client is gone.
    pub(super) async fn serve(self, stream: UpgradedStream) {
        let channels = u8::try_from(self.ports.len() * 2).unwrap_or(u8::MAX);
        let (mut sender, mut receiver) = open(stream, self.protocol, channels, &self.clock).await;
        let (outgoing, mut messages) = mpsc::channel(WAITING);
        let mut incoming = Vec::new();
        let mut tasks = JoinSet::new();
        for (data, port) in (0..).step_by(2).zip(&self.ports) {
            let (pieces, received) = mpsc::channel(WAITING);
            incoming.push(pieces);
            tasks.spawn(forward(self.clone(), port.clone(), data, outgoing.clone(), received));
        }
        drop(outgoing);
        let write = async {
            while let Some((channel, data)) = messages.recv().await {
                if sender.send(channel, &data).await.is_err() {
                    return;
                }
            }
        };
        let read = async {
            while let Ok(message) = receiver.receive().await {
                let Message::Data(channel, data) = message else { continue };
                let port = incoming.get(usize::from(channel / 2)).filter(|_| channel % 2 == 0);
                if let Some(port) = port {
                    // A port that is closed takes nothing.
                    let _ = port.send(data).await;
                }
            }
        };
        tokio::select! {
            biased;
            () = write => {}
            () = read => {}
        }
        tasks.abort_all();
        close(sender, receiver).await;
    }
}

/// Connects a port and copies in both directions until one of them ends.
async fn forward(
    session: PortSession,
    port: ForwardedPort,
    data: u8,
    outgoing: Outgoing,
    received: mpsc::Receiver<Vec<u8>>,
) {
    // Each channel begins with the port.
    for channel in [data, data + 1] {
        if outgoing.send((channel, port.port.to_le_bytes().to_vec())).await.is_err() {
            return;
        }
    }
    if let Err(error) = copy(&port, data, &outgoing, received).await {
        let PortSession { pod, uid, .. } = session;
        let why = format!("error forwarding port {} to pod {pod}, uid {uid}: {error}", port.port);
        let _ = outgoing.send((data + 1, why.into_bytes())).await;
    }
}

async fn copy(
    port: &ForwardedPort,
    data: u8,
    outgoing: &Outgoing,
    mut received: mpsc::Receiver<Vec<u8>>,
) -> std::io::Result<()> {
    let Some(address) = &port.address else {
        let why = format!("the pod has no annotation {}.{}", super::annotations::PORT_FORWARD, port.port);
        return Err(std::io::Error::other(why));
    };
    let (mut reader, mut writer) = TcpStream::connect(address).await?.into_split();
    let to_pod = async {
        while let Some(piece) = received.recv().await {
            writer.write_all(&piece).await?;
        }
        Ok::<(), std::io::Error>(())
    };
    let to_client = async {
        let mut piece = vec![0; PIECE];
        loop {
            let length = reader.read(&mut piece).await?;
            if length == 0 || outgoing.send((data, piece[..length].to_vec())).await.is_err() {
                return Ok(());
            }
        }
    };
    tokio::select! {
        biased;
        copied = to_client => copied,
        copied = to_pod => copied,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("ports=80", Ok(vec![80]))]
    #[case("ports=80,81&ports=82", Ok(vec![80, 81, 82]))]
    #[case("", Err(PortsError::Missing))]
    #[case("ports=", Err(PortsError::Empty))]
    #[case("ports=80,", Err(PortsError::NotNumber("80,".to_owned())))]
    #[case("ports=70000", Err(PortsError::NotNumber("70000".to_owned())))]
    #[case("ports=0", Err(PortsError::Zero("0".to_owned())))]
    fn ports(#[case] query: &str, #[case] expected: Result<Vec<u16>, PortsError>) {
        assert_eq!(ports_of(&Query::parse(query)), expected);
    }

    #[test]
    fn ports_have_a_limit() {
        assert_eq!(ports_of(&Query::parse(&format!("ports=1{}", ",1".repeat(64)))), Err(PortsError::TooMany));
    }
}
