//! Checks with a policy that comes with the call. [`InlinePolicies`](crate::inline_policies) keeps it installed.

use ratekeeper_core::{Ask, Decision, Immediate, InlineLimits, Policy, StoreError, Take, Verb};

use crate::{error::RequestError, limiter::Limiter, request::Request};

/// A policy that comes with the call
impl<S: InlineLimits> Limiter<S> {
    /// [`check`](Self::check) under this policy instead of one of the limiter's: for limits that are known only at the time of
    /// the call, such as those of a customer's contract.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use ratekeeper::{Limiter, Policy, Quota, Rule};
    ///
    /// let limiter = Limiter::builder().rule(Rule::token_bucket("burst", Quota::per_second(10))).build()?;
    /// let contract = |limit| Policy::new("contract", [Rule::fixed_window("month", Quota::per_day(limit))]);
    /// assert_eq!(limiter.check_with(&contract(100)?, "acme").await?.remaining(), 99);
    /// assert_eq!(limiter.check_with(&contract(500)?, "acme").await?.remaining(), 498); // what was used stays used
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A key has one state for each name of a policy, whatever its rules; rules are matched by name. 1,024 sets of rules stay
    /// installed, the most recently used ones. A policy that the request names is ignored.
    pub async fn check_with<'a>(
        &self,
        policy: &Policy,
        request: impl Into<Request<'a>>,
    ) -> Result<Decision, RequestError> {
        let request = request.into();
        let (handle, verb) = self.inline(policy)?;
        let decided = self.shared.store.decide(&[Ask::new(&handle, request.key).cost(request.cost)], verb).await;
        self.report_inline(policy, &request, &verb, &decided);
        Ok(decided?)
    }

    fn inline(&self, policy: &Policy) -> Result<(S::Policy, Verb), StoreError> {
        let take =
            if policy.has_leases() { Take::now().with_lease(self.shared.lease_ids.next_id()) } else { Take::now() };
        Ok((self.shared.inline.handle(policy, &self.shared.store)?, Verb::Take(take)))
    }

    fn report_inline(
        &self,
        policy: &Policy,
        request: &Request<'_>,
        verb: &Verb,
        decided: &Result<Decision, StoreError>,
    ) {
        if let Some(observer) = &self.shared.observer {
            let asked = (request.key, request.cost);
            observer.decided(&self.shared.store, policy.name(), asked, verb, decided.as_ref());
        }
    }
}

/// A policy that comes with the call, without a runtime
impl<S: Immediate + InlineLimits> Limiter<S> {
    /// [`check_with`](Self::check_with) without a future.
    pub fn check_with_now<'a>(
        &self,
        policy: &Policy,
        request: impl Into<Request<'a>>,
    ) -> Result<Decision, RequestError> {
        let request = request.into();
        let (handle, verb) = self.inline(policy)?;
        let decided = self.shared.store.decide_now(&[Ask::new(&handle, request.key).cost(request.cost)], &verb);
        self.report_inline(policy, &request, &verb, &decided);
        Ok(decided?)
    }
}

#[cfg(test)]
#[cfg(feature = "memory")]
mod tests {
    use ratekeeper_core::{Quota, Rule};

    use super::*;
    use crate::inline_policies::MAX_INSTALLED;

    fn policy(limit: u64) -> Policy {
        Policy::new(
            "contract",
            [Rule::fixed_window("day", Quota::per_day(limit)), Rule::gcra("burst", Quota::per_hour(90))],
        )
        .unwrap()
    }

    /// Beyond the bound the least recently used policy is dropped; its keys keep their counts.
    #[test]
    fn dropped_policies_lose_no_counts() {
        let limiter = Limiter::builder().rule(Rule::gcra("other", Quota::per_day(1))).build().unwrap();
        assert_eq!(limiter.check_with_now(&policy(50), ("acme", 20)).unwrap().remaining(), 30);
        for limit in 1_000..1_000 + 2 * MAX_INSTALLED as u64 {
            assert!(limiter.check_with_now(&policy(limit), "other").is_ok());
        }
        assert_eq!(limiter.shared.inline.len(), MAX_INSTALLED);
        assert!(limiter.store().policy_versions() <= MAX_INSTALLED + 3, "{}", limiter.store().policy_versions());
        assert_eq!(limiter.check_with_now(&policy(50), "acme").unwrap().remaining(), 29);
        assert_eq!(limiter.check_now("acme").unwrap().remaining(), 0, "the limiter's policy is another");
    }
}
