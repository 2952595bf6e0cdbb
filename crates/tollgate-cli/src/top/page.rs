//! One page of `tollgate top`: as much as the terminal has room for, the busiest policies first.
//!
//! Without a terminal nothing is left out: whoever reads a file or a pipe can search it.

use std::{cmp::Reverse, collections::HashMap};

use tollgate_server::text::Escaped;

use super::{Denied, Policy, State};
use crate::report::{clipped, harmless};

/// How much fits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Screen {
    columns: usize,
    rows: usize,
}

impl Screen {
    /// That of the terminal at this moment; where it does not say, of the variables that shells set, or the usual one.
    pub(super) fn now() -> Self {
        if let Some((columns, rows)) = terminal_size::terminal_size() {
            return Self { columns: usize::from(columns.0), rows: usize::from(rows.0) };
        }
        let variable = |name: &str| std::env::var(name).ok()?.parse().ok().filter(|size| (1..=10_000).contains(size));
        Self { columns: variable("COLUMNS").unwrap_or(80), rows: variable("LINES").unwrap_or(24) }
    }
}

/// What there is to see.
pub(super) fn of(state: &State, before: Option<&State>, screen: Option<Screen>) -> String {
    let mut lines = head(state);
    let policies = policies(state, before);
    let (columns, room) = match screen {
        None => (USUAL_COLUMNS, None),
        Some(Screen { columns, rows }) => {
            // Somebody who sees nothing but mistakes sees no rates.
            lines.truncate((rows / 3).max(1));
            // The cursor stands below the last line. A table has a blank line and its header.
            let tables = if state.top_denied.is_empty() { 1 } else { 2 };
            (columns, Some(rows.saturating_sub(1 + lines.len() + 2 * tables)))
        }
    };
    let (for_policies, for_keys) = share(room, policies.len(), state.top_denied.len());
    lines.extend(policy_table(&policies, columns, for_policies));
    if !state.top_denied.is_empty() {
        lines.extend(key_table(&state.top_denied, columns, for_keys));
    }
    if let Some(Screen { columns, rows }) = screen {
        lines.truncate(rows.saturating_sub(1).max(1));
        lines = lines.iter().map(|line| clipped(line, columns)).collect();
    }
    lines.iter().flat_map(|line| [line, "\n"]).collect()
}

/// Rows for two tables: of what does not fit, the keys get a third, and what one does not need the other may have.
fn share(room: Option<usize>, policies: usize, keys: usize) -> (usize, usize) {
    let Some(room) = room else { return (policies, keys) };
    let for_keys = keys.min((room / 3).max(room.saturating_sub(policies)));
    (room - for_keys.min(room), for_keys)
}

fn head(state: &State) -> Vec<String> {
    let store = match state.store.kind.as_str() {
        "memory" => format!("memory: {} keys, {} KiB", state.store.keys, state.store.bytes / 1024),
        other => other.to_owned(),
    };
    let (up, read) = (state.uptime_seconds, state.rules.generation);
    let mut lines = vec![format!("up {up:.0} s · rules read {read} × · {store}")];
    for (is, words) in [
        (state.switches.everything_off, "EVERYTHING IS LET THROUGH: the global switch is off"),
        (state.switches.everything_watches, "nobody is refused: all rules only watch"),
    ] {
        if is {
            lines.push(words.to_owned());
        }
    }
    if let Some(failure) = &state.store.last_failure {
        lines.push(format!("the store failed {}", harmless(failure).replace('\n', " ")));
    }
    if let Some(problem) = &state.rules.problem {
        lines.push("the rule files have mistakes; older rules are in force:".to_owned());
        lines.extend(harmless(problem).lines().map(str::to_owned));
    }
    lines
}

/// A row of the first table.
struct Row {
    name: String,
    /// Per second, where there was a look before this one.
    rates: Option<[f64; 2]>,
    totals: [u64; 3],
}

/// The busiest first; those equally busy by name, as they come.
fn policies(state: &State, before: Option<&State>) -> Vec<Row> {
    let seconds = before.map_or(0.0, |before| state.uptime_seconds - before.uptime_seconds);
    let old: HashMap<(&str, &str), &Policy> = before
        .iter()
        .flat_map(|before| &before.policies)
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
    rows.sort_by_key(|(lately, row)| Reverse((*lately, row.totals[0] + row.totals[1])));
    rows.into_iter().map(|(_, row)| row).collect()
}

fn policy_table(rows: &[Row], columns: usize, room: usize) -> Vec<String> {
    const TITLES: [&str; 5] = ["allowed/s", "refused/s", "allowed", "refused", "would refuse"];
    // Where it is narrow, what rules that only watch would do is left out.
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

/// What is said of a key that no limit refused.
fn mark(denied: &Denied) -> &'static str {
    match denied.kind.as_str() {
        "banned" => "banned",
        "shadow" => "would refuse",
        _ => "",
    }
}

/// A line for each, or for as many as there is room for, and how many more there are.
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

/// A column for the longest of these, if there is room; short ones get the usual width.
fn wide_enough<'t>(texts: impl Iterator<Item = &'t str>, most: usize) -> usize {
    let longest = texts.map(|text| Escaped(text).to_string().chars().count()).max().unwrap_or(0);
    longest.max(USUAL_NAME).min(most).max(1)
}

/// Counts in a rate need no more digits than a double has.
#[allow(clippy::cast_precision_loss, reason = "shown with one decimal")]
fn as_float(count: u64) -> f64 {
    count as f64
}

/// Keys are anybody's text, and no wider than the column.
fn clip(text: &str, width: usize) -> String {
    clipped(&Escaped(text).to_string(), width)
}

/// The widest of the marks.
const MARK_WIDTH: usize = 12;
/// Without a terminal.
const USUAL_COLUMNS: usize = 101;
/// What names get where there is room.
const USUAL_NAME: usize = 40;
/// Fewer columns than this hold no name worth reading beside five numbers.
const NARROW: usize = 79;
