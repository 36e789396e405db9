//! Messages that make the loopback routes of a network namespace acknowledge each TCP segment at once. Pure.
//!
//! The kernel delays acknowledgements by up to 40 ms of real time, for which a sender may wait. In virtual time all
//! programs would rest while data is on its way.

/// `RTM_NEWROUTE` and `RTM_DELROUTE`.
const NEW: u16 = 24;
const DELETE: u16 = 25;

/// `NLM_F_REQUEST`, `NLM_F_REPLACE` and `NLM_F_CREATE`.
const REQUEST: u16 = 1;
const REPLACE: u16 = 0x100;
const CREATE: u16 = 0x400;

/// `RTA_DST`, `RTA_OIF`, `RTA_PRIORITY`, `RTA_PREFSRC` and `RTA_METRICS`.
const DESTINATION: u16 = 1;
const DEVICE: u16 = 4;
const PRIORITY: u16 = 6;
const SOURCE: u16 = 7;
const METRICS: u16 = 8;

/// `RTAX_QUICKACK`.
const QUICK_ACKNOWLEDGEMENT: u16 = 15;

/// The number of the loopback device in a new namespace.
const LOOPBACK: u32 = 1;

/// `AF_INET` and `AF_INET6`.
const INET: u8 = 2;
const INET6: u8 = 10;

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = [(value.len() as u16 + 4).to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn message(kind: u16, flags: u16, family: u8, prefix: u8, attributes: &[Vec<u8>]) -> Vec<u8> {
    // `struct rtmsg`: the local table (255), made by the kernel (2), for this host (254), of local addresses (2).
    let route = [family, prefix, 0, 0, 255, 2, 254, 2, 0, 0, 0, 0];
    let body = [route.to_vec(), attributes.concat()].concat();
    let mut bytes = (body.len() as u32 + 16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend((REQUEST | flags).to_ne_bytes());
    // No acknowledgement is asked for: neither a sequence number nor a port is needed.
    bytes.extend([0; 8]);
    bytes.extend(body);
    bytes
}

/// Returns the messages, each for one `send`.
pub(crate) fn quick_acknowledgements() -> Vec<Vec<u8>> {
    let metrics = attribute(METRICS, &attribute(QUICK_ACKNOWLEDGEMENT, &1_u32.to_ne_bytes()));
    let device = attribute(DEVICE, &LOOPBACK.to_ne_bytes());
    let local = |address: [u8; 4], prefix| {
        let source = attribute(SOURCE, &[127, 0, 0, 1]);
        let attributes = [attribute(DESTINATION, &address), device.clone(), source, metrics.clone()];
        message(NEW, CREATE | REPLACE, INET, prefix, &attributes)
    };
    let destination = attribute(DESTINATION, &std::net::Ipv6Addr::LOCALHOST.octets());
    // The kernel's own route has a priority that no request can name, so it is not replaced but removed.
    let removed = message(DELETE, 0, INET6, 128, &[destination.clone(), device.clone()]);
    let priority = attribute(PRIORITY, &1_u32.to_ne_bytes());
    let added = message(NEW, CREATE, INET6, 128, &[destination, device.clone(), priority, metrics.clone()]);
    vec![local([127, 0, 0, 0], 8), local([127, 0, 0, 1], 32), removed, added]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_their_lengths() {
        for message in quick_acknowledgements() {
            assert_eq!(message.len() as u32, u32::from_ne_bytes(message[..4].try_into().expect("four bytes")));
            assert_eq!(message.len() % 4, 0);
            let mut rest = &message[28..];
            while !rest.is_empty() {
                let length = usize::from(u16::from_ne_bytes([rest[0], rest[1]]));
                rest = &rest[length.next_multiple_of(4)..];
            }
        }
    }
}
