//! Doors that anybody can reach should be locked: which of them are not, and what would do.

use std::net::SocketAddr;

use crate::{config::ServerConfig, server::Addresses};

/// A port that strangers may reach, and what they could do there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct OpenDoor {
    pub(crate) wire: &'static str,
    pub(crate) address: SocketAddr,
    pub(crate) danger: &'static str,
}

/// Every reason to worry, port by port. Loopback is no such place.
pub(crate) fn open_doors(config: &ServerConfig, addresses: &Addresses, without_tokens: bool) -> Vec<OpenDoor> {
    let reachable = |address: Option<SocketAddr>| address.filter(|address| !address.ip().is_loopback());
    let mut open = Vec::new();
    for (wire, address) in [("http", addresses.http), ("grpc", addresses.grpc), ("resp", addresses.resp)] {
        let Some(address) = reachable(address) else { continue };
        if config.tls.is_none() {
            open.push(OpenDoor { wire, address, danger: READABLE });
        }
        if without_tokens && config.tls.as_ref().is_none_or(|tls| tls.client_ca.is_none()) {
            open.push(OpenDoor { wire, address, danger: USABLE });
        }
    }
    if let Some(address) = reachable(addresses.admin) {
        let asks_for_papers = config.admin_tls && config.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
        if config.admin_token.is_none() && !asks_for_papers {
            open.push(OpenDoor { wire: "admin", address, danger: RULED });
        } else if config.admin_token.is_some() && !(config.admin_tls && config.tls.is_some()) {
            open.push(OpenDoor { wire: "admin", address, danger: OVERHEARD });
        }
    }
    open
}

const READABLE: &str = "open to the network without TLS; use --tls-cert and --tls-key, or listen on 127.0.0.1";
const USABLE: &str = "anybody who reaches it may use up and reset limits; use --tokens or --tls-client-ca";
const RULED: &str = "anybody who reaches it may switch limits off; use --admin-token-file, or listen on 127.0.0.1";
const OVERHEARD: &str = "its token can be overheard; use --admin-tls, or listen on 127.0.0.1";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::security::{Secret, TlsFiles};

    fn at(ip: &str) -> Addresses {
        let address = |port: u16| Some(SocketAddr::new(ip.parse().unwrap(), port));
        Addresses { http: address(1), grpc: address(2), resp: address(3), admin: address(4) }
    }

    fn tls(client_ca: bool) -> Option<TlsFiles> {
        Some(TlsFiles { cert: "c".into(), key: "k".into(), client_ca: client_ca.then(|| "ca".into()) })
    }

    fn dangers(config: &ServerConfig, ip: &str, without_tokens: bool) -> Vec<(&'static str, &'static str)> {
        open_doors(config, &at(ip), without_tokens).into_iter().map(|door| (door.wire, door.danger)).collect()
    }

    #[test]
    fn on_loopback_nothing_is_open() {
        for ip in ["127.0.0.1", "127.9.9.9", "::1"] {
            assert_eq!(dangers(&ServerConfig::default(), ip, true), [], "{ip}");
        }
    }

    #[test]
    fn without_locks_every_port_is_told_by_name() {
        for ip in ["0.0.0.0", "::", "10.0.0.7"] {
            let told = dangers(&ServerConfig::default(), ip, true);
            let data = ["http", "grpc", "resp"].into_iter().flat_map(|wire| [(wire, READABLE), (wire, USABLE)]);
            assert_eq!(told, data.chain([("admin", RULED)]).collect::<Vec<_>>(), "{ip}");
        }
        let one = Addresses { grpc: None, resp: None, admin: None, ..at("0.0.0.0") };
        let told = open_doors(&ServerConfig::default(), &one, false);
        assert_eq!(told, [OpenDoor { wire: "http", address: one.http.unwrap(), danger: READABLE }]);
    }

    #[test]
    fn a_lock_that_fits_quiets_the_warning_it_is_for() {
        let secret = || Some(Secret::new("s".to_owned()));
        let encrypted = ServerConfig { tls: tls(false), admin_token: secret(), ..ServerConfig::default() };
        let data = |danger| [("http", danger), ("grpc", danger), ("resp", danger)];
        let overheard = [("admin", OVERHEARD)];
        assert_eq!(dangers(&encrypted, "0.0.0.0", true), [&data(USABLE)[..], &overheard].concat());
        assert_eq!(dangers(&encrypted, "0.0.0.0", false), overheard, "tokens lock the data ports");
        let all = ServerConfig { admin_tls: true, ..encrypted };
        assert_eq!(dangers(&all, "0.0.0.0", false), []);
        let by_papers = ServerConfig { tls: tls(true), admin_tls: true, ..ServerConfig::default() };
        assert_eq!(dangers(&by_papers, "0.0.0.0", true), [], "whoever has no certificate comes nowhere");
    }
}
