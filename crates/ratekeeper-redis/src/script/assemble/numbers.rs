//! Unpacking of a call's numbers, in the order in which `request.rs` packs them.

use std::fmt::Write;

use super::{Scope, Source, Writer};
use crate::script::shape::{has_two_waits, passes_lease_id};

impl Writer<'_> {
    /// Unpacks the numbers of the call. With a quick section, only those that it reads; see [`Writer::other_numbers`].
    pub(super) fn numbers(&mut self, own: &str) {
        let (own, own_late) = own.split_once(" | ").unwrap_or((own, ""));
        let mut early = self.own_numbers(own);
        let mut late = self.own_numbers(own_late);
        for party in 0..self.shape.len() {
            let scope = Scope { party: Some(party), rule: None };
            early.push(self.numbered("@tag", scope));
            if self.shape.len() > 1 {
                early.push(self.numbered("@cost", scope));
            }
            for rule in self.rules_of(scope) {
                let scope = Scope { rule: Some(rule), ..scope };
                let names = Source::of(rule.1.kind).numbers.iter();
                let mut names: Vec<String> = names.map(|name| self.numbered(&format!("${name}"), scope)).collect();
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

    /// Unpacks the permits that a charge has for each rule, and sets `listed` to the position of its leases.
    pub(super) fn owed(&mut self) {
        let rules = self.rules_of(Scope { party: Some(0), rule: None });
        let names: Vec<String> =
            rules.iter().map(|rule| self.numbered("$owed", Scope { party: Some(0), rule: Some(*rule) })).collect();
        let statement = if self.fields { "" } else { "local " };
        for (chunk, names) in names.chunks(NUMBERS_AT_ONCE).enumerate() {
            self.assign(names, statement, self.taken + chunk * NUMBERS_AT_ONCE);
        }
        let _ = writeln!(self.out, "local listed = {}", 8 * (self.taken + names.len()) + 1);
    }

    /// Sets `place` to the position of the runs, which follow the numbers.
    pub(super) fn runs(&mut self) {
        let _ = writeln!(self.out, "local place = {}", 8 * self.taken + 1);
    }

    /// Unpacks the numbers that the quick section does not read.
    pub(super) fn other_numbers(&mut self) {
        let (late, from) = std::mem::take(&mut self.left);
        self.unpack(&late, from);
        if !has_two_waits(self.shape) {
            self.out.push_str("local longest = max_wait\n");
        }
    }

    /// The numbers that the template names, without those that the shape does not need.
    fn own_numbers(&self, names: &str) -> Vec<String> {
        let wanted = |name: &&str| match *name {
            "" => false,
            "longest" => has_two_waits(self.shape),
            "lease" => passes_lease_id(self.shape),
            _ => true,
        };
        names.split(' ').filter(wanted).map(str::to_owned).collect()
    }

    /// Unpacks all numbers in one statement; into fields in chunks, because Lua limits the length of an assignment.
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
}

/// Numbers unpacked in one statement.
const NUMBERS_AT_ONCE: usize = 48;
