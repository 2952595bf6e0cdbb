//! Totals of runs, as text and as a table.

use std::io::{self, Write};

use super::stats::{Gauge, RunStats};
use crate::report::{millis, print};

/// Totals of one run, on standard error.
pub(crate) fn summarize(stats: &RunStats) {
    let totals = &stats.totals;
    let mut text = format!(
        "policy {}: {} requests, {} allowed, {} denied, {} never; {} permits admitted",
        stats.policy, totals.requests, totals.allowed, totals.denied, totals.never, totals.permits,
    );
    for rule in &stats.rules {
        let peak = match rule.gauge {
            Gauge::Window(span) => format!("fullest window of {span} {}, limit {}", rule.peak, rule.limit),
            Gauge::Held => format!("most held {}, limit {}", rule.peak, rule.limit),
        };
        text.push_str(&format!("\n  rule {}: {peak}", rule.name));
        if rule.peak > 0 {
            text.push_str(&format!(", reached at {} ms", millis(rule.peak_at)));
        }
    }
    if stats.is_short() {
        text.push_str(&format!("\n  ({SHORT})"));
    }
    print(&text);
}

/// Totals of several runs, one line per rule.
pub(crate) fn compare(out: &mut impl Write, runs: &[RunStats]) -> io::Result<()> {
    let mut rows = vec![COLUMNS.map(str::to_owned)];
    for stats in runs {
        for (index, rule) in stats.rules.iter().enumerate() {
            let once = |text: String| if index == 0 { text } else { String::new() };
            let totals = &stats.totals;
            let (limit, fullest) = match rule.gauge {
                Gauge::Window(span) => (format!("{} per {span}", rule.limit), rule.peak.to_string()),
                Gauge::Held => (format!("{} at once", rule.limit), format!("{} held", rule.peak)),
            };
            rows.push([
                once(stats.policy.clone()),
                once(totals.allowed.to_string()),
                once(totals.denied.to_string()),
                once(totals.never.to_string()),
                once(totals.permits.to_string()),
                rule.name.clone(),
                limit,
                fullest,
            ]);
        }
    }
    let short = runs.iter().any(RunStats::is_short);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..COLUMNS.len()).map(width).collect();
    for row in &rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
            // Text is aligned left, numbers right.
            0 | 5 | 6 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    if short {
        writeln!(out, "{SHORT}")?;
    }
    Ok(())
}

const COLUMNS: [&str; 8] = ["policy", "allowed", "denied", "never", "permits", "rule", "limit", "fullest window"];
/// Marks counts that are lower bounds.
const SHORT: &str = "too many keys to count them all: windows may have been fuller";
