//! Writes a script for a shape: the frame's lines, with the pieces of each rule put in where it says so.
//!
//! | in a Lua file | becomes |
//! |---|---|
//! | `--@ parties` … `--@ end` | its lines, once per subject |
//! | `--@ rules` … `--@ end` | its lines, once per rule of the subject |
//! | `--@ if condition` … `--@ else` … `--@ end` | its lines, where that holds of the rule, the subject or the shape |
//! | `--@ do name` | the section of that name in the rule's file |
//! | `--@ include name` | the lines of another file |
//! | `--@ numbers names \| names` | the numbers of the call: the frame's own, each subject's tag and its rules'; then the frame's others, and the last of each rule |
//! | `--@ other numbers` | those after the bar, which a quick way had no use for |
//! | `--@ owed` | what a charge brings per rule, and where its lists begin |
//! | `--@ declare state` | the variables of the subject's rules |
//! | `$name`, `@name`, `@@` | that rule's variable, that subject's variable, its number |
//! | `<<name>>` | names and formats that follow from the shape |
//!
//! A rule's variables are locals, numbered. Lua allows 200 of them; where there are many rules they are fields of a
//! table instead.

use std::{collections::HashSet, fmt::Write};

use super::{
    Shape,
    inline::{imports, rounded},
    piece::{Kind, Piece},
    source::{Source, shared},
};

/// The text of a script.
pub(super) fn assemble(frame: &'static str, shape: &Shape) -> String {
    let reads_ahead = is_plain(shape) && frame.contains("--@ if plain");
    let mut writer = Writer {
        shape,
        fields: has_fields(shape),
        reads_ahead,
        left: Default::default(),
        taken: 0,
        out: String::new(),
    };
    let lines: Vec<&str> = frame.lines().collect();
    writer.block(&lines, Place::default());
    let body = rounded(&format!("{}{}", prelude(shape), writer.out));
    format!("#!lua\n{}{body}", imports(&body))
}

/// Whether any rule may tell a request to go later than it admits it, or would not have admitted it at all. Elsewhere
/// one number says how long is too long.
pub(crate) fn tells_two_waits(shape: &Shape) -> bool {
    shape.iter().flatten().any(|piece| piece.kind == Kind::Shaped || piece.shadow)
}

/// Whether a call has to name the holder.
pub(crate) fn names_holders(shape: &Shape) -> bool {
    shape.iter().flatten().any(|piece| piece.kind == Kind::Leases)
}

/// Whether the state alone tells everything about a try: one subject, whose meters all know a quick way.
fn is_plain(shape: &Shape) -> bool {
    let quick = |piece: &Piece| matches!(piece.kind, Kind::Bucket | Kind::Stepwise | Kind::Window) && !piece.shadow;
    matches!(shape.as_slice(), [rules] if !rules.is_empty() && rules.iter().all(quick)) && !has_fields(shape)
}

/// Whether all there is is one sliding log, which is then edited in place.
fn is_lone_log(shape: &Shape) -> bool {
    matches!(shape.as_slice(), [rules] if matches!(rules.as_slice(), [Piece { kind: Kind::Log, shadow: false, .. }]))
}

fn has_fields(shape: &Shape) -> bool {
    shape.iter().flatten().count() > MOST_RULES_IN_LOCALS || shape.len() > MOST_SUBJECTS_IN_LOCALS
}

/// Where in the shape a line is written for.
#[derive(Clone, Copy, Default)]
struct Place {
    /// The subject, counted from 0.
    party: Option<usize>,
    /// The rule: its number in the whole shape, counted from 0.
    rule: Option<(usize, Piece)>,
}

struct Writer<'a> {
    shape: &'a Shape,
    /// Whether variables are fields of a table.
    fields: bool,
    /// Whether the frame has read the key before the general way begins.
    reads_ahead: bool,
    /// Numbers that were not taken out yet, and how many come before them.
    left: (Vec<String>, usize),
    /// Numbers that were taken out.
    taken: usize,
    out: String,
}

