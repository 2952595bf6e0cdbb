//! What a server should be like before it starts.
//!
//! Everything ends up in one `server.conf`, written once. A restart reads the same file again, with whatever the server
//! or a sentinel has rewritten in it since, as in real life.

use std::{fmt::Write as _, fs, path::Path};

use super::{Acl, Binary, Certificates, ClientCertificate, FakeClock, RedisServer, ports, redis::Launch};

/// Choices for a [`RedisServer`]; made by [`RedisServer::with`].
#[derive(Clone, Debug, Default)]
#[must_use = "nothing runs before `start`"]
pub struct RedisBuilder {
    pub(super) binary: Binary,
    config: Vec<(String, String)>,
    pub(super) password: Option<String>,
    pub(super) acl: Option<Acl>,
    pub(super) tls: Option<(Certificates, ClientCertificate)>,
    pub(super) port: Option<u16>,
    fake_clock: bool,
    pub(super) is_sentinel: bool,
    is_cluster_node: bool,
}

impl RedisBuilder {
    /// Another server program than Redis.
    pub fn binary(mut self, binary: Binary) -> Self {
        self.binary = binary;
        self
    }

    /// A line of `redis.conf`, with the value written as it would be there. Later lines win over earlier ones.
    pub fn config(mut self, name: &str, value: &str) -> Self {
        self.config.push((name.into(), value.into()));
        self
    }

    /// Writes every change to a file before answering, so that a restart finds all that was acknowledged.
    pub fn append_only(self) -> Self {
        self.config("appendonly", "yes")
    }

    /// Demands this password of the default user. [`RedisServer::url`] then carries it.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Lets in these users only.
    pub fn acl(mut self, acl: Acl) -> Self {
        self.acl = Some(acl);
        self
    }

    /// Speaks TLS only, as the server these certificates are made for.
    pub fn tls(mut self, certificates: &Certificates, clients: ClientCertificate) -> Self {
        self.tls = Some((certificates.clone(), clients));
        self
    }

    /// Follows another server. Waiting until the two are in step is left to the caller.
    pub fn replica_of(self, primary: &RedisServer) -> Self {
        let follower = self.config("replicaof", &format!("127.0.0.1 {}", primary.port()));
        match primary.password() {
            Some(password) => follower.config("masterauth", password),
            None => follower,
        }
    }

    /// Listens on this port instead of any free one.
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Lives by a clock that the test can turn: [`RedisServer::clock`]. Of the known binaries only Valkey can; Debian's
    /// Redis hangs under libfaketime, because its allocator asks for the time before there is memory to answer with.
    pub fn fake_clock(mut self) -> Self {
        assert_ne!(self.binary, Binary::Redis, "choose `Binary::Valkey` before `fake_clock`");
        self.fake_clock = true;
        self
    }

    /// Watches over others instead of keeping data.
    pub(super) fn sentinel(mut self) -> Self {
        self.is_sentinel = true;
        self
    }

    /// Becomes part of a cluster.
    pub(super) fn cluster_node(mut self) -> Self {
        self.is_cluster_node = true;
        self
    }

    /// Starts the server and waits until it answers.
    ///
    /// # Panics
    ///
    /// When it does not within ten seconds; the message shows the server's log.
    #[track_caller]
    pub fn start(self) -> RedisServer {
        // Another process may take a free port before the server does. A port asked for by name has no substitute.
        let attempts = if self.port.is_some() { 1 } else { 5 };
        let mut failure = String::new();
        for _ in 0..attempts {
            match RedisServer::launch(&self) {
                Ok(server) => return server,
                Err(log) => failure = log,
            }
        }
        panic!("{:?} did not start: {failure}", self.binary);
    }

    /// Writes everything the server reads into its directory.
    pub(super) fn furnish(&self, home: &Path, port: u16) -> Launch {
        fs::create_dir(home.join(DATA)).expect("a fresh directory");
        let conf = home.join("server.conf");
        fs::write(&conf, self.server_conf(home, port)).expect("a fresh directory");
        if let Some(acl) = &self.acl {
            fs::write(home.join(USERS), acl.file()).expect("a fresh directory");
        }
        let mut arguments = vec![conf.into_os_string()];
        if self.is_sentinel {
            arguments.push("--sentinel".into());
        }
        let clock = self.fake_clock.then(|| FakeClock::in_directory(home));
        Launch { program: self.binary.path(), arguments, clock }
    }

    fn server_conf(&self, home: &Path, port: u16) -> String {
        let in_home = |name: &str| home.join(name).display().to_string();
        let mut conf = String::new();
        let mut line = |name: &str, value: &str| writeln!(conf, "{name} {value}").expect("strings take all");
        line("bind", "127.0.0.1");
        line("dir", &in_home(DATA));
        line("unixsocket", &in_home(SOCKET));
        match &self.tls {
            None => line("port", &port.to_string()),
            Some((certificates, clients)) => {
                line("port", "0");
                line("tls-port", &port.to_string());
                line("tls-cert-file", &certificates.server_cert().display().to_string());
                line("tls-key-file", &certificates.server_key().display().to_string());
                line("tls-ca-cert-file", &certificates.ca().display().to_string());
                line("tls-auth-clients", clients.word());
            }
        }
        if !self.is_sentinel {
            line("save", "\"\"");
            // Replicas get their first copy at once, not after waiting five seconds for others to join in.
            line("repl-diskless-sync-delay", "0");
        }
        if self.is_cluster_node {
            line("cluster-enabled", "yes");
            line("cluster-config-file", &in_home("nodes.conf"));
            // By default 10000 above the port; any free one will do.
            line("cluster-port", &ports::free().to_string());
        }
        if let Some(password) = &self.password {
            line("requirepass", password);
        }
        if self.acl.is_some() {
            line("aclfile", &in_home(USERS));
        }
        for (name, value) in &self.config {
            line(name, value);
        }
        conf
    }
}

/// What a restart without data loses: snapshots and append-only files. A cluster node's identity lies beside it.
pub(super) const DATA: &str = "data";
/// The door that only the test kit uses.
pub(super) const SOCKET: &str = "socket";
const USERS: &str = "users.acl";
