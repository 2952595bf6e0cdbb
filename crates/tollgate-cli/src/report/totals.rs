//! What runs came to, in words and in columns.

use std::io::{self, Write};

use super::tell;
use crate::simulate::{Gauge, Watch, told_millis};

/// Totals of one run, on standard error.
pub(crate) fn summarize(watch: &Watch) {
    let totals = &watch.totals;
    let mut words = format!(
        "policy {}: {} requests, {} allowed, {} denied, {} never; {} permits admitted",
        watch.policy, totals.requests, totals.allowed, totals.denied, totals.never, totals.permits,
    );
    for rule in &watch.rules {
        let most = match rule.gauge {
            Gauge::Window(span) => format!("fullest window of {span} {}, limit {}", rule.worst, rule.limit),
            Gauge::Held => format!("most held {}, limit {}", rule.worst, rule.limit),
        };
        words.push_str(&format!("\n  rule {}: {most}", rule.name));
        if rule.worst > 0 {
            words.push_str(&format!(", reached at {} ms", told_millis(rule.worst_at)));
        }
    }
    if watch.is_short() {
        words.push_str(&format!("\n  ({SHORT})"));
    }
    tell(&words);
}

/// Totals of several runs, one line for each rule of each policy.
pub(crate) fn compare(out: &mut impl Write, watches: &[Watch]) -> io::Result<()> {
    let mut rows = vec![COMPARED.map(str::to_owned)];
    for watch in watches {
        for (index, rule) in watch.rules.iter().enumerate() {
            let once = |text: String| if index == 0 { text } else { String::new() };
            let totals = &watch.totals;
            let (limit, fullest) = match rule.gauge {
                Gauge::Window(span) => (format!("{} per {span}", rule.limit), rule.worst.to_string()),
                Gauge::Held => (format!("{} at once", rule.limit), format!("{} held", rule.worst)),
            };
            rows.push([
                once(watch.policy.clone()),
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
    let short = watches.iter().any(Watch::is_short);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..COMPARED.len()).map(width).collect();
    for row in &rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
            // Words to the left, numbers to the right.
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

const COMPARED: [&str; 8] = ["policy", "allowed", "denied", "never", "permits", "rule", "limit", "fullest window"];
/// A count that may be too low must not pass for an exact one.
const SHORT: &str = "too many keys to watch them all: windows may have been fuller";
