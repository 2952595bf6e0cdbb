//! Parser of addresses. No URL library accepts several hosts.
//!
//! Ambiguous addresses are refused. A raw `/` or `?` before the last `@` may belong to a password, or the `@` to a path
//! or an option: the error then quotes none of it.
//! Every other error quotes only text that follows the last `@`.

use super::{Address, AddressError, Credentials, HostPort, Identity, TlsFiles, Topology};

pub(super) fn parse(text: &str) -> Result<Address, AddressError> {
    let scheme = Scheme::of(text)?;
    if scheme.rest.rsplit_once('@').is_some_and(|(before, _)| before.contains(['/', '?'])) {
        return Err(AddressError::UnclearLogin);
    }
    let (rest, options) = scheme.rest.split_once('?').unwrap_or((scheme.rest, ""));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    // The last @, in case the password has one too.
    let (login, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
    let hosts = read_hosts(hosts, scheme.kind.default_port())?;
    let mut options = Options::read(options)?;
    let path = decode(path, "the path")?;

    let sentinel_login = options.sentinel_login()?;
    let (topology, database) = match scheme.kind {
        Kind::Standalone => match <[_; 1]>::try_from(hosts) {
            Ok([host]) => (Topology::Standalone(host), read_database(&path)?),
            Err(hosts) => return Err(AddressError::SeveralHosts { found: hosts.len() }),
        },
        Kind::Sentinel => {
            let (name, database) = path.split_once('/').unwrap_or((&path, ""));
            if name.is_empty() {
                return Err(AddressError::NoPrimaryName);
            }
            let credentials = sentinel_login.clone().unwrap_or_default();
            let topology = Topology::Sentinel { sentinels: hosts, primary_name: name.into(), credentials };
            (topology, read_database(database)?)
        }
        Kind::Cluster if !path.is_empty() => return Err(AddressError::ClusterPath { found: path }),
        Kind::Cluster => (Topology::Cluster { seeds: hosts }, 0),
    };
    if sentinel_login.is_some() && scheme.kind != Kind::Sentinel {
        return Err(AddressError::Useless { name: "sentinel_password", why: "only redis+sentinel:// has sentinels" });
    }
    let tls = options.tls(scheme.is_tls)?;
    Ok(Address { topology, credentials: read_login(login)?, database, tls })
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Kind {
    Standalone,
    Sentinel,
    Cluster,
}

impl Kind {
    fn default_port(self) -> u16 {
        if self == Self::Sentinel { 26379 } else { 6379 }
    }
}

struct Scheme<'a> {
    kind: Kind,
    is_tls: bool,
    rest: &'a str,
}

impl<'a> Scheme<'a> {
    fn of(text: &'a str) -> Result<Self, AddressError> {
        // Without `://` the text may be a password in the wrong place; before an `@`, a part of one.
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(AddressError::Scheme { found: String::new() });
        };
        let (kind, is_tls) = match scheme {
            "redis" => (Kind::Standalone, false),
            "rediss" => (Kind::Standalone, true),
            "redis+sentinel" => (Kind::Sentinel, false),
            "rediss+sentinel" => (Kind::Sentinel, true),
            "redis+cluster" => (Kind::Cluster, false),
            "rediss+cluster" => (Kind::Cluster, true),
            other => {
                let is_plain = other.len() <= LONGEST_SCHEME && other.bytes().all(is_of_scheme) && !text.contains('@');
                return Err(AddressError::Scheme {
                    found: if is_plain { format!("{other}://") } else { String::new() },
                });
            }
        };
        Ok(Self { kind, is_tls, rest })
    }
}

/// Longer than any scheme in use, `redis+sentinel` among them.
const LONGEST_SCHEME: usize = 20;

fn is_of_scheme(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)
}

fn read_hosts(hosts: &str, default_port: u16) -> Result<Vec<HostPort>, AddressError> {
    if hosts.is_empty() {
        return Err(AddressError::NoHost);
    }
    let one = |host: &str| {
        HostPort::parse(host, default_port).ok_or_else(|| AddressError::Host { found: quotable(host).into() })
    };
    hosts.split(',').map(one).collect()
}

