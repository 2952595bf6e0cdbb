//! What the script answers, in words of ours.

use std::time::Duration;

use redis::Value;

use crate::store::Failure;

/// May this request pass, and what should the caller know next?
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use = "an answer that nobody reads holds nobody back"]
pub struct GatewayAnswer {
    /// Whether it may pass.
    pub allowed: bool,
    /// Tokens that are left. Gateways show the whole ones, as `X-RateLimit-Remaining`.
    pub tokens_left: f64,
    /// When the same request will pass if nobody else takes tokens; zero if it may now. The gateways do not know it.
    pub retry_after: Duration,
}

impl GatewayAnswer {
    pub(super) fn read(value: &Value) -> Result<Self, Failure> {
        let Value::Array(parts) = value else { return Err(Failure::Strange) };
        let left = match parts.get(2) {
            Some(Value::BulkString(text)) => std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()),
            _ => None,
        };
        let wait = match parts.get(3) {
            Some(Value::Int(micros)) => u64::try_from(*micros).unwrap_or(0),
            _ => 0,
        };
        match (parts.first(), left) {
            (Some(Value::Int(LATE)), _) => Err(Failure::Late),
            (Some(Value::Int(code)), Some(tokens_left)) => {
                Ok(Self { allowed: *code == YES, tokens_left, retry_after: Duration::from_micros(wait) })
            }
            _ => Err(Failure::Strange),
        }
    }
}

// As the header of the script says.
const YES: i64 = 1;
const LATE: i64 = 3;