impl Writer<'_> {
    fn block(&mut self, lines: &[&str], place: Place) {
        let mut next = 0;
        while let Some(line) = lines.get(next) {
            next += 1;
            let Some(order) = line.trim_start().strip_prefix("--@ ") else {
                self.line(line, place);
                continue;
            };
            let (order, what) = order.split_once(' ').unwrap_or((order, ""));
            match order {
                "parties" | "rules" | "if" => {
                    let (inside, otherwise, after) = split_block(lines, next);
                    next = after;
                    match order {
                        "parties" => self.parties(inside),
                        "rules" => self.rules(inside, place),
                        _ if self.holds(what, place) => self.block(inside, place),
                        _ => self.block(otherwise, place),
                    }
                }
                "do" => {
                    if let Some((_, piece)) = place.rule {
                        self.block(Source::section(piece.kind, what), place);
                    }
                }
                "include" => {
                    let lines: Vec<&str> = shared(what).lines().collect();
                    self.block(&lines, place);
                }
                "declare" => self.declare(place),
                "numbers" => self.numbers(what),
                "other" => self.other_numbers(),
                "owed" => self.owed(),
                _ => {}
            }
        }
    }

    fn parties(&mut self, lines: &[&str]) {
        for party in 0..self.shape.len() {
            self.block(lines, Place { party: Some(party), rule: None });
        }
    }

    fn rules(&mut self, lines: &[&str], place: Place) {
        for rule in self.rules_of(place) {
            self.block(lines, Place { rule: Some(rule), ..place });
        }
    }

    /// The rules of a subject, with their numbers.
    fn rules_of(&self, place: Place) -> Vec<(usize, Piece)> {
        let party = place.party.unwrap_or(0);
        let before: usize = self.shape.iter().take(party).map(Vec::len).sum();
        let rules = self.shape.get(party).map_or(&[][..], Vec::as_slice);
        rules.iter().enumerate().map(|(index, piece)| (before + index, *piece)).collect()
    }

    fn holds(&self, condition: &str, place: Place) -> bool {
        let rules = || self.rules_of(place).len();
        match (condition, place.rule) {
            ("enforcing", Some((_, piece))) => !piece.shadow,
            ("counting", Some((_, piece))) => piece.counts_refused,
            ("list", Some((_, piece))) => !piece.kind.is_meter(),
            ("leases", Some((_, piece))) => piece.kind == Kind::Leases,
            ("counting", None) => self.rules_of(place).iter().any(|(_, piece)| piece.counts_refused),
            ("uncounted", _) => !self.shape.iter().flatten().any(|piece| piece.counts_refused),
            ("lone log", _) => is_lone_log(self.shape),
            ("plain", _) => is_plain(self.shape),
            ("several", _) => self.shape.len() > 1,
            ("unread", _) => !self.reads_ahead,
            ("alone", _) => rules() == 1,
            ("empty", _) => rules() == 0,
            _ => false,
        }
    }

    /// One line of code. Comments stay behind: the text travels.
    fn line(&mut self, line: &str, place: Place) {
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
        let line = self.filled(line, place);
        let line = self.numbered(&line, place);
        self.out.push_str(&line);
        self.out.push('\n');
    }

    /// Takes the numbers out of the call, except, where there is a quick way, those it can do without.
    fn numbers(&mut self, own: &str) {
        let (own, own_late) = own.split_once(" | ").unwrap_or((own, ""));
        let mut early = self.own_numbers(own);
        let mut late = self.own_numbers(own_late);
        for party in 0..self.shape.len() {
            let place = Place { party: Some(party), rule: None };
            early.push(self.numbered("@tag", place));
            if self.shape.len() > 1 {
                early.push(self.numbered("@cost", place));
            }
            for rule in self.rules_of(place) {
                let place = Place { rule: Some(rule), ..place };
                let names = Source::of(rule.1.kind).numbers.iter();
                let mut names: Vec<String> = names.map(|name| self.numbered(&format!("${name}"), place)).collect();
                late.extend(names.pop());
                early.extend(names);
            }
        }
        if self.reads_ahead {
            self.unpack(&early, 0);
            self.left = (late, early.len());
        } else {
            early.extend(late);
            self.taken = early.len();
            self.unpack_all(&early);
        }
    }

    /// Takes out what each rule is owed; says where the lists begin.
    fn owed(&mut self) {
        let rules = self.rules_of(Place { party: Some(0), rule: None });
        let names: Vec<String> =
            rules.iter().map(|rule| self.numbered("$owed", Place { party: Some(0), rule: Some(*rule) })).collect();
        let statement = if self.fields { "" } else { "local " };
        for (chunk, names) in names.chunks(NUMBERS_AT_ONCE).enumerate() {
            self.assign(names, statement, self.taken + chunk * NUMBERS_AT_ONCE);
        }
        let _ = writeln!(self.out, "local listed = {}", 8 * (self.taken + names.len()) + 1);
    }

    /// Takes out those that were left, if any were.
    fn other_numbers(&mut self) {
        let (late, from) = std::mem::take(&mut self.left);
        self.unpack(&late, from);
        if !tells_two_waits(self.shape) {
            self.out.push_str("local longest = patience\n");
        }
    }

    /// The frame's own numbers, without those this shape has no use for.
    fn own_numbers(&self, names: &str) -> Vec<String> {
        let wanted = |name: &&str| match *name {
            "" => false,
            "longest" => tells_two_waits(self.shape),
            "lease" => names_holders(self.shape),
            _ => true,
        };
        names.split(' ').filter(wanted).map(str::to_owned).collect()
    }

    /// All numbers at once; where they become fields, a few at a time, since a long list of them is more than Lua takes.
    fn unpack_all(&mut self, names: &[String]) {
        if !self.fields {
            self.unpack(names, 0);
            return;
        }
        self.out.push_str("local v = {}\n");
        for (chunk, names) in names.chunks(NUMBERS_AT_ONCE).enumerate() {
            let own: Vec<&str> = names.iter().map(String::as_str).filter(|name| !name.starts_with("v.")).collect();
            if !own.is_empty() {
                let _ = writeln!(self.out, "local {}", own.join(", "));
            }
            self.assign(names, "", chunk * NUMBERS_AT_ONCE);
        }
    }

    fn unpack(&mut self, names: &[String], from: usize) {
        self.assign(names, "local ", from);
    }

    fn assign(&mut self, names: &[String], statement: &str, from: usize) {
        if !names.is_empty() {
            let formats = "d".repeat(names.len());
            let from = if from == 0 { String::new() } else { format!(", {}", 8 * from + 1) };
            let _ = writeln!(self.out, "{statement}{} = unpack('>{formats}', ARGV[1]{from})", names.join(", "));
        }
    }

    /// The variables of a subject's rules, as of a key never seen.
    fn declare(&mut self, place: Place) {
        for rule in self.rules_of(place) {
            let place = Place { rule: Some(rule), ..place };
            let kind = rule.1.kind;
            if !self.fields {
                let works = Source::of(kind).works.iter().map(|name| self.numbered(&format!("${name}"), place));
                let unseen = if kind.is_meter() { " = 0, 0" } else { "" };
                let works: Vec<String> = works.collect();
                let _ = writeln!(self.out, "local {}{unseen}", works.join(", "));
            } else if kind.is_meter() {
                self.line("$at, $used = 0, 0", place);
            }
            self.block(Source::section(kind, "unseen"), place);
        }
    }

    /// Names and formats that follow from the shape.
    fn filled(&self, line: &str, place: Place) -> String {
        if !line.contains("<<") && !line.contains("$outweighs") {
            return line.to_owned();
        }
        let rules = self.rules_of(place);
        let variable = |rule: &(usize, Piece), name: &str| self.numbered(name, Place { rule: Some(*rule), ..place });
        let meters: Vec<String> = rules
            .iter()
            .filter(|(_, piece)| piece.kind.is_meter())
            .flat_map(|rule| [variable(rule, "$at"), variable(rule, "$used")])
            .collect();
        let lists = rules.iter().filter(|(_, piece)| !piece.kind.is_meter());
        let lists: String =
            lists.map(|rule| format!(" .. {}", variable(rule, Source::of(rule.1.kind).packed))).collect();
        let fixed = HEADER_BYTES + 7 * meters.len();
        let formats = format!(">I6I7{}", "I7".repeat(meters.len()));
        let each = |before: &str, after: &str| -> String {
            meters.iter().map(|name| format!("{before}{name}{after}")).collect()
        };
        let source = place.rule.map(|(_, piece)| Source::of(piece.kind));
        line.replace("<<state_names>>", &format!("found, _{}", each(", ", "")))
            .replace("<<state_formats>>", &formats)
            .replace("<<plain_formats>>", &formats)
            .replace("<<quick_formats>>", &formats)
            .replace("<<quick_names>>", &each(", ", ""))
            .replace("<<quick_unseen>>", &", 0".repeat(meters.len()))
            .replace("<<quick_size>>", &fixed.to_string())
            .replace("<<extra_formats>>", &format!("{formats}I7I7I7"))
            .replace("<<meter_values>>", &each("", ", "))
            .replace("<<more_meter_values>>", &each(", ", ""))
            .replace("<<lists>>", &lists)
            .replace("<<lists_at>>", &(fixed + 1).to_string())
            .replace("<<fixed>>", &fixed.to_string())
            .replace("<<smallest_list>>", &source.map_or(0, |source| source.smallest_list).to_string())
            .replace("$outweighs", source.map_or("false", |source| source.outweighs))
    }

    /// `$name` and `@name` as the variables they stand for here.
    fn numbered(&self, line: &str, place: Place) -> String {
        let table = if self.fields { "v." } else { "" };
        let mut out = String::with_capacity(line.len() + 16);
        let mut rest = line;
        while let Some(mark) = rest.find(['$', '@']) {
            let (before, name) = rest.split_at(mark);
            out.push_str(before);
            let number = match (name.starts_with('$'), place) {
                (true, Place { rule: Some((rule, _)), .. }) => rule + 1,
                (false, Place { party: Some(party), .. }) => party + 1,
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

/// From the line after a block begins: its lines, those of its `else`, and where it ends.
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

/// Functions that an algorithm needs, once each.
fn prelude(shape: &Shape) -> String {
    let mut seen = HashSet::new();
    let kinds = shape.iter().flatten().map(|piece| piece.kind).filter(|kind| seen.insert(*kind));
    let lines = kinds.flat_map(|kind| Source::section(kind, "prelude"));
    let code = lines.map(|line| line.trim()).filter(|line| !line.is_empty() && !line.starts_with("--"));
    code.map(|line| format!("{line}\n")).collect()
}

/// The tag and the time of writing.
const HEADER_BYTES: usize = 13;
/// A rule has up to sixteen variables, and Lua allows 200.
const MOST_RULES_IN_LOCALS: usize = 8;
const MOST_SUBJECTS_IN_LOCALS: usize = 8;
/// Numbers taken out in one statement.
const NUMBERS_AT_ONCE: usize = 48;
