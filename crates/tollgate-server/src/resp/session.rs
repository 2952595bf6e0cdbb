//! What a connection remembers between two commands.

use std::sync::Arc;

use super::{commands::Refused, transaction::Transaction};
use crate::{
    engine::Engine,
    security::{Access, Pass, TokenDigest},
    telemetry::Wire,
};

/// One client, from hello to goodbye.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) engine: Engine,
    access: Access,
    /// What its token is good for; nothing as long as it has shown none and one is needed.
    pass: Option<Arc<Pass>>,
    /// What it has shown, to be looked at again when the tokens change.
    shown: Option<TokenDigest>,
    /// Which tokens it was compared with.
    generation: u64,
    /// What it has said since `MULTI`.
    pub(crate) transaction: Option<Transaction>,
    /// As `CLIENT ID` tells it.
    pub(crate) id: u64,
    /// As `CLIENT SETNAME` gave it.
    pub(crate) name: String,
    /// Set by `QUIT`: nothing after it is read.
    pub(crate) is_over: bool,
}

impl Session {
    pub(crate) fn new(engine: Engine, access: Access, id: u64) -> Self {
        let (pass, generation) = (access.pass(None), access.generation());
        Self {
            engine,
            access,
            pass,
            shown: None,
            generation,
            transaction: None,
            id,
            name: String::new(),
            is_over: false,
        }
    }

    /// Sees whether its token is still good, if the tokens have changed: one that was taken back is of no use any more.
    #[inline]
    pub(crate) fn keep_up(&mut self) {
        let generation = self.access.generation();
        if generation != self.generation {
            self.generation = generation;
            self.pass = self.shown.as_ref().and_then(|shown| self.access.pass_of(shown));
        }
    }

    /// May this client ask anything?
    pub(crate) fn admit(&self) -> Result<&Pass, Refused> {
        self.pass.as_deref().ok_or_else(|| Refused("NOAUTH Authentication required.".to_owned()))
    }

    /// May it ask about this domain?
    #[inline]
    pub(crate) fn admit_to(&self, domain: &str) -> Result<(), Refused> {
        let pass = self.admit()?;
        if pass.covers(domain) {
            return Ok(());
        }
        Err(Refused(format!("NOPERM the token of '{}' is not good for domain '{}'", pass.name, domain.escape_debug())))
    }

    /// May it bring limits of its own? They belong to no domain, so that takes a token that is good for all of them.
    #[inline]
    pub(crate) fn admit_to_throttle(&self) -> Result<(), Refused> {
        let pass = self.admit()?;
        if pass.covers_all() {
            return Ok(());
        }
        let name = &pass.name;
        Err(Refused(format!(
            "NOPERM the token of '{name}' is for some domains only; limits that come with the call need one for *"
        )))
    }

    /// Takes a token for what it is worth. One that is worth nothing takes nothing away.
    pub(crate) fn authenticate(&mut self, token: &[u8]) -> Result<(), Refused> {
        if self.access.is_open() {
            // Redis' own words: libraries that always send a password go on when they read them.
            return Err(Refused(
                "ERR AUTH <password> called without any password configured for the default user. Are you sure your \
                 configuration is correct? The server has no tokens."
                    .to_owned(),
            ));
        }
        let (generation, digest) = (self.access.generation(), TokenDigest::of(token));
        match self.access.pass_of(&digest) {
            Some(pass) => {
                (self.pass, self.shown, self.generation) = (Some(pass), Some(digest), generation);
                Ok(())
            }
            None => {
                self.engine.telemetry().refused_tokens.get_or_create(&Wire::Resp.label()).inc();
                Err(Refused("WRONGPASS the token is not known".to_owned()))
            }
        }
    }

    /// As if the client had just come.
    pub(crate) fn start_over(&mut self) {
        self.pass = self.access.pass(None);
        self.shown = None;
        self.transaction = None;
        self.name.clear();
    }
}
