//! Validation of the Envoy format: from deserialized fields to the descriptor tree.
//!
//! Rejects what envoyproxy/ratelimit rejects. Also rejects a limit without a number, which upstream reads as 0 ("refuse
//! all"), and an `unlimited` limit with a number.

use std::collections::HashMap;

use ratekeeper_core::{Policy, Quota, Rule};

use super::{Allowance, EnvoyDescriptor, EnvoyLimit, EnvoyUnit, EnvoyValue, metadata};
use crate::{
    deserialize::{self, FormatRules},
    location::Path,
    native::{MAX_MATCH_KEY_BYTES, MAX_MATCH_VALUE_BYTES, check_domain, failure_answer},
    problem::{Report, Spot},
    spec::{AlgorithmWord, DescriptorSpec, EnvoySpec, RateLimitSpec, TEXT_FIELDS, UnitWord},
    speed::{self, SpeedFields},
    tree::{TreeNode, shown},
};

pub(crate) fn check(root: &TreeNode, report: &mut Report) -> Option<(String, Vec<EnvoyDescriptor>)> {
    let format = FormatRules { text_fields: &TEXT_FIELDS, refuse_empty: false };
    let spec: EnvoySpec = deserialize::read(root, &format, report);
    let top = Path::default();
    let file = Spot { node: root, path: &top };
    report.empty_is_missing = true;
    let domain = check_domain(spec.domain.as_deref(), file, report);
    // As upstream, the list of descriptors may be empty; the field itself is required.
    if !file.has("descriptors") {
        report.missing(file, "descriptors", "the file has no descriptors; add a list of them");
    }
    // Without a domain the rest is still validated, under a placeholder that no message shows.
    let mut checker = Checker { domain: domain.as_deref().unwrap_or("unknown"), report };
    let roots = checker.level(spec.descriptors.as_deref(), file, "");
    domain.map(|domain| (domain, roots))
}

struct Checker<'a> {
    domain: &'a str,
    report: &'a mut Report,
}

