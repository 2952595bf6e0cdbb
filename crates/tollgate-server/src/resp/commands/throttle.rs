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

use super::{Command, Refused, Replies, Session, Told, numbers};
use crate::engine::Throttle;

/// What a call asks for.
struct Call<'a> {
    key: &'a str,
    numbers: Throttle,
    quantity: u64,
}

pub(super) async fn cl_throttle(session: &mut Session, command: Command<'_>, replies: &mut Replies) -> Told {
    let call = positional(command, "CL.THROTTLE key max_burst count period [quantity]", |max_burst| Ok(max_burst + 1))?;
    let decision = decide(session, &call).await?;
    tell(replies, &call, &decision);
    Ok(())
}

pub(super) async fn throttle(session: &mut Session, command: Command<'_>, replies: &mut Replies) -> Told {
    let call = positional(command, "THROTTLE key max_burst count_per_period period [quantity]", |max_burst| {
        if max_burst == 0 { Err(Refused::because("max_burst is 0; it is 1 at least")) } else { Ok(max_burst) }
    })?;
    let decision = decide(session, &call).await?;
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
    Ok(())
}

pub(super) async fn gcra(session: &mut Session, command: Command<'_>, replies: &mut Replies) -> Told {
    const USAGE: &str = "GCRA key max_burst tokens_per_period period [TOKENS n]";
    let (Some(key), Some(max_burst), Some(count), Some(period)) =
        (command.argument(0), command.argument(1), command.argument(2), command.argument(3))
    else {
        return Err(Refused::usage(USAGE));
    };
    let quantity = match (command.argument(4), command.argument(5)) {
        (None, _) => 1,
        (Some(word), Some(tokens)) if word.eq_ignore_ascii_case(b"TOKENS") && command.arguments() == 6 => {
            numbers::whole("TOKENS", tokens)?
        }
        (Some(word), _) => return Err(Refused::syntax(word, USAGE)),
    };
    let call = Call {
        key: numbers::text("the key", key)?,
        numbers: Throttle {
            burst: numbers::whole("max_burst", max_burst)? + 1,
            count: numbers::positive("tokens_per_period", count)?,
            period: numbers::decimal_seconds("period", period)?,
        },
        quantity,
    };
    let decision = decide(session, &call).await?;
    tell(replies, &call, &decision);
    Ok(())
}

/// The five arguments that two of the commands share.
#[inline]
fn positional<'a>(
    command: Command<'a>,
    usage: &str,
    burst: impl FnOnce(u64) -> Result<u64, Refused>,
) -> Result<Call<'a>, Refused> {
    let (Some(key), Some(max_burst), Some(count), Some(period), 4..=5) =
        (command.argument(0), command.argument(1), command.argument(2), command.argument(3), command.arguments())
    else {
        return Err(Refused::usage(usage));
    };
    Ok(Call {
        key: numbers::text("the key", key)?,
        numbers: Throttle {
            burst: burst(numbers::whole("max_burst", max_burst)?)?,
            count: numbers::positive("count", count)?,
            period: numbers::seconds("period", period)?,
        },
        quantity: command.argument(4).map_or(Ok(1), |quantity| numbers::whole("quantity", quantity))?,
    })
}

#[inline]
async fn decide(session: &Session, call: &Call<'_>) -> Result<Decision, Refused> {
    session.admit_to_throttle()?;
    let Call { key, numbers, quantity } = *call;
    let decided = match session.engine.throttle_now(key, numbers, quantity) {
        Some(decided) => decided,
        None => session.engine.throttle(key, numbers, quantity).await,
    };
    decided.map_err(Refused::because)
}

/// In redis-cell's order.
#[inline]
fn tell(replies: &mut Replies, call: &Call<'_>, decision: &Decision) {
    let retry_after = match decision.verdict {
        Verdict::Deny { retry_after } => Some(retry_after),
        Verdict::Never => None,
        // Who looks at a key that stands deeper than these numbers allow, because others were used before, is told so.
        Verdict::Allow { .. } if call.quantity == 0 => too_deep(&call.numbers, decision.reset_after()),
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
