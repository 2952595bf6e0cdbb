//! Exposure check: ports that are reachable from the network without TLS or tokens, with the option that protects each.

use std::net::SocketAddr;

use super::Addresses;
use crate::config::ServerConfig;

/// A port that is reachable from the network, with one risk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ExposedPort {
    pub(crate) wire: &'static str,
    pub(crate) address: SocketAddr,
    pub(crate) warning: &'static str,
}

/// All risks by port. A port on loopback has none.
pub(crate) fn exposed_ports(config: &ServerConfig, addresses: &Addresses, without_tokens: bool) -> Vec<ExposedPort> {
    let reachable = |address: Option<SocketAddr>| address.filter(|address| !address.ip().is_loopback());
    let mut exposed = Vec::new();
    for (wire, address) in [("http", addresses.http), ("grpc", addresses.grpc), ("resp", addresses.resp)] {
        let Some(address) = reachable(address) else { continue };
        if config.tls.is_none() {
            exposed.push(ExposedPort { wire, address, warning: NO_TLS });
        }
        if without_tokens && config.tls.as_ref().is_none_or(|tls| tls.client_ca.is_none()) {
            exposed.push(ExposedPort { wire, address, warning: NO_TOKENS });
        }
    }
    if let Some(address) = reachable(addresses.admin) {
        let requires_certificate = config.admin_tls && config.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
        if config.admin_token.is_none() && !requires_certificate {
            exposed.push(ExposedPort { wire: "admin", address, warning: NO_ADMIN_TOKEN });
        } else if config.admin_token.is_some() && !(config.admin_tls && config.tls.is_some()) {
            exposed.push(ExposedPort { wire: "admin", address, warning: TOKEN_IN_CLEAR_TEXT });
        }
    }
    exposed
}

const NO_TLS: &str = "reachable from the network without TLS; use --tls-cert and --tls-key, or listen on 127.0.0.1";
const NO_TOKENS: &str = "any client that reaches the port can use up and reset limits; use --tokens or --tls-client-ca";
const NO_ADMIN_TOKEN: &str =
    "any client that reaches the port can switch limits off; use --admin-token-file, or listen on 127.0.0.1";
const TOKEN_IN_CLEAR_TEXT: &str = "the token is sent in clear text; use --admin-tls, or listen on 127.0.0.1";

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

    fn warnings(config: &ServerConfig, ip: &str, without_tokens: bool) -> Vec<(&'static str, &'static str)> {
        exposed_ports(config, &at(ip), without_tokens).into_iter().map(|port| (port.wire, port.warning)).collect()
    }

    #[test]
    fn ports_on_loopback_are_not_exposed() {
        for ip in ["127.0.0.1", "127.9.9.9", "::1"] {
            assert_eq!(warnings(&ServerConfig::default(), ip, true), [], "{ip}");
        }
    }

    #[test]
    fn every_unprotected_port_is_named() {
        for ip in ["0.0.0.0", "::", "10.0.0.7"] {
            let found = warnings(&ServerConfig::default(), ip, true);
            let data = ["http", "grpc", "resp"].into_iter().flat_map(|wire| [(wire, NO_TLS), (wire, NO_TOKENS)]);
            assert_eq!(found, data.chain([("admin", NO_ADMIN_TOKEN)]).collect::<Vec<_>>(), "{ip}");
        }
        let one = Addresses { grpc: None, resp: None, admin: None, ..at("0.0.0.0") };
        let found = exposed_ports(&ServerConfig::default(), &one, false);
        assert_eq!(found, [ExposedPort { wire: "http", address: one.http.unwrap(), warning: NO_TLS }]);
    }

    #[test]
    fn each_protection_removes_its_warning() {
        let secret = || Some(Secret::new("s".to_owned()));
        let encrypted = ServerConfig { tls: tls(false), admin_token: secret(), ..ServerConfig::default() };
        let data = |warning| [("http", warning), ("grpc", warning), ("resp", warning)];
        let clear_text = [("admin", TOKEN_IN_CLEAR_TEXT)];
        assert_eq!(warnings(&encrypted, "0.0.0.0", true), [&data(NO_TOKENS)[..], &clear_text].concat());
        assert_eq!(warnings(&encrypted, "0.0.0.0", false), clear_text, "tokens protect the data ports");
        let all = ServerConfig { admin_tls: true, ..encrypted };
        assert_eq!(warnings(&all, "0.0.0.0", false), []);
        let by_certificate = ServerConfig { tls: tls(true), admin_tls: true, ..ServerConfig::default() };
        assert_eq!(warnings(&by_certificate, "0.0.0.0", true), [], "clients need a certificate");
    }
}
