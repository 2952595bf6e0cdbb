//! The result of a request to a gateway's bucket, read from the script's reply.

use std::time::Duration;

use redis::Value;

use crate::failure::CallFailure;

/// Whether a request may pass, and the state of its bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use = "an answer that is not read limits nothing"]
pub struct GatewayAnswer {
    /// Whether it may pass.
    pub allowed: bool,
    /// Tokens that are left. Gateways show the whole ones, as `X-RateLimit-Remaining`.
    pub tokens_left: f64,
    /// Time until the same request passes if no other takes tokens; zero if it passes now. The gateways do not compute it.
    pub retry_after: Duration,
}

impl GatewayAnswer {
    pub(super) fn read(value: &Value) -> Result<Self, CallFailure> {
        let Value::Array(parts) = value else { return Err(CallFailure::UnexpectedReply) };
        let left = match parts.get(2) {
            Some(Value::BulkString(text)) => std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()),
            _ => None,
        };
        let wait = match parts.get(3) {
            Some(Value::Int(micros)) => u64::try_from(*micros).unwrap_or(0),
            _ => 0,
        };
        match (parts.first(), left) {
            (Some(Value::Int(LATE)), _) => Err(CallFailure::Late),
            (Some(Value::Int(code)), Some(tokens_left)) => {
                Ok(Self { allowed: *code == YES, tokens_left, retry_after: Duration::from_micros(wait) })
            }
            _ => Err(CallFailure::UnexpectedReply),
        }
    }
}

// Codes of lua/gateway/bucket.lua.
const YES: i64 = 1;
const LATE: i64 = 3;
