//! Limits that come with the call: redis-cell's `CL.THROTTLE`, throttlecrab's `THROTTLE`, Redis 8.8's `GCRA`.
//!
//! One meter under three names; they differ in how the burst is counted and in the order of the answer:
//!
//! ```text
//!   CL.THROTTLE   0 allowed, 1 limited │ limit │ remaining │ retry_after, −1 │ reset_after     limit = max_burst + 1
//!   GCRA          the same
//!   THROTTLE      1 allowed, 0 limited │ limit │ remaining │ reset_after │ retry_after, 0       limit = max_burst
//! ```
//!
//! Seconds are rounded up, as redis-cell does since 0.3.1: whoever waits as long as told gets in.

use tollgate_core::{Decision, Micros, Verdict};

use super::{Begun, Command, Refused, Replies, Session, Waiting, numbers};
use crate::engine::Throttle;

/// What a call asks for.
struct Call<'a> {
    key: &'a str,
    terms: Terms,
}

/// The same without the key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) numbers: Throttle,
    pub(super) quantity: u64,
    order: Order,
}

/// Whose order the answer is in.
#[derive(Clone, Copy, Debug)]
enum Order {
    RedisCell,
    Throttlecrab,
}

pub(super) fn cl_throttle(session: &mut Session, command: Command<'_>, replies: &mut Replies) -> Begun {
    const USAGE: &str = "CL.THROTTLE key max_burst count period [quantity]";
    let call = positional(command, USAGE, Order::RedisCell, |max_burst| Ok(max_burst + 1))?;
    decide(session, &call, replies)
}

pub(super) fn throttle(session: &mut Session, command: Command<'_>, replies: &mut Replies) -> Begun {
    const USAGE: &str = "THROTTLE key max_burst count_per_period period [quantity]";
    let call = positional(command, USAGE, Order::Throttlecrab, |max_burst| {
        if max_burst == 0 { Err(Refused::because("max_burst is 0; it is 1 at least")) } else { Ok(max_burst) }
    })?;
    decide(session, &call, replies)
}

pub(super) fn gcra(session: &mut Session, command: Command<'_>, replies: &mut Replies) -> Begun {
    let (key, terms) = super::gcra::read(command)?;
    decide(session, &Call { key, terms }, replies)
}

/// The five arguments that two of the commands share.
#[inline]
fn positional<'a>(
    command: Command<'a>,
    usage: &str,
    order: Order,
    burst: impl FnOnce(u64) -> Result<u64, Refused>,
) -> Result<Call<'a>, Refused> {
    let (Some(key), Some(max_burst), Some(count), Some(period), 4..=5) =
        (command.argument(0), command.argument(1), command.argument(2), command.argument(3), command.arguments())
    else {
        return Err(Refused::usage(usage));
    };
    let key = numbers::text("the key", key)?;
    let numbers = Throttle {
        burst: burst(numbers::whole("max_burst", max_burst)?)?,
        count: numbers::positive("count", count)?,
        period: numbers::seconds("period", period)?,
    };
    let quantity = command.argument(4).map_or(Ok(1), |quantity| numbers::whole("quantity", quantity))?;
    Ok(Call { key, terms: Terms { numbers, quantity, order } })
}

#[inline]
fn decide(session: &Session, call: &Call<'_>, replies: &mut Replies) -> Begun {
    session.admit_to_throttle()?;
    let Call { key, terms } = call;
    match session.engine.throttle_now(key, terms.numbers, terms.quantity) {
        Some(decided) => {
            terms.tell(replies, &decided.map_err(Refused::because)?);
            Ok(None)
        }
        None => Ok(Some(Waiting::throttle(session, key, *terms))),
    }
}

impl Terms {
    /// Answered in the order that redis-cell and Redis have.
    pub(super) fn as_redis_cell(numbers: Throttle, quantity: u64) -> Self {
        Self { numbers, quantity, order: Order::RedisCell }
    }

    /// The answer, in the order of whoever has the command from.
    #[inline]
    pub(super) fn tell(&self, replies: &mut Replies, decision: &Decision) {
        match self.order {
            Order::RedisCell => self.tell_as_redis_cell(replies, decision),
            Order::Throttlecrab => tell_as_throttlecrab(replies, decision),
        }
    }

    #[inline]
    fn tell_as_redis_cell(&self, replies: &mut Replies, decision: &Decision) {
        let retry_after = match decision.verdict {
            Verdict::Deny { retry_after } => Some(retry_after),
            Verdict::Never => None,
            // Who looks at a key that stands deeper than these numbers allow, because others were used before, is told so.
            Verdict::Allow { .. } if self.quantity == 0 => too_deep(&self.numbers, decision.reset_after()),
            Verdict::Allow { .. } => None,
        };
        let limited = !decision.is_allowed() || retry_after.is_some();
        let numbers = [
            i64::from(limited),
            signed(decision.limit()),
            signed(decision.remaining()),
            retry_after.map_or(-1, seconds),
            seconds(decision.reset_after()),
        ];
        put(replies, numbers);
    }
}

fn tell_as_throttlecrab(replies: &mut Replies, decision: &Decision) {
    let retry_after = match decision.verdict {
        Verdict::Allow { .. } => 0,
        Verdict::Deny { retry_after } => seconds(retry_after),
        Verdict::Never => -1,
    };
    let numbers = [
        i64::from(decision.is_allowed()),
        signed(decision.limit()),
        signed(decision.remaining()),
        seconds(decision.reset_after()),
        retry_after,
    ];
    put(replies, numbers);
}

/// How far a key is from what these numbers can be behind, if it is.
fn too_deep(numbers: &Throttle, reset_after: Micros) -> Option<Micros> {
    let tolerance = u128::from(numbers.burst) * u128::from(numbers.period.0) / u128::from(numbers.count.max(1));
    let over = u128::from(reset_after.0).checked_sub(tolerance).filter(|&over| over > 0)?;
    Some(Micros(u64::try_from(over).unwrap_or(u64::MAX)))
}

#[inline]
fn put(replies: &mut Replies, numbers: [i64; 5]) {
    replies.array(numbers.len());
    for number in numbers {
        replies.integer(number);
    }
}

#[inline]
fn seconds(span: Micros) -> i64 {
    signed(span.as_secs_ceil())
}

#[inline]
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
