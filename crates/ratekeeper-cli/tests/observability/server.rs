//! `ratekeeper serve` as a child process on free ports, with helpers for requests.

use std::{
    fs,
    io::{Read, Write},
    net::{Ipv4Addr, TcpStream},
    time::Duration,
};

use ratekeeper_testkit::servers::{Process, http_get, wait_until};

pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) http: u16,
    #[cfg(feature = "otel")]
    pub(crate) grpc: u16,
    #[cfg(feature = "otel")]
    pub(crate) resp: u16,
    pub(crate) admin: u16,
    directory: tempfile::TempDir,
}

const RULES: &str = r#"
domain: shop
policies:
  - name: per-user
    match: { key: "*" }
    rules: [{ name: few, algorithm: token_bucket, limit: 3, per: 1h, on_store_failure: local }]
"#;

impl Server {
    /// Starts a server and waits until it answers.
    pub(crate) fn start(words: &[&str], environment: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let rules = directory.path().join("rules.yaml");
        fs::write(&rules, RULES).unwrap();
        let ports: Vec<u16> = (0..4).map(|_| Process::free_port()).collect();
        let mut all = vec!["serve".to_owned(), "--rules".to_owned(), rules.display().to_string()];
        for (flag, port) in ["--http", "--grpc", "--resp", "--admin"].into_iter().zip(&ports) {
            all.extend([flag.to_owned(), port.to_string()]);
        }
        all.extend(words.iter().map(|word| (*word).to_owned()));
        let mut process = Process::new(env!("CARGO_BIN_EXE_ratekeeper"), all);
        for (name, value) in environment {
            process = process.env(name, *value);
        }
        process.start();
        let server = Self {
            process,
            http: ports[0],
            #[cfg(feature = "otel")]
            grpc: ports[1],
            #[cfg(feature = "otel")]
            resp: ports[2],
            admin: ports[3],
            directory,
        };
        wait_until("the server is ready", TIMEOUT, || {
            assert!(server.process.is_running(), "it ended: {}", server.process.log());
            http_get(server.admin, "/readyz", &[]).is_ok_and(|reply| reply.status == 200)
        });
        server
    }

    /// `POST /v1/check` for this key; the whole response.
    pub(crate) fn check(&self, key: &str, headers: &[(&str, &str)]) -> String {
        self.check_as(&format!(r#""key":"{key}","cost":2"#), headers)
    }

    /// The same with these fields of the body.
    pub(crate) fn check_as(&self, fields: &str, headers: &[(&str, &str)]) -> String {
        let body = format!(r#"{{"domain":"shop",{fields}}}"#);
        let mut request = "POST /v1/check HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n".to_owned();
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
        let answer = self.send(self.http, &request);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        answer
    }

    /// Replaces the rule file; the server reloads it within a second.
    pub(crate) fn write_rules(&self, rules: &str) {
        fs::write(self.directory.path().join("rules.yaml"), rules).unwrap();
    }

    /// Sends a RESP command; the replies until the server closes the connection.
    #[cfg(feature = "otel")]
    pub(crate) fn command(&self, command: &str) -> String {
        self.send(self.resp, &format!("{command}\r\nQUIT\r\n"))
    }

    #[cfg(feature = "otel")]
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let page = self.send(self.admin, "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok()).unwrap_or_default()
    }

    fn send(&self, port: u16, words: &str) -> String {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.write_all(words.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

/// Far above any expected time, even on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);
