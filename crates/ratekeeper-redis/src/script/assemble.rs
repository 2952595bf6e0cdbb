//! Template engine of the scripts: a template (`take.lua`, `merge.lua`, `allot.lua`, `amend.lua`, `charge.lua`) and the sections of its rules'
//! algorithms become the script of one shape.
//!
//! | in a Lua file | becomes |
//! |---|---|
//! | `--@ parties` … `--@ end` | its lines, once per key |
//! | `--@ rules` … `--@ end` | its lines, once per rule of the key |
//! | `--@ if condition` … `--@ else` … `--@ end` | its lines, if the condition holds for the rule, the key or the shape |
//! | `--@ do name` | the section of that name in the algorithm's file, or in its base |
//! | `--@ include name` | the lines of another file |
//! | `--@ numbers names \| names` | unpacks the numbers of the call; those after the bar only if there is no quick section |
//! | `--@ other numbers` | unpacks the numbers after the bar, after a quick section |
//! | `--@ owed` | unpacks the permits of a charge, per rule |
//! | `--@ runs` | sets `place` to the position of the runs of a merged call |
//! | `--@ declare state` | declares the variables of the key's rules |
//! | `$name`, `@name`, `@@` | the rule's variable, the key's variable, the key's number |
//! | `<<name>>` | a placeholder, see `placeholders.rs` |
//!
//! A rule's variables are numbered locals. Lua allows 200 of them; with more rules they are fields of a table.

mod numbers;
mod placeholders;

use std::{collections::HashSet, fmt::Write};

use super::{
    inline::{imports, rounded},
    piece::{Kind, Piece},
    shape::{Shape, has_fields, is_additive, is_lone_log, is_plain, passes_lease_id},
    source::{Source, shared},
};

/// The text of a script for requests without terms.
pub(super) fn assemble(template: &'static str, shape: &Shape) -> String {
    assemble_for(template, shape, false)
}

/// The text of a script, for requests with terms or without.
pub(super) fn assemble_for(template: &'static str, shape: &Shape, has_terms: bool) -> String {
    let reads_ahead = is_plain(shape) && template.contains("--@ if plain");
    let mut writer = Writer {
        shape,
        fields: has_fields(shape),
        reads_ahead,
        has_terms,
        left: Default::default(),
        taken: 0,
        out: String::new(),
    };
    let lines: Vec<&str> = template.lines().collect();
    writer.block(&lines, Scope::default());
    let body = rounded(&format!("{}{}", prelude(shape), writer.out));
    format!("#!lua\n{}{body}", imports(&body))
}

/// The key and the rule that a line is written for.
#[derive(Clone, Copy, Default)]
struct Scope {
    /// The key, counted from 0.
    party: Option<usize>,
    /// The rule: its number in the whole shape, counted from 0.
    rule: Option<(usize, Piece)>,
}

struct Writer<'a> {
    shape: &'a Shape,
    /// Whether variables are fields of a table.
    fields: bool,
    /// Whether the quick section has read the key before the general section begins.
    reads_ahead: bool,
    /// Whether the requests have terms: an id or a least cost.
    has_terms: bool,
    /// Numbers that are not unpacked yet, and how many precede them.
    left: (Vec<String>, usize),
    /// Numbers that are unpacked.
    taken: usize,
    out: String,
}

