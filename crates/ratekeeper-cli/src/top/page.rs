//! Rendering of `ratekeeper top`: as many rows as the terminal has, the busiest policies first.
//!
//! Without a terminal all rows are written, because a file or a pipe can be searched.

use std::{cmp::Reverse, collections::HashMap};

use ratekeeper_server::lossy_text::Escaped;

use super::{Denied, Policy, Refusal, State};
use crate::report::{clipped, counted, escaped_lines};

/// Size of the terminal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Screen {
    columns: usize,
    rows: usize,
}

impl Screen {
    /// The current size; if the terminal does not report one, that of COLUMNS and LINES, or the default.
    pub(super) fn now() -> Self {
        if let Some((columns, rows)) = terminal_size::terminal_size() {
            return Self { columns: usize::from(columns.0), rows: usize::from(rows.0) };
        }
        let variable = |name: &str| std::env::var(name).ok()?.parse().ok().filter(|size| (1..=10_000).contains(size));
        Self { columns: variable("COLUMNS").unwrap_or(80), rows: variable("LINES").unwrap_or(24) }
    }
}

/// The whole page.
pub(super) fn of(state: &State, previous: Option<&State>, screen: Option<Screen>) -> String {
    let mut lines = head(state, previous);
    let policies = policies(state, previous);
    let (columns, room) = match screen {
        None => (DEFAULT_COLUMNS, None),
        Some(Screen { columns, rows }) => {
            // A long list of mistakes must leave room for the rates.
            lines.truncate((rows / 3).max(1));
            // The cursor is below the last line. A table has a blank line and its header.
            let tables = if state.top_denied.is_empty() { 1 } else { 2 };
            (columns, Some(rows.saturating_sub(1 + lines.len() + 2 * tables)))
        }
    };
    let (for_policies, for_keys) = share(room, policies.len(), state.top_denied.len());
    lines.extend(policy_table(&policies, columns, for_policies));
    if !state.top_denied.is_empty() {
        lines.extend(key_table(&state.top_denied, columns, for_keys));
    }
    // The rest of the screen; without one, all of them.
    if !state.recent_refusals.is_empty() {
        lines.extend(refusal_table(&state.recent_refusals, columns));
    }
    if let Some(Screen { columns, rows }) = screen {
        lines.truncate(rows.saturating_sub(1).max(1));
        lines = lines.iter().map(|line| clipped(line, columns)).collect();
    }
    lines.iter().flat_map(|line| [line, "\n"]).collect()
}

/// Divides the rows between two tables: if both do not fit, the keys get a third, and what one does not need goes to the
/// other.
fn share(room: Option<usize>, policies: usize, keys: usize) -> (usize, usize) {
    let Some(room) = room else { return (policies, keys) };
    let for_keys = keys.min((room / 3).max(room.saturating_sub(policies)));
    (room - for_keys.min(room), for_keys)
}

fn head(state: &State, previous: Option<&State>) -> Vec<String> {
    let store = match state.store.kind.as_str() {
        "memory" => format!("memory: {} keys, {} KiB", state.store.keys, state.store.bytes / 1024),
        other => other.to_owned(),
    };
    let (up, read) = (state.uptime_seconds, state.rules.generation);
    let mut lines = vec![format!("up {up:.0} s · rules read {read} × · {store}")];
    lines.extend(sources(state, previous));
    for (is_set, message) in [
        (state.switches.everything_off, "EVERYTHING IS ADMITTED: the global switch is off"),
        (state.switches.everything_shadow, "all rules are in shadow mode: nothing is refused"),
    ] {
        if is_set {
            lines.push(message.to_owned());
        }
    }
    if let Some(failure) = &state.store.last_failure {
        lines.push(format!("the store failed {}", escaped_lines(failure).replace('\n', " ")));
    }
    if let Some(problem) = &state.rules.problem {
        lines.push("the rule files have errors; the previous rules are in force:".to_owned());
        lines.extend(escaped_lines(problem).lines().map(str::to_owned));
    }
    lines
}