/// A host with a port of digits, else nothing: `user:password` without its `@host` looks like a host, too.
fn quotable(host: &str) -> &str {
    let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    match host.rsplit_once(':') {
        Some((name, port)) if is_name(name) && !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => {
            host
        }
        _ => "",
    }
}

fn read_login(login: &str) -> Result<Credentials, AddressError> {
    let (user, password) = match login.split_once(':') {
        Some((user, password)) => (decode(user, "the user")?, Some(decode(password, "the password")?)),
        None => (decode(login, "the user")?, None),
    };
    let user = Some(user).filter(|user| !user.is_empty());
    let password = password.filter(|password| !password.is_empty());
    match (user, password) {
        (Some(_), None) => Err(AddressError::NoPassword),
        (user, password) => Ok(Credentials { user, password }),
    }
}

fn read_database(path: &str) -> Result<u32, AddressError> {
    let (database, more) = path.split_once('/').unwrap_or((path, ""));
    if !more.is_empty() {
        return Err(AddressError::LongPath { found: more.into() });
    }
    match database {
        "" => Ok(0),
        // `parse` would accept a sign.
        digits if digits.starts_with('+') => Err(AddressError::Database { found: digits.into() }),
        digits => digits.parse().map_err(|_| AddressError::Database { found: digits.into() }),
    }
}

#[derive(Default)]
struct Options {
    ca: Option<String>,
    cert: Option<String>,
    key: Option<String>,
    sentinel_user: Option<String>,
    sentinel_password: Option<String>,
}

impl Options {
    fn read(text: &str) -> Result<Self, AddressError> {
        let mut options = Self::default();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let option = match name {
                "ca" => &mut options.ca,
                "cert" => &mut options.cert,
                "key" => &mut options.key,
                "sentinel_user" => &mut options.sentinel_user,
                "sentinel_password" => &mut options.sentinel_password,
                // A raw & inside the sentinels' password: what follows it is no name.
                _ if options.sentinel_password.is_some() => return Err(AddressError::Option { found: String::new() }),
                other => return Err(AddressError::Option { found: other.into() }),
            };
            if option.replace(decode(value, "an option")?).is_some() {
                return Err(AddressError::Twice { name: name.into() });
            }
        }
        Ok(options)
    }

    fn sentinel_login(&mut self) -> Result<Option<Credentials>, AddressError> {
        match (self.sentinel_user.take(), self.sentinel_password.take()) {
            (None, None) => Ok(None),
            (Some(_), None) => Err(AddressError::NoPassword),
            (user, password) => Ok(Some(Credentials { user, password })),
        }
    }

    fn tls(self, is_tls: bool) -> Result<Option<TlsFiles>, AddressError> {
        let useless = |name, why| Err(AddressError::Useless { name, why });
        if !is_tls {
            let given = [("ca", &self.ca), ("cert", &self.cert), ("key", &self.key)];
            return match given.into_iter().find(|(_, value)| value.is_some()) {
                Some((name, _)) => useless(name, "it is about TLS, which rediss:// speaks and redis:// does not"),
                None => Ok(None),
            };
        }
        let identity = match (self.cert, self.key) {
            (None, None) => None,
            (Some(cert), Some(key)) => Some(Identity { cert: cert.into(), key: key.into() }),
            (Some(_), None) => return useless("cert", "its private key is missing; add key=FILE"),
            (None, Some(_)) => return useless("key", "its certificate is missing; add cert=FILE"),
        };
        Ok(Some(TlsFiles { ca: self.ca.map(Into::into), identity }))
    }
}

/// Decodes percent-encoding.
fn decode(text: &str, place: &'static str) -> Result<String, AddressError> {
    let broken = || AddressError::Percent { place };
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
                let (high, low) = (digit().ok_or_else(broken)?, digit().ok_or_else(broken)?);
                u8::try_from(high * 16 + low).map_err(|_| broken())?
            }
            plain => plain,
        });
    }
    String::from_utf8(bytes).map_err(|_| broken())
}
