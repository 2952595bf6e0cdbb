//! Explanation of a decision: the request, the verdict, and the arithmetic of every rule, as lines of text.
//!
//! The command explains requests of a file, the server those about to be made; both use these words. The input is the state of
//! the key before the request, as a store or a replay has it.
//!
//! ```text
//! at 10200 ms: key "u" asks for 100                                                       request
//! Denied by rule log. The same request passes in 900ms, at 11100 ms, if no …              verdict
//!
//! rule log (sliding_log 100 per 1s): deny                                                 rules
//!   before: 35 used, in 2 admissions
//! ```

mod arithmetic;
mod numbers;
mod text;

use ratekeeper_core::{
    DecidedBy, Decision, Policy, ReadyRule, RuleDecision, Span, Timestamp, Verb, Verdict, algorithm::Algorithm,
    store_api::KeyState,
};

pub use self::{
    numbers::numbers,
    text::{counted, millis, shown, span},
};

/// A decision with the state of its key before it.
#[derive(Clone, Copy, Debug)]
pub struct Explanation<'a> {
    /// The policy that decided.
    pub policy: &'a Policy,
    /// The state before the request.
    pub before: &'a KeyState,
    /// What was asked.
    pub verb: Verb,
    /// Permits that the verb is about.
    pub cost: u64,
    /// The time of the request.
    pub at: Timestamp,
    /// The result.
    pub decision: &'a Decision,
}

/// The arithmetic of one rule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RuleExplanation {
    /// `rule log (sliding_log 100 per 1s): deny`
    pub heading: String,
    /// Indented by two spaces below the heading.
    pub lines: Vec<String>,
}

impl Explanation<'_> {
    /// The request: when, which key, and what it asks for.
    pub fn request(&self, key: &str) -> String {
        let cost = self.cost;
        let action = match self.verb {
            Verb::Take(_) if cost == 0 => "takes nothing (a take of 0)".to_owned(),
            Verb::Take(take) if take.max_wait == Span::ZERO => format!("asks for {cost}"),
            Verb::Take(take) => format!("asks for {cost} and would wait up to {}", span(take.max_wait)),
            Verb::Peek => "peeks".to_owned(),
            Verb::Refund { .. } => format!("refunds {cost}"),
            Verb::Settle { actual, at } => {
                let when = at.map_or_else(String::new, |at| format!(" at {} ms", millis(at)));
                let correction = match actual.checked_sub(cost) {
                    Some(0) => "as estimated".to_owned(),
                    Some(more) => format!("so {more} more are charged"),
                    None => format!("so {} are refunded", cost - actual),
                };
                format!("settles the take of {cost}{when}: the actual cost is {actual}, {correction}")
            }
            Verb::Penalize => format!("is penalized by {cost}"),
            Verb::Release(_) => "releases its permits".to_owned(),
            Verb::Reset => "is reset".to_owned(),
            _ => "is read".to_owned(),
        };
        format!("at {} ms: key {} {action}", millis(self.at), shown(key))
    }

    /// The verdict, the rule that determined it, and when the request would pass.
    pub fn verdict(&self) -> String {
        let decider = match self.decision.decided_by {
            DecidedBy::Rule(index) => self.policy.rules().get(index).map_or("", |rule| rule.name()),
            DecidedBy::Block => return self.blocked(),
            DecidedBy::Nothing if self.decision.is_allowed() => return "Allowed: no rule applies.".to_owned(),
            DecidedBy::Nothing => return "Never: the policy denies every request.".to_owned(),
        };
        let (limit, remaining) = (self.decision.limit(), self.decision.remaining());
        match self.decision.verdict {
            Verdict::Allow { wait } if wait > Span::ZERO => {
                let goes = millis(self.at + wait);
                format!(
                    "Allowed after a wait of {}, at {goes} ms. Rule {decider} has the least left: {remaining} of {limit}.",
                    span(wait),
                )
            }
            Verdict::Allow { .. } if self.take_cost() > 0 => {
                format!("Allowed at once. Rule {decider} has the least left: {remaining} of {limit}.")
            }
            Verdict::Allow { .. } => format!("Done. Rule {decider} has the least left: {remaining} of {limit}."),
            Verdict::Deny { retry_after } => {
                let passes = millis(self.at + retry_after);
                format!(
                    "Denied by rule {decider}. The same request passes in {}, at {passes} ms, if no other request comes; \
                     now {remaining} would pass.",
                    span(retry_after),
                )
            }
            Verdict::Never => {
                format!("Never: rule {decider} admits at most {limit} at once, however long the request waits.")
            }
        }
    }

    /// Every rule, in the policy's order.
    pub fn rules(&self) -> Vec<RuleExplanation> {
        let rules = self.policy.rules().iter().zip(self.decision.rules.iter()).enumerate();
        rules.map(|(index, (rule, decided))| self.rule(index, rule, decided)).collect()
    }

    /// Verdict, rules and notes, as text.
    pub fn text(&self) -> String {
        let mut text = self.verdict();
        text.push('\n');
        for rule in self.rules() {
            text.push('\n');
            text.push_str(&rule.heading);
            text.push('\n');
            for line in rule.lines {
                text.push_str("  ");
                text.push_str(&line);
                text.push('\n');
            }
        }
        if self.policy.prepaid().is_some() {
            text.push_str(
                "\nspeed: prepaid; the numbers are those of the store, without permits that processes hold in advance\n",
            );
        }
        text
    }

    fn rule(&self, index: usize, rule: &ReadyRule, decided: &RuleDecision) -> RuleExplanation {
        let shadow = if rule.is_shadow() { "; not enforced" } else { "" };
        let heading = format!("rule {} ({}): {}{shadow}", rule.name(), numbers(rule.rule()), decided.verdict.name());
        let initial = ratekeeper_core::algorithm::State::default();
        let before = self.before.states.get(index).unwrap_or(&initial);
        let mut lines = arithmetic::lines(rule, before, self.take_cost(), self.at);
        if rule.counts_refused() && matches!(self.verb, Verb::Take(_)) {
            lines.push(if self.decision.is_allowed() {
                "refused requests are counted as well, as far as permits are left".to_owned()
            } else {
                let left = rule.algorithm().look(before, self.at).remaining;
                format!("refused requests are counted: {} of {} are charged", left.min(self.cost), self.cost)
            });
        }
        let initial = match decided.reset_after {
            Span::ZERO => "already".to_owned(),
            left => format!("in {}", span(left)),
        };
        lines.push(format!(
            "afterwards {} of {} would pass at once; the key is in its initial state {initial}",
            decided.remaining, decided.limit,
        ));
        RuleExplanation { heading, lines }
    }

    fn blocked(&self) -> String {
        let until = self.before.block.until;
        match self.decision.verdict {
            Verdict::Deny { .. } => {
                format!("Denied: the key is blocked for {}, until {} ms.", span(until.since(self.at)), millis(until))
            }
            _ => "Done. The key is blocked.".to_owned(),
        }
    }

    /// The cost of a take; 0 for any other verb.
    fn take_cost(&self) -> u64 {
        if let Verb::Take(_) = self.verb { self.cost } else { 0 }
    }
}
