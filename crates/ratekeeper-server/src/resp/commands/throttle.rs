//! Inline limits: `CL.THROTTLE` of redis-cell, `THROTTLE` of throttlecrab, `GCRA` of Redis 8.8.
//!
//! All three use one meter per key. They differ in how the burst is counted and in the order of the reply:
//!
//! ```text
//!   CL.THROTTLE   0 allowed, 1 limited │ limit │ remaining │ retry_after, −1 │ reset_after     limit = max_burst + 1
//!   GCRA          the same
//!   THROTTLE      1 allowed, 0 limited │ limit │ remaining │ reset_after │ retry_after, 0       limit = max_burst
//! ```
//!
//! Seconds are rounded up, as in redis-cell since 0.3.1, so that a retry after `retry_after` is allowed.

use ratekeeper_core::{Decision, Span, Verdict};

use super::{Command, CommandError, MaybePending, Pending, Replies, Session, numbers};
use crate::engine::Throttle;

/// The arguments of a command.
struct KeyedRequest<'a> {
    key: &'a str,
    terms: ThrottleRequest,
}

/// The arguments without the key.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThrottleRequest {
    pub(super) numbers: Throttle,
    pub(super) quantity: u64,
    order: ReplyOrder,
}

/// The order of the fields of a reply.
#[derive(Clone, Copy, Debug)]
enum ReplyOrder {
    RedisCell,
    Throttlecrab,
}

pub(super) fn cl_throttle(session: &mut Session, command: Command<'_>, replies: &mut Replies) -> MaybePending {
    const USAGE: &str = "CL.THROTTLE key max_burst count period [quantity]";
    let call = positional(command, USAGE, ReplyOrder::RedisCell, |max_burst| Ok(max_burst + 1))?;
    decide(session, &call, replies)
}

pub(super) fn throttle(session: &mut Session, command: Command<'_>, replies: &mut Replies) -> MaybePending {
    const USAGE: &str = "THROTTLE key max_burst count_per_period period [quantity]";
    let call = positional(command, USAGE, ReplyOrder::Throttlecrab, |max_burst| {
        if max_burst == 0 { Err(CommandError::because("max_burst is 0; use 1 or more")) } else { Ok(max_burst) }
    })?;
    decide(session, &call, replies)
}

pub(super) fn gcra(session: &mut Session, command: Command<'_>, replies: &mut Replies) -> MaybePending {
    let (key, terms) = super::gcra::read(command)?;
    decide(session, &KeyedRequest { key, terms }, replies)
}

/// Parses the arguments that `CL.THROTTLE` and `THROTTLE` share.
#[inline]
fn positional<'a>(
    command: Command<'a>,
    usage: &str,
    order: ReplyOrder,
    burst: impl FnOnce(u64) -> Result<u64, CommandError>,
) -> Result<KeyedRequest<'a>, CommandError> {
    let (Some(key), Some(max_burst), Some(count), Some(period), 4..=5) =
        (command.argument(0), command.argument(1), command.argument(2), command.argument(3), command.arguments())
    else {
        return Err(CommandError::usage(usage));
    };
    let key = numbers::text("the key", key)?;
    let numbers = Throttle {
        burst: burst(numbers::whole("max_burst", max_burst)?)?,
        count: numbers::positive("count", count)?,
        period: numbers::seconds("period", period)?,
    };
    let quantity = command.argument(4).map_or(Ok(1), |quantity| numbers::whole("quantity", quantity))?;
    Ok(KeyedRequest { key, terms: ThrottleRequest { numbers, quantity, order } })
}

#[inline]
fn decide(session: &Session, call: &KeyedRequest<'_>, replies: &mut Replies) -> MaybePending {
    session.admit_to_throttle()?;
    let KeyedRequest { key, terms } = call;
    match session.engine.now(|| session.engine.throttle(key, terms.numbers, terms.quantity)) {
        Some(decided) => {
            terms.write_reply(replies, &decided.map_err(CommandError::because)?);
            Ok(None)
        }
        None => Ok(Some(Pending::throttle(session, key, *terms))),
    }
}

impl ThrottleRequest {
    /// A request whose reply has the order of redis-cell and Redis.
    pub(super) fn as_redis_cell(numbers: Throttle, quantity: u64) -> Self {
        Self { numbers, quantity, order: ReplyOrder::RedisCell }
    }

    /// Writes the reply in the order of the command.
    #[inline]
    pub(super) fn write_reply(&self, replies: &mut Replies, decision: &Decision) {
        match self.order {
            ReplyOrder::RedisCell => self.write_as_redis_cell(replies, decision),
            ReplyOrder::Throttlecrab => write_as_throttlecrab(replies, decision),
        }
    }

    #[inline]
    fn write_as_redis_cell(&self, replies: &mut Replies, decision: &Decision) {
        let retry_after = match decision.verdict {
            Verdict::Deny { retry_after } => Some(retry_after),
            Verdict::Never => None,
            // A peek reports a key as limited if other numbers have charged more than this limit tolerates.
            Verdict::Allow { .. } if self.quantity == 0 => excess(&self.numbers, decision.reset_after_span()),
            Verdict::Allow { .. } => None,
        };
        let limited = !decision.is_allowed() || retry_after.is_some();
        let numbers = [
            i64::from(limited),
            signed(decision.limit()),
            signed(decision.remaining()),
            retry_after.map_or(-1, seconds),
            seconds(decision.reset_after_span()),
        ];
        put(replies, numbers);
    }
}

fn write_as_throttlecrab(replies: &mut Replies, decision: &Decision) {
    let retry_after = match decision.verdict {
        Verdict::Allow { .. } => 0,
        Verdict::Deny { retry_after } => seconds(retry_after),
        Verdict::Never => -1,
    };
    let numbers = [
        i64::from(decision.is_allowed()),
        signed(decision.limit()),
        signed(decision.remaining()),
        seconds(decision.reset_after_span()),
        retry_after,
    ];
    put(replies, numbers);
}

/// Time until the key is within the tolerance of these numbers (burst × period / count); `None` if it is.
fn excess(numbers: &Throttle, reset_after: Span) -> Option<Span> {
    let tolerance =
        u128::from(numbers.burst) * u128::from(numbers.period.as_micros()) / u128::from(numbers.count.max(1));
    let over = u128::from(reset_after.as_micros()).checked_sub(tolerance).filter(|&over| over > 0)?;
    Some(Span::from_micros(u64::try_from(over).unwrap_or(u64::MAX)))
}

#[inline]
fn put(replies: &mut Replies, numbers: [i64; 5]) {
    replies.array(numbers.len());
    for number in numbers {
        replies.integer(number);
    }
}

#[inline]
fn seconds(span: Span) -> i64 {
    signed(span.as_secs_ceil())
}

#[inline]
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
