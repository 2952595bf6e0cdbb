//! Limits of the Envoy format in a rulebook.
//!
//! A limit applies to requests whose last entry matches its descriptor.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::PolicyEntry;
use crate::request::RequestedLimit;

/// The limit of one descriptor.
#[derive(Debug)]
pub(crate) struct LimitEntry {
    pub(crate) kind: LimitKind,
    pub(crate) name: Option<Box<str>>,
    /// Names of limits that this one replaces if both apply to one request.
    pub(crate) replaces: Vec<Box<str>>,
    pub(crate) quota_mode: bool,
    /// Returned with answers within the limit.
    pub(crate) metadata: Option<Arc<Map<String, Value>>>,
    /// The numbers as the rule file has them, for answers.
    pub(crate) written: Option<RequestedLimit>,
}

/// What a limit allows.
#[derive(Debug)]
pub(crate) enum LimitKind {
    Unlimited,
    /// `requests_per_unit: 0`. In shadow mode the request passes.
    RefuseAll {
        shadow: bool,
        ban: Arc<Ban>,
    },
    Policy(Arc<PolicyEntry>),
}

/// A limit of 0 in a rule file, with the names that metrics show.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Ban {
    /// The name its policy would have.
    pub policy: String,
    /// The name its rule would have.
    pub rule: String,
}
