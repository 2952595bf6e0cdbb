//! A store without values: the type parameter of `Limiter` if no store is given and the feature `memory` is off.

use ratekeeper_core::{Ask, Decision, OnQuotaChange, Policy, Store, StoreError, Terms, Timestamp, Verb};

/// Has no values. Name a store with [`LimiterBuilder::store`](crate::LimiterBuilder::store), or enable `memory`.
#[derive(Clone, Copy, Debug)]
pub enum MissingStore {}

impl Store for MissingStore {
    type Policy = Self;

    fn install(&self, _: Policy, _: OnQuotaChange) -> Result<Self, StoreError> {
        match *self {}
    }

    async fn decide(&self, _: &[Ask<'_, Self>], _: Verb) -> Result<Decision, StoreError> {
        match *self {}
    }

    async fn decide_with(&self, _: &[Ask<'_, Self>], _: Verb, _: Terms) -> Result<Decision, StoreError> {
        match *self {}
    }

    fn now(&self) -> Timestamp {
        match *self {}
    }

    fn submit(&self, _: Ask<'_, Self>, _: Verb) {
        match *self {}
    }
}