impl Checker<'_> {
    fn level(&mut self, specs: Option<&[DescriptorSpec]>, above: Spot<'_>, name: &str) -> Vec<EnvoyDescriptor> {
        let list = above.path.key("descriptors");
        let nodes = above.node.get("descriptors").map_or(&[][..], TreeNode::items);
        let mut level: Vec<EnvoyDescriptor> = Vec::new();
        let mut lines: HashMap<(&str, &str), usize> = HashMap::new();
        for (index, (spec, node)) in specs.unwrap_or_default().iter().zip(nodes).enumerate() {
            if !node.is_map() {
                continue;
            }
            let spot = Spot { node, path: &list.index(index) };
            let pair = (spec.key.as_deref().unwrap_or_default(), spec.value.as_deref().unwrap_or_default());
            if !pair.0.is_empty()
                && let Some(line) = lines.insert(pair, node.location.line)
            {
                let message = format!("the same key and value as in line {line}; keep one of them");
                spot.blame("key", self.report, message);
            }
            level.extend(self.descriptor(spec, spot, name));
        }
        level
    }

    fn descriptor(&mut self, spec: &DescriptorSpec, spot: Spot<'_>, above: &str) -> Option<EnvoyDescriptor> {
        self.report.missing(spot, "key", "the descriptor has no key; add one, such as `key: remote_address`");
        let key = spec.key.clone().unwrap_or_default();
        if spec.key.as_deref() == Some("") {
            spot.blame("key", self.report, "key is empty; use the name of a descriptor entry");
        }
        self.check_length("key", &key, MAX_MATCH_KEY_BYTES, spot);
        let value = EnvoyValue::of(spec.value.as_deref());
        self.check_length("value", spec.value.as_deref().unwrap_or_default(), MAX_MATCH_VALUE_BYTES, spot);
        let share_threshold = spec.share_threshold.unwrap_or(false);
        if share_threshold && !matches!(value, EnvoyValue::Wildcard(_)) {
            let message = "share_threshold joins the values of a wildcard; use a value with a *, or leave it out";
            spot.blame("share_threshold", self.report, message);
        }

        let name = if key.is_empty() { "unknown".to_owned() } else { name_below(above, &key, &value) };
        let shadow_mode = spec.shadow_mode.unwrap_or(false);
        let limit = match (&spec.rate_limit, spot.node.get("rate_limit")) {
            (Some(limit), Some(node)) => {
                let spot = Spot { node, path: &spot.path.key("rate_limit") };
                self.limit(limit, spot, &name, shadow_mode)
            }
            _ => None,
        };
        let descriptors = self.level(spec.descriptors.as_deref(), spot, &name);
        Some(EnvoyDescriptor {
            key,
            value,
            limit,
            shadow_mode,
            detailed_metric: spec.detailed_metric.unwrap_or(false),
            value_to_metric: spec.value_to_metric.unwrap_or(false),
            share_threshold,
            quota_mode: spec.quota_mode.unwrap_or(false),
            metadata: metadata::of(spec, spot, self.report),
            descriptors,
            name,
            line: spot.node.location.line,
        })
    }

    fn limit(&mut self, spec: &RateLimitSpec, spot: Spot<'_>, path: &str, shadow: bool) -> Option<EnvoyLimit> {
        let name = spec.name.clone().filter(|name| !name.is_empty());
        let replaces = self.replaces(spec, spot, name.as_deref());
        let allowance = if spec.unlimited == Some(true) {
            for field in ["unit", "requests_per_unit", "algorithm", "on_store_failure", "speed", "allotments"] {
                if spot.has(field) {
                    let message = format!("unlimited counts nothing, so {field} says nothing; keep one of them");
                    spot.blame_key(field, self.report, message);
                }
            }
            Allowance::Unlimited
        } else {
            self.counted(spec, spot, path, shadow)?
        };
        Some(EnvoyLimit { allowance, name, replaces })
    }

    fn counted(&mut self, spec: &RateLimitSpec, spot: Spot<'_>, path: &str, shadow: bool) -> Option<Allowance> {
        let units = "second, minute, hour, day, week, month or year";
        self.report.missing(spot, "unit", format!("the limit has no unit; add one of {units}"));
        let number = "the limit has no requests_per_unit; add it, 0 to refuse every request, or `unlimited: true`";
        self.report.missing(spot, "requests_per_unit", number);
        let (unit, requests) = (unit(spec.unit?), spec.requests_per_unit?.0);
        // Not `check_rules`: every limit counts refused requests here, and the server may be started without that.
        let speed = SpeedFields::new(spec.speed, spec.allotments);
        let speed = speed::check(&speed, &SpeedFields::default(), "limit", spot, self.report);
        let rule_name = spec.name.as_deref().filter(|name| !name.is_empty()).unwrap_or(unit.name());
        if requests == 0 {
            return Some(Allowance::RefuseAll { policy: path.to_owned(), rule: rule_name.to_owned(), unit });
        }
        let quota = Quota::per_micros(requests, unit.span());
        let rule = match spec.algorithm.unwrap_or(AlgorithmWord::FixedWindow) {
            AlgorithmWord::FixedWindow => Rule::fixed_window(rule_name, quota),
            AlgorithmWord::TokenBucket | AlgorithmWord::Gcra => Rule::token_bucket(rule_name, quota),
            AlgorithmWord::LeakyBucket => Rule::leaky_bucket(rule_name, quota),
            AlgorithmWord::SlidingLog => Rule::sliding_log(rule_name, quota),
            AlgorithmWord::SlidingCounter => Rule::sliding_counter(rule_name, quota),
            AlgorithmWord::Concurrency => {
                let message =
                    "concurrency counts holders, not requests per unit; use another one, or ratekeeper's own form";
                spot.blame("algorithm", self.report, message);
                return None;
            }
        }
        .shadow(shadow)
        .count_refused(true)
        .on_store_failure(spec.on_store_failure.map(failure_answer).unwrap_or_default());
        if let Err(error) = rule.compile() {
            let problem = error.problem;
            let field = match problem.field {
                "limit" | "burst" | "capacity" => "requests_per_unit",
                "per" => "unit",
                other => other,
            };
            let message = format!("{field} is {}, {}; {}", problem.found, problem.why, problem.remedy);
            spot.blame(field, self.report, message);
            return None;
        }
        match Policy::new(path, [rule]).and_then(|policy| policy.in_domain(self.domain)) {
            Ok(policy) => {
                let policy = policy.with_speed(speed);
                Some(Allowance::Limited { policy, unit, requests_per_unit: requests })
            }
            Err(error) => {
                self.report.add(spot.node.location, spot.path, error.to_string());
                None
            }
        }
    }

    fn replaces(&mut self, spec: &RateLimitSpec, spot: Spot<'_>, own: Option<&str>) -> Vec<String> {
        let list = spot.path.key("replaces");
        let nodes = spot.node.get("replaces").map_or(&[][..], TreeNode::items);
        let mut names = Vec::new();
        for (index, (replaced, node)) in spec.replaces.iter().flatten().zip(nodes).enumerate() {
            let spot = Spot { node, path: &list.index(index) };
            match replaced.name.as_deref() {
                Some("") => spot.blame("name", self.report, "name is empty; use the name of another limit"),
                Some(name) if Some(name) == own => {
                    let message =
                        format!("name is \"{}\", so the limit would replace itself; name another", shown(name));
                    spot.blame("name", self.report, message);
                }
                Some(name) => names.push(name.to_owned()),
                None if node.is_map() => {
                    self.report.missing(spot, "name", "this item has no name; add that of another limit");
                }
                None => {}
            }
        }
        names
    }

    fn check_length(&mut self, field: &str, word: &str, most: usize, spot: Spot<'_>) {
        if word.len() > most {
            let message = format!("{field} is {} bytes long; use at most {most}", word.len());
            spot.blame(field, self.report, message);
        }
    }
}

