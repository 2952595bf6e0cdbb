//! The command and its output: text or JSON.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use ratekeeper_redis::Address;
use serde::Serialize;

use super::{
    Finding, Report, Severity,
    args::{DoctorArgs, DoctorFormat},
    examine,
};
use crate::report::{CommandResult, Failure, counted};

pub(crate) fn run(args: &DoctorArgs) -> CommandResult {
    let address = Address::parse(&args.url).map_err(Failure::Address)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(examine(&address, &args.prefix))?;
    let mut out = io::stdout().lock();
    match args.format {
        DoctorFormat::Text => write_text(&mut out, &report)?,
        DoctorFormat::Json => {
            serde_json::to_writer_pretty(&mut out, &JsonReport::of(&report)).map_err(io::Error::from)?;
            writeln!(out)?;
        }
    }
    Ok(if report.worst() == Severity::Fail { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// One block for the deployment and one per server; a remedy follows its finding.
fn write_text(out: &mut impl Write, report: &Report) -> io::Result<()> {
    writeln!(out, "{}", report.address)?;
    let mut node = &None;
    for finding in &report.findings {
        if finding.node != *node {
            node = &finding.node;
            writeln!(out, "\n{}", node.as_deref().unwrap_or_default())?;
        }
        let Finding { level, check, found, change, .. } = finding;
        writeln!(out, "  {:<4}  {check:<12}  {found}", level.name())?;
        if let Some(change) = change {
            writeln!(out, "                      → {change}")?;
        }
    }
    let (fails, warns, notes) =
        (report.count(Severity::Fail), report.count(Severity::Warn), report.count(Severity::Note));
    writeln!(out, "\n{}, {}, {}", counted(fails, "failure"), counted(warns, "warning"), counted(notes, "note"))
}

/// The JSON report. Field names, levels and checks are stable; texts may change.
#[derive(Serialize)]
struct JsonReport<'a> {
    address: &'a str,
    worst: &'static str,
    findings: Vec<JsonFinding<'a>>,
}

#[derive(Serialize)]
struct JsonFinding<'a> {
    level: &'static str,
    check: &'static str,
    node: Option<&'a str>,
    found: &'a str,
    change: Option<&'a str>,
}

impl<'a> JsonReport<'a> {
    fn of(report: &'a Report) -> Self {
        let line = |finding: &'a Finding| JsonFinding {
            level: finding.level.name(),
            check: finding.check,
            node: finding.node.as_deref(),
            found: &finding.found,
            change: finding.change.as_deref(),
        };
        Self {
            address: &report.address,
            worst: report.worst().name(),
            findings: report.findings.iter().map(line).collect(),
        }
    }
}
