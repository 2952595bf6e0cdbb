//! Session: the state of a RESP connection between commands.
//!
//! If tokens are configured, a client authenticates with one. When the tokens change, the client's token is checked
//! again before the next command.

use std::sync::Arc;

use super::{commands::CommandError, transaction::Transaction};
use crate::{
    engine::Engine,
    security::{Access, Pass, TokenDigest},
    telemetry::Wire,
};

/// State of one connection.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) engine: Engine,
    access: Access,
    /// Permissions of the client's token; `None` if a token is required and no valid one has been sent.
    pass: Option<Arc<Pass>>,
    /// Digest of the token sent, to check it again when the tokens change.
    presented: Option<TokenDigest>,
    /// Generation of the tokens that `pass` was derived from.
    generation: u64,
    /// Commands queued since `MULTI`.
    pub(crate) transaction: Option<Transaction>,
    /// No earlier command of this connection waits for its reply.
    pub(crate) is_first_in_line: bool,
    /// The reply to `CLIENT ID`.
    pub(crate) id: u64,
    /// Set by `CLIENT SETNAME` or `HELLO … SETNAME`.
    pub(crate) name: String,
    /// Set by `QUIT` and by HTTP requests: no further command is read.
    pub(crate) is_over: bool,
}

impl Session {
    pub(crate) fn new(engine: Engine, access: Access, id: u64) -> Self {
        let (pass, generation) = (access.pass(None), access.generation());
        Self {
            engine,
            access,
            pass,
            presented: None,
            generation,
            transaction: None,
            is_first_in_line: true,
            id,
            name: String::new(),
            is_over: false,
        }
    }

    /// Checks the token again if the tokens have changed, so that a revoked token loses its permissions.
    #[inline]
    pub(crate) fn refresh(&mut self) {
        let generation = self.access.generation();
        if generation != self.generation {
            self.generation = generation;
            self.pass = self.presented.as_ref().and_then(|presented| self.access.pass_of(presented));
        }
    }

    /// The client's permissions; `NOAUTH` if it has none.
    pub(crate) fn admit(&self) -> Result<&Pass, CommandError> {
        self.pass.as_deref().ok_or_else(|| CommandError("NOAUTH Authentication required.".to_owned()))
    }

    /// Checks permission for a domain.
    #[inline]
    pub(crate) fn admit_to(&self, domain: &str) -> Result<(), CommandError> {
        let pass = self.admit()?;
        if pass.covers(domain) {
            return Ok(());
        }
        Err(CommandError(format!(
            "NOPERM the token of '{}' gives no access to domain '{}'",
            pass.name,
            domain.escape_debug()
        )))
    }

    /// Checks permission for inline limits. They belong to no domain, so the token must cover all domains.
    #[inline]
    pub(crate) fn admit_to_throttle(&self) -> Result<(), CommandError> {
        let pass = self.admit()?;
        if pass.covers_all() {
            return Ok(());
        }
        let name = &pass.name;
        Err(CommandError(format!(
            "NOPERM the token of '{name}' is for some domains only; inline limits need a token for *"
        )))
    }

    /// Authenticates with a token. An unknown token leaves the current permissions unchanged.
    pub(crate) fn authenticate(&mut self, token: &[u8]) -> Result<(), CommandError> {
        if self.access.is_open() {
            // The text of Redis: libraries that always send a password recognise it and continue.
            return Err(CommandError(
                "ERR AUTH <password> called without any password configured for the default user. Are you sure your \
                 configuration is correct? The server has no tokens."
                    .to_owned(),
            ));
        }
        let (generation, digest) = (self.access.generation(), TokenDigest::of(token));
        match self.access.pass_of(&digest) {
            Some(pass) => {
                (self.pass, self.presented, self.generation) = (Some(pass), Some(digest), generation);
                Ok(())
            }
            None => {
                self.engine.telemetry().refused_tokens.get_or_create(&Wire::Resp.label()).inc();
                Err(CommandError("WRONGPASS the token is unknown".to_owned()))
            }
        }
    }

    /// Returns to the state of a new connection, except for the id.
    pub(crate) fn reset(&mut self) {
        self.pass = self.access.pass(None);
        self.presented = None;
        self.transaction = None;
        self.name.clear();
    }
}