impl Writer<'_> {
    fn block(&mut self, lines: &[&str], scope: Scope) {
        let mut next = 0;
        while let Some(line) = lines.get(next) {
            next += 1;
            let Some(order) = line.trim_start().strip_prefix("--@ ") else {
                self.line(line, scope);
                continue;
            };
            let (order, what) = order.split_once(' ').unwrap_or((order, ""));
            match order {
                "parties" | "rules" | "if" => {
                    let (inside, otherwise, after) = split_block(lines, next);
                    next = after;
                    match order {
                        "parties" => self.parties(inside),
                        "rules" => self.rules(inside, scope),
                        _ if self.holds(what, scope) => self.block(inside, scope),
                        _ => self.block(otherwise, scope),
                    }
                }
                "do" => {
                    if let Some((_, piece)) = scope.rule {
                        self.block(Source::section(piece.kind, what), scope);
                    }
                }
                "include" => {
                    let lines: Vec<&str> = shared(what).lines().collect();
                    self.block(&lines, scope);
                }
                "declare" => self.declare(scope),
                "numbers" => self.numbers(what),
                "other" => self.other_numbers(),
                "owed" => self.owed(),
                "runs" => self.runs(),
                _ => {}
            }
        }
    }

    fn parties(&mut self, lines: &[&str]) {
        for party in 0..self.shape.len() {
            self.block(lines, Scope { party: Some(party), rule: None });
        }
    }

    fn rules(&mut self, lines: &[&str], scope: Scope) {
        for rule in self.rules_of(scope) {
            self.block(lines, Scope { rule: Some(rule), ..scope });
        }
    }

    /// The rules of a key, with their numbers in the whole shape.
    fn rules_of(&self, scope: Scope) -> Vec<(usize, Piece)> {
        let party = scope.party.unwrap_or(0);
        let before: usize = self.shape.iter().take(party).map(Vec::len).sum();
        let rules = self.shape.get(party).map_or(&[][..], Vec::as_slice);
        rules.iter().enumerate().map(|(index, piece)| (before + index, *piece)).collect()
    }

    fn holds(&self, condition: &str, scope: Scope) -> bool {
        let rules = || self.rules_of(scope).len();
        match (condition, scope.rule) {
            ("enforcing", Some((_, piece))) => !piece.shadow,
            ("counting", Some((_, piece))) => piece.counts_refused,
            ("list", Some((_, piece))) => !piece.kind.is_meter(),
            ("local", Some((_, piece))) => piece.kind == Kind::Local,
            ("leases", Some((_, piece))) => piece.kind == Kind::Leases,
            ("auto block", Some((_, piece))) => piece.kind == Kind::AutoBlock,
            // A rule that limits, of a key with an automatic block.
            ("denials", Some((_, piece))) => {
                let of_key = self.rules_of(Scope { rule: None, ..scope });
                piece.kind != Kind::AutoBlock && of_key.iter().any(|(_, piece)| piece.kind == Kind::AutoBlock)
            }
            ("auto block", None) => self.rules_of(scope).iter().any(|(_, piece)| piece.kind == Kind::AutoBlock),
            ("prepaid", _) => self.rules_of(scope).iter().any(|(_, piece)| piece.prepaid),
            ("counting", None) => self.rules_of(scope).iter().any(|(_, piece)| piece.counts_refused),
            ("uncounted", _) => !self.shape.iter().flatten().any(|piece| piece.counts_refused),
            ("lone log", _) => is_lone_log(self.shape),
            ("plain", _) => is_plain(self.shape),
            ("additive", _) => is_additive(self.shape),
            ("terms", _) => self.has_terms,
            ("leasing", _) => passes_lease_id(self.shape),
            ("several", _) => self.shape.len() > 1,
            ("unread", _) => !self.reads_ahead,
            ("alone", _) => rules() == 1,
            ("empty", _) => rules() == 0,
            _ => false,
        }
    }

    /// Writes one line of code. Comments are left out, because the text is sent to the server.
    fn line(&mut self, line: &str, scope: Scope) {
        let mut line = line.trim();
        if line.is_empty() || line.starts_with("--") {
            return;
        }
        if self.fields && (line.starts_with("local @") || line.starts_with("local $")) {
            line = &line["local ".len()..];
            if !line.contains('=') {
                return;
            }
        }
        let line = self.filled(line, scope);
        let line = self.numbered(&line, scope);
        self.out.push_str(&line);
        self.out.push('\n');
    }

    /// Declares the variables of a key's rules, in their initial state.
    fn declare(&mut self, scope: Scope) {
        for rule in self.rules_of(scope) {
            let scope = Scope { rule: Some(rule), ..scope };
            let kind = rule.1.kind;
            if !self.fields {
                let works = Source::of(kind).works.iter().map(|name| self.numbered(&format!("${name}"), scope));
                let unseen = if kind.is_meter() { " = 0, 0" } else { "" };
                let works: Vec<String> = works.collect();
                let _ = writeln!(self.out, "local {}{unseen}", works.join(", "));
            } else if kind.is_meter() {
                self.line("$at, $used = 0, 0", scope);
            }
            self.block(Source::section(kind, "unseen"), scope);
        }
    }

    /// Replaces `$name` and `@name` by the variables of this rule and key.
    fn numbered(&self, line: &str, scope: Scope) -> String {
        let table = if self.fields { "v." } else { "" };
        let mut out = String::with_capacity(line.len() + 16);
        let mut rest = line;
        while let Some(mark) = rest.find(['$', '@']) {
            let (before, name) = rest.split_at(mark);
            out.push_str(before);
            let number = match (name.starts_with('$'), scope) {
                (true, Scope { rule: Some((rule, _)), .. }) => rule + 1,
                (false, Scope { party: Some(party), .. }) => party + 1,
                _ => 0,
            };
            if let Some(after) = name.strip_prefix("@@") {
                let _ = write!(out, "{number}");
                rest = after;
                continue;
            }
            let name = &name[1..];
            let length = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
            let _ = write!(out, "{table}{}_{number}", &name[..length]);
            rest = &name[length..];
        }
        out.push_str(rest);
        out
    }
}

/// From the line after a block's start: its lines, those of its `else`, and the position after its end.
fn split_block<'l, 's>(lines: &'l [&'s str], from: usize) -> (&'l [&'s str], &'l [&'s str], usize) {
    let (mut depth, mut middle) = (0, None);
    for (index, line) in lines.iter().enumerate().skip(from) {
        match line.trim_start().strip_prefix("--@ ").map(|order| order.split(' ').next().unwrap_or(order)) {
            Some("parties" | "rules" | "if") => depth += 1,
            Some("else") if depth == 0 => middle = Some(index),
            Some("end") if depth == 0 => {
                let inside = &lines[from..middle.unwrap_or(index)];
                return (inside, middle.map_or(&[], |middle| &lines[middle + 1..index]), index + 1);
            }
            Some("end") => depth -= 1,
            _ => {}
        }
    }
    (&lines[from..], &[], lines.len())
}

/// The functions of the shape's algorithms, once each.
fn prelude(shape: &Shape) -> String {
    let mut seen = HashSet::new();
    let kinds = shape.iter().flatten().map(|piece| piece.kind).filter(|kind| seen.insert(*kind));
    let lines = kinds.flat_map(|kind| Source::section(kind, "prelude"));
    let code = lines.map(|line| line.trim()).filter(|line| !line.is_empty() && !line.starts_with("--"));
    code.map(|line| format!("{line}\n")).collect()
}
