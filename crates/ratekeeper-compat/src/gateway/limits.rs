//! Limits of a gateway's bucket: refill rate, capacity and tokens per request, validated on construction.

use super::error::LimitsError;

/// Refill rate, capacity and tokens per request.
///
/// ```
/// use ratekeeper_compat::gateway::GatewayLimits;
///
/// let limits = GatewayLimits::new(10.0, 20.0)?.requested(2.0)?;
/// assert!(GatewayLimits::new(0.0, 20.0).is_err(), "it would never fill");
/// # Ok::<(), ratekeeper_compat::gateway::LimitsError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use]
pub struct GatewayLimits {
    rate: f64,
    capacity: f64,
    requested: f64,
}

impl GatewayLimits {
    /// Tokens per second (`replenishRate`) and at most (`burstCapacity`). A request takes one, unless
    /// [`requested`](Self::requested) says otherwise: a capacity below one needs that.
    pub fn new(rate: f64, capacity: f64) -> Result<Self, LimitsError> {
        in_range("rate", rate)?;
        in_range("capacity", capacity)?;
        Ok(Self { rate, capacity, requested: 1.0 })
    }

    /// Sets the tokens per request (`requestedTokens`; ShenYu's `requestCount`).
    pub fn requested(mut self, requested: f64) -> Result<Self, LimitsError> {
        self.check(requested)?;
        self.requested = requested;
        Ok(self)
    }

    /// Tokens per request.
    pub fn tokens_per_request(&self) -> f64 {
        self.requested
    }

    /// An error if a request of this many tokens can never pass.
    pub(super) fn check(&self, requested: f64) -> Result<(), LimitsError> {
        in_range("requested", requested)?;
        if requested > self.capacity {
            return Err(LimitsError::AboveCapacity { requested, capacity: self.capacity });
        }
        Ok(())
    }

    /// Rate, capacity and tokens, as scripts read them.
    pub(super) fn words(&self, requested: f64) -> [Vec<u8>; 3] {
        [self.rate, self.capacity, requested].map(|number| number.to_string().into_bytes())
    }
}

fn in_range(field: &'static str, found: f64) -> Result<(), LimitsError> {
    // NaN fails both comparisons.
    if found > 0.0 && found <= MOST {
        return Ok(());
    }
    Err(LimitsError::OutOfRange { field, found, max: MOST })
}

/// 2^53 − 1: up to here every whole number is exact in a double.
const MOST: f64 = 9_007_199_254_740_991.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_are_not_positive_and_exact_are_refused() {
        for odd in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e16] {
            assert!(matches!(GatewayLimits::new(odd, 1.0), Err(LimitsError::OutOfRange { field: "rate", .. })));
            assert!(matches!(GatewayLimits::new(1.0, odd), Err(LimitsError::OutOfRange { field: "capacity", .. })));
            let requested = GatewayLimits::new(1.0, 5.0).unwrap().requested(odd);
            assert!(matches!(requested, Err(LimitsError::OutOfRange { field: "requested", .. })));
        }
        // Refilling may take arbitrarily long: the script bounds what it stores and returns.
        assert!(GatewayLimits::new(1.0, MOST).is_ok() && GatewayLimits::new(f64::MIN_POSITIVE, MOST).is_ok());
        let above = GatewayLimits::new(1.0, 5.0).unwrap().requested(6.0);
        assert_eq!(above, Err(LimitsError::AboveCapacity { requested: 6.0, capacity: 5.0 }));
    }
}
