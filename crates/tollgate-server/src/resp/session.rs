//! What a connection remembers between two commands.

use std::sync::Arc;

use super::commands::Refused;
use crate::{
    engine::Engine,
    security::{Access, Pass},
};

/// One client, from hello to goodbye.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) engine: Engine,
    access: Access,
    /// What its token is good for; nothing as long as it has shown none and one is needed.
    pass: Option<Arc<Pass>>,
    /// As `CLIENT ID` tells it.
    pub(crate) id: u64,
    /// As `CLIENT SETNAME` gave it.
    pub(crate) name: String,
    /// Set by `QUIT`: nothing after it is read.
    pub(crate) is_over: bool,
}

impl Session {
    pub(crate) fn new(engine: Engine, access: Access, id: u64) -> Self {
        let pass = access.pass(None);
        Self { engine, access, pass, id, name: String::new(), is_over: false }
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
            return Err(Refused("ERR AUTH is not needed: the server has no tokens set".to_owned()));
        }
        match self.access.pass(Some(token)) {
            Some(pass) => {
                self.pass = Some(pass);
                Ok(())
            }
            None => Err(Refused("WRONGPASS the token is not known".to_owned())),
        }
    }

    /// As if the client had just come.
    pub(crate) fn start_over(&mut self) {
        self.pass = self.access.pass(None);
        self.name.clear();
    }
}