fn unit(word: UnitWord) -> EnvoyUnit {
    match word {
        UnitWord::Second => EnvoyUnit::Second,
        UnitWord::Minute => EnvoyUnit::Minute,
        UnitWord::Hour => EnvoyUnit::Hour,
        UnitWord::Day => EnvoyUnit::Day,
        UnitWord::Week => EnvoyUnit::Week,
        UnitWord::Month => EnvoyUnit::Month,
        UnitWord::Year => EnvoyUnit::Year,
    }
}

/// Policy name of a descriptor: its path in the tree, such as `message_type=marketing,to_number` or
/// `PATH=/productpage`.
///
/// Stored counts are identified by it, so different descriptors need different names. Separators are escaped in keys
/// and values; a `=` only in keys, since the first one ends the key. A name that is too long is truncated and ends in a
/// hash of the whole.
fn name_below(above: &str, key: &str, value: &EnvoyValue) -> String {
    let mut name = if above.is_empty() { String::new() } else { format!("{above},") };
    escape(key, |c| c == '=' || is_special(c), &mut name);
    match value {
        EnvoyValue::Any => {}
        EnvoyValue::Literal(literal) => {
            name.push('=');
            escape(literal, is_special, &mut name);
        }
        EnvoyValue::Wildcard(wildcard) => {
            name.push('=');
            for (index, part) in wildcard.written().split('*').enumerate() {
                if index > 0 {
                    name.push('*');
                }
                escape(part, is_special, &mut name);
            }
        }
    }
    if name.len() <= LONGEST_NAME {
        return name;
    }
    let hash = name.bytes().fold(FNV_OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME));
    let mut kept = LONGEST_NAME - 17;
    while !name.is_char_boundary(kept) {
        kept -= 1;
    }
    format!("{}~{hash:016x}", &name[..kept])
}

/// Reserved characters of names: level separator, escape, wildcard, mark of a truncated name. Control characters are
/// escaped as well.
fn is_special(c: char) -> bool {
    matches!(c, ',' | '%' | '*' | '~') || c.is_control()
}

fn escape(word: &str, special: impl Fn(char) -> bool, out: &mut String) {
    for c in word.chars() {
        if special(c) {
            out.push_str(&format!("%{:x}.", u32::from(c)));
        } else {
            out.push(c);
        }
    }
}

/// The most bytes of a name in core.
const LONGEST_NAME: usize = ratekeeper_core::bounds::MAX_NAME_BYTES;

/// Parameters of FNV-1a, whose result is the same in every process and version.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

#[cfg(test)]
mod tests;
