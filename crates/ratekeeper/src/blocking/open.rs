//! A blocking limiter on the store that an address names, without a runtime of the caller.

use std::{io, sync::Arc};

use super::{BlockingLimiter, Context, background::BackgroundRuntime};
use crate::{
    any_store::{AnyStore, OpenStoreError, StoreConfig},
    builder::{LimiterBuilder, NoStore},
    error::BuildError,
};

/// A blocking limiter could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenBlockingError {
    /// The address cannot be used.
    #[error(transparent)]
    Store(#[from] OpenStoreError),
    /// The rules are not valid.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The system started no background thread.
    #[error("the background thread of the store could not be started")]
    Thread(#[from] io::Error),
}

impl LimiterBuilder<NoStore> {
    /// Builds a limiter for threads on the store that the address names: `memory`, `redis://…`, `redis+sentinel://…` or
    /// `redis+cluster://…`. A store in Redis gets one background thread for its connections, until the last clone of the
    /// limiter and its guards is dropped. An unreachable server is no error; see [`AnyStore::open`].
    ///
    /// ```no_run
    /// use ratekeeper::{Limiter, Quota, Rule};
    ///
    /// let limiter = Limiter::builder()
    ///     .rule(Rule::token_bucket("burst", Quota::per_second(100).burst(200)))
    ///     .open_blocking("redis://127.0.0.1:6379")?;
    /// assert!(limiter.check("user:42")?.is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open_blocking(self, url: &str) -> Result<BlockingLimiter<AnyStore>, OpenBlockingError> {
        self.open_blocking_with(url, StoreConfig::default())
    }

    /// [`open_blocking`](Self::open_blocking) with settings of the store.
    pub fn open_blocking_with(
        self,
        url: &str,
        config: StoreConfig,
    ) -> Result<BlockingLimiter<AnyStore>, OpenBlockingError> {
        let mut context = Context::default();
        if url != "memory" {
            let background = BackgroundRuntime::start()?;
            context = Context { handle: Some(background.handle.clone()), _background: Some(Arc::new(background)) };
        }
        let store = context.wait_for(AnyStore::open_with(url, config))?;
        // Installing a policy starts tasks of the store.
        let limiter = context.run(|| self.store(store).build())?;
        Ok(BlockingLimiter { limiter, context })
    }
}
