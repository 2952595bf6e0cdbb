//! Process metrics, under the names that Prometheus' client libraries use: `process_…`.
//!
//! Read from `/proc` at each scrape. A value that the system does not have is left out, so that a scrape never fails.

use std::{
    fmt, fs,
    time::{Duration, SystemTime},
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};
use rustix::{
    process::{Resource, getrlimit},
    time::{ClockId, clock_gettime},
};

/// The collector of this process.
#[derive(Debug)]
pub(super) struct ProcessCollector {
    /// When the metrics were set up, within milliseconds of the start of the process.
    started: SystemTime,
}

impl Default for ProcessCollector {
    fn default() -> Self {
        Self { started: SystemTime::now() }
    }
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let cpu = ConstCounter::new(cpu_time().as_secs_f64());
        let help = "User and system processor time, in seconds";
        cpu.encode(encoder.encode_descriptor("process_cpu_seconds", help, None, MetricType::Counter)?)?;
        let started = self.started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let started = ConstGauge::new(started.as_secs_f64());
        let help = "Start of the process, in seconds since the Unix epoch";
        started.encode(encoder.encode_descriptor("process_start_time_seconds", help, None, MetricType::Gauge)?)?;
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let gauges = [
            ("process_resident_memory_bytes", "Resident memory", kibibytes(&status, "VmRSS:")),
            ("process_virtual_memory_bytes", "Virtual memory", kibibytes(&status, "VmSize:")),
            ("process_threads", "Threads", field(&status, "Threads:")),
            ("process_open_fds", "Open file descriptors", open_files()),
            ("process_max_fds", "Limit of open file descriptors", getrlimit(Resource::Nofile).current),
        ];
        for (name, help, value) in gauges {
            let Some(value) = value.and_then(|value| i64::try_from(value).ok()) else { continue };
            ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        Ok(())
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let [seconds, nanos] = [time.tv_sec, time.tv_nsec].map(|part| u64::try_from(part).unwrap_or(0));
    Duration::from_secs(seconds) + Duration::from_nanos(nanos)
}

/// The number after this name in `/proc/self/status`.
fn field(status: &str, name: &str) -> Option<u64> {
    let rest = status.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

fn kibibytes(status: &str, name: &str) -> Option<u64> {
    field(status, name)?.checked_mul(1024)
}

/// The open files, without the directory that is read to count them.
fn open_files() -> Option<u64> {
    Some((fs::read_dir("/proc/self/fd").ok()?.count() as u64).saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_status_file_are_found_by_their_whole_name() {
        let status = "Name:\tratekeeper\nVmRSSx:\t 1 kB\nVmRSS:\t    5120 kB\nThreads:\t9\n";
        assert_eq!(kibibytes(status, "VmRSS:"), Some(5120 * 1024));
        assert_eq!(field(status, "Threads:"), Some(9));
        assert_eq!((field(status, "VmSize:"), field("VmSize:\tmany", "VmSize:")), (None, None));
    }

    #[test]
    fn an_open_file_is_counted() {
        let before = open_files();
        let file = fs::File::open("/proc/self/status");
        // Other tests of the program open and close files meanwhile, so that only a lower bound is certain.
        assert!(file.is_ok() && before > Some(0) && open_files() > Some(0));
        assert!(cpu_time() > Duration::ZERO);
    }
}
