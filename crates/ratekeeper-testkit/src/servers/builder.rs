//! Builder of a Redis or Valkey server.
//!
//! All settings are written to one `server.conf`, once. A restart reads the same file, with what the server or a sentinel
//! has rewritten in it since.

use std::{fmt::Write as _, fs, path::Path};

use super::{Acl, Binary, Certificates, ClientCertificate, FakeClock, RedisServer, ports, redis::Launch};

/// Settings of a [`RedisServer`]; made by [`RedisServer::with`].
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

    /// A line of `redis.conf`, with the value in the syntax of that file. Later lines replace earlier ones.
    pub fn config(mut self, name: &str, value: &str) -> Self {
        self.config.push((name.into(), value.into()));
        self
    }

    /// Writes every change to a file before the reply, so that a restart keeps all acknowledged changes.
    pub fn append_only(self) -> Self {
        self.config("appendonly", "yes")
    }

    /// Requires this password from the default user. [`RedisServer::url`] contains it.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Accepts only these users.
    pub fn acl(mut self, acl: Acl) -> Self {
        self.acl = Some(acl);
        self
    }

    /// Accepts only TLS, with the server certificate of `certificates`.
    pub fn tls(mut self, certificates: &Certificates, clients: ClientCertificate) -> Self {
        self.tls = Some((certificates.clone(), clients));
        self
    }

    /// Replicates another server. The caller waits until the two are in sync.
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

    /// Uses a clock that the test sets: [`RedisServer::clock`]. Of the known binaries only Valkey supports it: Debian's
    /// Redis hangs under libfaketime, because its allocator reads the clock during its own initialization.
    pub fn fake_clock(mut self) -> Self {
        assert_ne!(self.binary, Binary::Redis, "choose `Binary::Valkey` before `fake_clock`");
        self.fake_clock = true;
        self
    }

    /// Runs as a sentinel.
    pub(super) fn sentinel(mut self) -> Self {
        self.is_sentinel = true;
        self
    }

    /// Runs as a cluster node.
    pub(super) fn cluster_node(mut self) -> Self {
        self.is_cluster_node = true;
        self
    }

    /// Starts the server and waits until it answers.
    ///
    /// # Panics
    ///
    /// If it does not answer within ten seconds; the message contains the server's log.
    #[track_caller]
    pub fn start(self) -> RedisServer {
        // Another process may take a free port before the server does. A given port has no substitute.
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

    /// Writes the files of the server into its directory.
    pub(super) fn write_files(&self, home: &Path, port: u16) -> Launch {
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
        let mut line =
            |name: &str, value: &str| writeln!(conf, "{name} {value}").expect("a string accepts every write");
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
            // Replicas are synchronized at once instead of after five seconds.
            line("repl-diskless-sync-delay", "0");
        }
        if self.is_cluster_node {
            line("cluster-enabled", "yes");
            line("cluster-config-file", &in_home("nodes.conf"));
            // The default is 10000 above the port, which may be in use.
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

/// Snapshots and append-only files, which an empty restart removes. A cluster node's identity is in another file.
pub(super) const DATA: &str = "data";
/// Unix socket for the commands of the testkit.
pub(super) const SOCKET: &str = "socket";
const USERS: &str = "users.acl";
