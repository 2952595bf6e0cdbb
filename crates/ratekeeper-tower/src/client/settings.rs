//! Settings of the client's layer, which it shares with its services.

use std::{sync::Arc, time::Duration};

use super::backoff::Backoff;
use crate::{key::KeyExtractor, settings::CostFn};

/// What a layer has in common with the clients it makes.
#[derive(Clone)]
pub(super) struct Settings<L> {
    pub(super) limiter: L,
    pub(super) key: Arc<dyn KeyExtractor>,
    pub(super) cost: Option<CostFn>,
    pub(super) max_wait: Option<Duration>,
    pub(super) max_backoff: Duration,
    pub(super) backoff: Arc<Backoff>,
}
