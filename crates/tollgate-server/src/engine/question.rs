//! What is asked, in no wire's words, and the bounds on it.

use tollgate_core::{
    LeaseId, Micros,
    bounds::{MAX_KEY_BYTES, MAX_NAME_BYTES, MAX_PERMITS, MAX_WAIT},
};
use tollgate_rules::EnvoyUnit;

use super::AskError;

/// One question: some subjects of one domain, decided together.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Which rules are meant.
    pub domain: &'a str,
    /// Decided in one atomic step: all or none.
    pub subjects: &'a [Subject<'a>],
    /// What is asked of them.
    pub verb: Asked,
}

/// Who is to be limited.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// What is known of the request.
    pub who: Who<'a>,
    /// Permits asked; nothing said: what the policy says a request costs, 1 unless its file says otherwise.
    pub cost: Option<u64>,
    /// Numbers that came with the request and stand in for those of the rule file.
    pub limit: Option<RequestedLimit>,
}

/// What is known of a request.
#[derive(Clone, Copy, Debug)]
pub enum Who<'a> {
    /// Its entries, in order, as (key, value). A value may be of any length.
    Descriptor(&'a [(&'a str, &'a str)]),
    /// Only whom to count it under. It is asked of the policy that matches on an entry named `key`; else of the one that
    /// matches everything; else of the only one that counts by a single value.
    Key(&'a str),
}

/// A limit that comes with a request instead of from a rule file.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct RequestedLimit {
    /// How many.
    pub requests_per_unit: u64,
    /// Per what.
    pub unit: EnvoyUnit,
}

/// What is asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Asked {
    /// May these permits go, within this time?
    Take {
        /// How long the caller would wait. 0 tries.
        max_wait: Micros,
    },
    /// How do they stand? Charges nothing.
    Peek,
    /// Permits that were taken and not used.
    Refund {
        /// When they were to go, if that is known.
        at: Option<Micros>,
    },
    /// The real cost of a take is known now.
    Settle {
        /// What was charged.
        reserved: u64,
        /// What it came to.
        actual: u64,
        /// When the permits went, if that is known.
        at: Option<Micros>,
    },
    /// A holder lets go: this one, or whoever's lease ends first.
    Release {
        /// The name of its lease.
        lease: Option<LeaseId>,
    },
    /// A holder is still there.
    Heartbeat {
        /// The name of its lease.
        lease: LeaseId,
    },
    /// Charge without asking.
    Penalize,
    /// Forget the key.
    Reset,
}

impl<'a> Subject<'a> {
    /// A subject by its entries, at the policy's own cost.
    pub const fn descriptor(entries: &'a [(&'a str, &'a str)]) -> Self {
        Self { who: Who::Descriptor(entries), cost: None, limit: None }
    }

    /// A subject by its key, at the policy's own cost.
    pub const fn key(key: &'a str) -> Self {
        Self { who: Who::Key(key), cost: None, limit: None }
    }

    /// The same at this cost.
    #[must_use]
    pub const fn costing(mut self, cost: u64) -> Self {
        self.cost = Some(cost);
        self
    }
}

impl Asked {
    /// The word for it on every wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Take { .. } => "take",
            Self::Peek => "peek",
            Self::Refund { .. } => "refund",
            Self::Settle { .. } => "settle",
            Self::Release { .. } => "release",
            Self::Heartbeat { .. } => "heartbeat",
            Self::Penalize => "penalize",
            Self::Reset => "reset",
        }
    }
}

impl Question<'_> {
    /// Refuses what no answer should be looked for.
    pub(super) fn check(&self) -> Result<(), AskError> {
        if self.domain.is_empty() {
            return Err(AskError::bad("the domain is empty; name the one of your rule file"));
        }
        // No rule file has a longer one, and names nobody knows are told in the log.
        check_length("the domain", self.domain, MAX_NAME_BYTES)?;
        let found = self.subjects.len();
        if found == 0 {
            return Err(AskError::bad("nothing is asked about: there is no descriptor and no key"));
        }
        if found > MAX_SUBJECTS {
            return Err(AskError::bad(format!("{found} descriptors in one request; {MAX_SUBJECTS} is the most")));
        }
        if let Asked::Take { max_wait } = self.verb
            && max_wait > MAX_WAIT
        {
            return Err(AskError::bad(format!("a wait of {max_wait}; {MAX_WAIT} is the most")));
        }
        if let Asked::Settle { reserved, actual, .. } = self.verb {
            check_cost("reserved", reserved)?;
            check_cost("actual", actual)?;
        }
        self.subjects.iter().try_for_each(Subject::check)
    }
}

impl Subject<'_> {
    #[inline]
    fn check(&self) -> Result<(), AskError> {
        if let Some(cost) = self.cost {
            check_cost("the cost", cost)?;
        }
        match self.who {
            Who::Key("") => Err(AskError::bad("the key is empty; say whom to limit, such as \"user:42\"")),
            Who::Key(key) => check_length("the key", key, MAX_KEY_BYTES),
            Who::Descriptor(entries) if entries.len() > MAX_ENTRIES => {
                let found = entries.len();
                Err(AskError::bad(format!("a descriptor of {found} entries; {MAX_ENTRIES} is the most")))
            }
            // Keys are the operator's. Values are a stranger's, who could turn every limit off with one that is refused.
            Who::Descriptor(entries) => entries.iter().try_for_each(|(key, _)| {
                if key.is_empty() {
                    return Err(AskError::bad(
                        "a descriptor entry has an empty key; give it the name your rules match",
                    ));
                }
                check_length("a descriptor entry's key", key, MAX_ENTRY_KEY_BYTES)
            }),
        }
    }
}

pub(super) fn check_length(what: &str, text: &str, most: usize) -> Result<(), AskError> {
    if text.len() > most {
        return Err(AskError::bad(format!("{what} is {} bytes long; {most} is the most", text.len())));
    }
    Ok(())
}

pub(super) fn check_cost(what: &str, cost: u64) -> Result<(), AskError> {
    if cost > MAX_PERMITS {
        return Err(AskError::bad(format!("{what} is {cost}, beyond what can be counted; {MAX_PERMITS} is the most")));
    }
    Ok(())
}

/// Subjects in one question: they are decided in one step, which keeps others waiting.
pub const MAX_SUBJECTS: usize = 64;

/// Entries of one descriptor; rule files nest less deep.
pub const MAX_ENTRIES: usize = 16;

/// The longest key of an entry. Values may be as long as the wire lets them: a counter's name that becomes too long is
/// shortened.
pub const MAX_ENTRY_KEY_BYTES: usize = MAX_KEY_BYTES;
