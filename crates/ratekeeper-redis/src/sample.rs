//! A sample take, as the store sends it, for tools that measure a server's latency.

use std::{sync::Arc, time::Instant};

use ratekeeper_core::{OnQuotaChange, Policy, Quota, Rule, Take};

use crate::{
    key::Together,
    link::Call,
    policies::{Policies, Version},
    request,
};

/// The script call of a take under one token bucket. Its key expires within a second.
#[derive(Debug)]
pub struct SampleTake {
    version: Arc<Version>,
}

impl SampleTake {
    /// A bucket of 1 000 permits a second.
    pub fn new() -> Option<Self> {
        let policy = Policy::new("sample", [Rule::token_bucket("sample", Quota::per_second(1_000))]).ok()?;
        let policy = Policies::default().install(policy, OnQuotaChange::Keep, "", Together::ByKey, 1);
        Some(Self { version: policy.current() })
    }

    /// A take of one permit from this key.
    pub fn call<'a>(&'a self, key: &'a [&'a [u8]; 1], deadline: Instant) -> Call<'a> {
        let scripts = &self.version.scripts;
        let args = vec![request::take(&scripts.shape, &[self.version.tagged()], &Take::now())];
        Call { script: &scripts.take, keys: key, args, deadline }
    }
}