/// Decisions by source, per second if there is an earlier sample, and the permits that the process holds. `None` if the
/// store has decided everything and is in memory.
fn sources(state: &State, previous: Option<&State>) -> Option<String> {
    let seconds = previous.map_or(0.0, |previous| state.uptime_seconds - previous.uptime_seconds);
    let mut parts: Vec<String> = Vec::new();
    for (source, &count) in &state.sources {
        let name = Escaped(source).to_string().replace('_', " ");
        parts.push(match previous.filter(|_| seconds > 0.0) {
            Some(previous) => {
                let since = count.saturating_sub(previous.sources.get(source).copied().unwrap_or(0));
                format!("{name} {:.1}/s", as_float(since) / seconds)
            }
            None => format!("{name} {count}"),
        });
    }
    let is_plain = state.store.kind == "memory" && state.sources.keys().all(|source| source == "store");
    if parts.is_empty() || is_plain {
        return None;
    }
    let held = match &state.store.allotments {
        Some(allotments) if allotments.holders > 0 => {
            let number = |count, noun| counted(usize::try_from(count).unwrap_or(usize::MAX), noun);
            format!(" · {} of {} held", number(allotments.held, "permit"), number(allotments.holders, "key"))
        }
        _ => String::new(),
    };
    Some(format!("decided by {}{held}", parts.join(", ")))
}

/// A row of the first table.
struct Row {
    name: String,
    /// Per second, if there is an earlier sample.
    rates: Option<[f64; 2]>,
    totals: [u64; 3],
}

/// The busiest first, then by totals.
fn policies(state: &State, previous: Option<&State>) -> Vec<Row> {
    let seconds = previous.map_or(0.0, |previous| state.uptime_seconds - previous.uptime_seconds);
    let old: HashMap<(&str, &str), &Policy> = previous
        .iter()
        .flat_map(|previous| &previous.policies)
        .map(|policy| ((policy.domain.as_str(), policy.policy.as_str()), policy))
        .collect();
    let mut rows: Vec<(u64, Row)> = Vec::new();
    for policy in &state.policies {
        let refused = policy.denied + policy.never;
        let was = old.get(&(policy.domain.as_str(), policy.policy.as_str()));
        let since = was
            .filter(|_| seconds > 0.0)
            .map(|was| [policy.allowed.saturating_sub(was.allowed), refused.saturating_sub(was.denied + was.never)]);
        let row = Row {
            name: format!("{}/{}", policy.domain, policy.policy),
            rates: since.map(|counts| counts.map(|count| as_float(count) / seconds)),
            totals: [policy.allowed, refused, policy.shadow_denied],
        };
        rows.push((since.map_or(0, |[allowed, refused]| allowed + refused), row));
    }
    rows.sort_by_key(|(recent, row)| Reverse((*recent, row.totals[0] + row.totals[1])));
    rows.into_iter().map(|(_, row)| row).collect()
}

fn policy_table(rows: &[Row], columns: usize, room: usize) -> Vec<String> {
    const TITLES: [&str; 5] = ["allowed/s", "refused/s", "allowed", "refused", "would refuse"];
    // A narrow terminal leaves out the column of shadow denials.
    let widths: &[usize] = if columns >= NARROW { &[10, 10, 12, 12, 12] } else { &[9, 9, 9, 9] };
    let taken: usize = widths.iter().map(|width| width + 1).sum();
    let names = rows.iter().map(|row| row.name.as_str());
    let name_width = wide_enough(names, columns.saturating_sub(taken));
    let line = |name: &str, cells: [String; 5]| {
        let cells = cells.iter().zip(widths).map(|(cell, width)| format!(" {cell:>width$}"));
        format!("{:<name_width$}{}", clip(name, name_width), cells.collect::<String>())
    };
    let mut lines = vec![String::new(), line("policy", TITLES.map(str::to_owned))];
    lines.extend(cut(rows, room, |row| {
        let [allowed, refused] =
            row.rates.map_or(["-".to_owned(), "-".to_owned()], |it| it.map(|it| format!("{it:.1}")));
        let [all_allowed, all_refused, would_refuse] = row.totals.map(|total| total.to_string());
        line(&row.name, [allowed, refused, all_allowed, all_refused, would_refuse])
    }));
    lines
}

