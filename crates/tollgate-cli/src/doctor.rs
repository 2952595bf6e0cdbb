//! `tollgate doctor`: a server examined, and what was found told to people or programs.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use serde::Serialize;
use tollgate_redis::{
    Address,
    doctor::{self, Finding, Level, Report},
};

use crate::{
    cli::{DoctorArgs, DoctorFormat},
    report::{Failure, Outcome, counted},
};

pub(crate) fn run(args: &DoctorArgs) -> Outcome {
    let address = Address::parse(&args.url).map_err(Failure::Address)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(doctor::examine(&address, &args.prefix)).map_err(Failure::NotReached)?;
    let mut out = io::stdout().lock();
    match args.format {
        DoctorFormat::Text => write_text(&mut out, &report)?,
        DoctorFormat::Json => {
            serde_json::to_writer_pretty(&mut out, &Page::of(&report)).map_err(io::Error::from)?;
            writeln!(out)?;
        }
    }
    Ok(if report.worst() == Level::Fail { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// A block for the whole and for each server; what to change stands below what was found.
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
    let (fails, warns, notes) = (report.count(Level::Fail), report.count(Level::Warn), report.count(Level::Note));
    writeln!(out, "\n{}, {}, {}", counted(fails, "failure"), counted(warns, "warning"), counted(notes, "note"))
}

/// The report for programs. Names of fields, levels and checks stay as they are; texts may change.
#[derive(Serialize)]
struct Page<'a> {
    address: &'a str,
    worst: &'static str,
    findings: Vec<Line<'a>>,
}

#[derive(Serialize)]
struct Line<'a> {
    level: &'static str,
    check: &'static str,
    node: Option<&'a str>,
    found: &'a str,
    change: Option<&'a str>,
}

impl<'a> Page<'a> {
    fn of(report: &'a Report) -> Self {
        let line = |finding: &'a Finding| Line {
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
