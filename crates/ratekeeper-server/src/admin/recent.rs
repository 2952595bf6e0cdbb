//! `GET /api/recent`: the latest refusals with their reasons, and the latest keys of each policy.

use ratekeeper_core::Timestamp;
use serde::Serialize;

use crate::{
    engine::Engine,
    telemetry::{RecentCaller, RecentRefusal},
};

/// The reply of `/api/recent`.
#[derive(Debug, Serialize)]
pub(super) struct RecentView {
    refusals: Vec<RefusalView>,
    /// Policies with callers.
    callers: Vec<PolicyCallers>,
}

#[derive(Debug, Serialize)]
struct PolicyCallers {
    domain: String,
    policy: String,
    keys: Vec<CallerView>,
}

#[derive(Debug, Serialize)]
struct CallerView {
    key: String,
    /// Time since its latest noted request, by the store's clock.
    seconds_ago: f64,
    allowed: bool,
}

/// A refusal; also in `/api/state`.
#[derive(Debug, Serialize)]
pub(super) struct RefusalView {
    /// The store's time, in microseconds since 1970.
    at_us: u64,
    seconds_ago: f64,
    domain: String,
    policy: String,
    rule: String,
    key: String,
    /// `refused`, `banned` or `shadow`.
    kind: &'static str,
    verdict: &'static str,
    cost: u64,
    remaining: u64,
    limit: u64,
    retry_after_us: Option<u64>,
    source: Option<&'static str>,
    /// The reason in words.
    reason: String,
}

pub(super) fn view(engine: &Engine) -> RecentView {
    let now = engine.store_time();
    let book = engine.rulebook();
    let callers = book.recent_callers().into_iter().filter(|(_, _, callers)| !callers.is_empty());
    let callers = callers.map(|(domain, policy, callers)| PolicyCallers {
        domain,
        policy,
        keys: callers.into_iter().map(|caller| caller_view(&caller, now)).collect(),
    });
    RecentView { refusals: refusals(engine, MOST), callers: callers.collect() }
}

/// The latest refusals, at most this many.
pub(super) fn refusals(engine: &Engine, most: usize) -> Vec<RefusalView> {
    let now = engine.store_time();
    let latest = engine.telemetry().recent_refusals.latest(most);
    latest.iter().map(|refusal| refusal_view(refusal, now)).collect()
}

fn caller_view(caller: &RecentCaller, now: Timestamp) -> CallerView {
    CallerView { key: caller.key.to_string(), seconds_ago: seconds(now, caller.at), allowed: caller.allowed }
}

fn refusal_view(refusal: &RecentRefusal, now: Timestamp) -> RefusalView {
    RefusalView {
        at_us: refusal.at.as_micros(),
        seconds_ago: seconds(now, refusal.at),
        domain: refusal.domain.to_string(),
        policy: refusal.policy.to_string(),
        rule: refusal.rule.to_string(),
        key: refusal.key.to_string(),
        kind: refusal.denial.name(),
        verdict: refusal.verdict.name(),
        cost: refusal.cost,
        remaining: refusal.remaining,
        limit: refusal.limit,
        retry_after_us: refusal.verdict.retry_after_span().map(|span| span.as_micros()),
        source: refusal.source.map(|source| source.name()),
        reason: refusal.reason(),
    }
}

#[allow(clippy::cast_precision_loss, reason = "shown with one decimal")]
fn seconds(now: Timestamp, at: Timestamp) -> f64 {
    (now.since(at).as_micros() / 1_000) as f64 / 1_000.0
}

/// Refusals in the reply.
const MOST: usize = 100;