fn key_table(denied: &[Denied], columns: usize, room: usize) -> Vec<String> {
    let policy = |denied: &Denied| format!("{}/{}", denied.domain, denied.policy);
    let policies: Vec<String> = denied.iter().map(policy).collect();
    let is_marked = denied.iter().any(|denied| !mark(denied).is_empty());
    let half = columns.saturating_sub(if is_marked { 12 + 1 + MARK_WIDTH } else { 12 }) / 2;
    let key_width = wide_enough(denied.iter().map(|denied| denied.key.as_str()), half);
    let policy_width = wide_enough(policies.iter().map(String::as_str), half);
    let line = |key: &str, policy: &str, refused: &str, mark: &str| {
        let (key, policy) = (clip(key, key_width), clip(policy, policy_width));
        let line = format!("{key:<key_width$} {policy:<policy_width$} {refused:>10} {mark}");
        line.trim_end().to_owned()
    };
    let mut lines = vec![String::new(), line("refused most", "policy", "refused", "")];
    lines.extend(cut(denied, room, |denied| {
        line(&denied.key, &policy(denied), &denied.denied.to_string(), mark(denied))
    }));
    lines
}

/// The latest refusals with their reasons.
fn refusal_table(refusals: &[Refusal], columns: usize) -> Vec<String> {
    let third = columns.saturating_sub(10) / 3;
    let policies: Vec<String> = refusals.iter().map(|one| format!("{}/{}", one.domain, one.policy)).collect();
    let width = |texts: Vec<&str>| {
        let longest = texts.into_iter().map(|text| Escaped(text).to_string().chars().count()).max().unwrap_or(0);
        longest.clamp(6, third.max(6))
    };
    let key_width = width(refusals.iter().map(|one| one.key.as_str()).collect());
    let policy_width = width(policies.iter().map(String::as_str).collect());
    let line = |ago: &str, key: &str, policy: &str, reason: &str| {
        let (key, policy) = (clip(key, key_width), clip(policy, policy_width));
        format!("{ago:>10} {key:<key_width$} {policy:<policy_width$} {}", Escaped(reason)).trim_end().to_owned()
    };
    let mut lines = vec![String::new(), line("refused", "key", "policy", "reason")];
    for (one, policy) in refusals.iter().zip(&policies) {
        let mark = if one.kind == "shadow" { "would refuse: " } else { "" };
        lines.push(line(&format!("{:.1} s ago", one.seconds_ago), &one.key, policy, &format!("{mark}{}", one.reason)));
    }
    lines
}

/// Marks a key that was banned, or would be refused by a shadow rule.
fn mark(denied: &Denied) -> &'static str {
    match denied.kind.as_str() {
        "banned" => "banned",
        "shadow" => "would refuse",
        _ => "",
    }
}

/// One line each for as many as fit, then the number of those left out.
fn cut<T>(all: &[T], room: usize, line: impl Fn(&T) -> String) -> Vec<String> {
    if all.len() <= room {
        return all.iter().map(line).collect();
    }
    let shown = room.saturating_sub(1);
    let mut lines: Vec<String> = all.iter().take(shown).map(line).collect();
    if room > 0 {
        lines.push(format!("… and {} more", all.len() - shown));
    }
    lines
}

/// Width for the longest of these texts, at least the default and at most `max`.
fn wide_enough<'t>(texts: impl Iterator<Item = &'t str>, max: usize) -> usize {
    let longest = texts.map(|text| Escaped(text).to_string().chars().count()).max().unwrap_or(0);
    longest.max(DEFAULT_NAME_WIDTH).min(max).max(1)
}

/// A rate needs no more digits than a double has.
#[allow(clippy::cast_precision_loss, reason = "shown with one decimal")]
fn as_float(count: u64) -> f64 {
    count as f64
}

/// Keys are untrusted text: escaped, and cut to the column.
fn clip(text: &str, width: usize) -> String {
    clipped(&Escaped(text).to_string(), width)
}

/// The widest of the marks.
const MARK_WIDTH: usize = 12;
/// Width without a terminal.
const DEFAULT_COLUMNS: usize = 101;
/// Default width of names.
const DEFAULT_NAME_WIDTH: usize = 40;
/// With fewer columns than this, five numbers leave no room for a name.
const NARROW: usize = 79;

#[cfg(test)]
mod tests;
