//! Requests to the engine: what every wire decodes to, and the bounds on it.
//!
//! A request is one verb for one or more subjects of a domain. The verb is [`ratekeeper_core::Verb`], unchanged from
//! the wire to the store; the engine adds only the lease id of a take.

use ratekeeper_core::{
    Rule, StoreError, Verb,
    bounds::{MAX_KEY_BYTES, MAX_KEYS, MAX_NAME_BYTES, MAX_PERMITS, MAX_WAIT},
};
use ratekeeper_rules::EnvoyUnit;

/// One request: subjects of one domain, decided together.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Selects the rules.
    pub domain: &'a str,
    /// A take charges all of them or none, in one atomic step. Other verbs are carried out one key after the other.
    pub subjects: &'a [Subject<'a>],
    /// What is asked. The engine chooses the lease id of a take.
    pub verb: Verb,
}

/// Who is limited, and the cost.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Selects policy and key.
    pub descriptor: Descriptor<'a>,
    /// Permits that the verb is about; to settle, those that were charged. `None`: the cost that the policy gives a
    /// request.
    pub cost: Option<u64>,
    /// A limit that replaces that of the rule file.
    pub limit: Option<RequestedLimit>,
    /// Rules that replace those of the rule file. The key is that of the subject; a descriptor is a key as a whole.
    pub rules: Option<InlineRules<'a>>,
}

/// Rules that come with a request.
#[derive(Clone, Copy, Debug)]
pub struct InlineRules<'a> {
    /// The rules as the wire has them. Requests with the same text have the same rules.
    pub text: &'a str,
    /// Reads the text; on a mistake, the message.
    pub read: fn(&str) -> Result<Vec<Rule>, String>,
}

/// What identifies the client of a request.
#[derive(Clone, Copy, Debug)]
pub enum Descriptor<'a> {
    /// Entries as (key, value), in order. A value may have any length.
    Entries(&'a [(&'a str, &'a str)]),
    /// A key without a descriptor. It belongs to the policy that matches on an entry named `key`; else to the one that
    /// matches everything; else to the only one that counts by a single value.
    Key(&'a str),
    /// A policy by its name, and the key it counts: what answers show as `policy` and `key`.
    Policy {
        /// The name in the rule file.
        name: &'a str,
        /// The counted key. Empty for a policy that counts all requests together.
        key: &'a str,
    },
}

/// A limit that comes with a request instead of from a rule file.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct RequestedLimit {
    /// Requests per unit of time.
    pub requests_per_unit: u64,
    /// The unit.
    pub unit: EnvoyUnit,
}

/// A request that could not be decided.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The request is not valid; the message names the value found and a remedy.
    #[error("{0}")]
    Invalid(String),
    /// The store could not decide.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl RequestError {
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(message.into())
    }

    /// Whether the request itself is the cause, so that the same request fails again.
    pub fn is_client_error(&self) -> bool {
        match self {
            Self::Invalid(_) => true,
            Self::Store(error) => matches!(
                error,
                StoreError::KeyTooLong { .. }
                    | StoreError::SameKeyTwice { .. }
                    | StoreError::OneKeyOnly { .. }
                    | StoreError::UnknownId
                    | StoreError::TooManyReservations { .. }
            ),
        }
    }
}

impl<'a> Subject<'a> {
    /// A subject by its descriptor, at the policy's cost.
    pub const fn descriptor(entries: &'a [(&'a str, &'a str)]) -> Self {
        Self { descriptor: Descriptor::Entries(entries), cost: None, limit: None, rules: None }
    }

    /// A subject by its key, at the policy's cost.
    pub const fn key(key: &'a str) -> Self {
        Self { descriptor: Descriptor::Key(key), cost: None, limit: None, rules: None }
    }

    /// The same subject at this cost.
    #[must_use]
    pub const fn costing(mut self, cost: u64) -> Self {
        self.cost = Some(cost);
        self
    }
}

impl Request<'_> {
    /// Checks every bound, before any rule is looked up.
    pub(crate) fn check(&self) -> Result<(), RequestError> {
        if self.domain.is_empty() {
            return Err(RequestError::invalid("the domain is empty; use a domain of the rule files"));
        }
        // No rule file has a longer one, and unknown names are logged.
        check_length("the domain", self.domain, MAX_NAME_BYTES)?;
        let found = self.subjects.len();
        if found == 0 {
            return Err(RequestError::invalid("the request has no descriptor and no key; give one of them"));
        }
        if found > MAX_SUBJECTS {
            return Err(RequestError::invalid(format!(
                "{found} descriptors in one request; {MAX_SUBJECTS} is the most"
            )));
        }
        let cost_name = match self.verb {
            Verb::Take(take) if take.max_wait > MAX_WAIT => {
                return Err(RequestError::invalid(format!("a wait of {}; {MAX_WAIT} is the most", take.max_wait)));
            }
            Verb::Commit { actual, .. } => {
                check_cost("actual", actual)?;
                "the cost"
            }
            Verb::Settle { actual, .. } => {
                check_cost("actual", actual)?;
                "reserved"
            }
            _ => "the cost",
        };
        self.subjects.iter().try_for_each(|subject| subject.check(cost_name))
    }
}

impl Subject<'_> {
    #[inline]
    fn check(&self, cost_name: &str) -> Result<(), RequestError> {
        if let Some(cost) = self.cost {
            check_cost(cost_name, cost)?;
        }
        match self.descriptor {
            Descriptor::Key("") => Err(RequestError::invalid("the key is empty; use a key such as \"user:42\"")),
            Descriptor::Key(key) => check_length("the key", key, MAX_KEY_BYTES),
            Descriptor::Policy { name, key } => {
                check_length("the name of the policy", name, MAX_NAME_BYTES)?;
                check_length("the key", key, MAX_KEY_BYTES)
            }
            Descriptor::Entries(entries) if entries.len() > MAX_ENTRIES => {
                let found = entries.len();
                Err(RequestError::invalid(format!("a descriptor of {found} entries; {MAX_ENTRIES} is the most")))
            }
            // Keys come from the operator. Values come from clients: refusing one would let a client avoid every limit.
            Descriptor::Entries(entries) => entries.iter().try_for_each(|(key, _)| {
                if key.is_empty() {
                    return Err(RequestError::invalid(
                        "a descriptor entry has an empty key; give it a name that the rules match",
                    ));
                }
                check_length("a descriptor entry's key", key, MAX_ENTRY_KEY_BYTES)
            }),
        }
    }
}

pub(crate) fn check_length(what: &str, text: &str, most: usize) -> Result<(), RequestError> {
    if text.len() > most {
        return Err(RequestError::invalid(format!("{what} is {} bytes long; {most} is the most", text.len())));
    }
    Ok(())
}

pub(crate) fn check_cost(what: &str, cost: u64) -> Result<(), RequestError> {
    if cost > MAX_PERMITS {
        return Err(RequestError::invalid(format!("{what} is {cost}, which is too large; {MAX_PERMITS} is the most")));
    }
    Ok(())
}

/// Subjects of one request. They are decided in one step, during which other requests wait.
pub const MAX_SUBJECTS: usize = MAX_KEYS;

/// Keys under policies of one request. A subject has several if its domain has `match: all`.
pub const MAX_TARGETS: usize = MAX_KEYS;

/// Entries of one descriptor; rule files nest less deep.
pub const MAX_ENTRIES: usize = 16;

/// The longest key of an entry. Values have the bound of their wire: matching shortens a key that becomes too long.
pub const MAX_ENTRY_KEY_BYTES: usize = MAX_KEY_BYTES;
