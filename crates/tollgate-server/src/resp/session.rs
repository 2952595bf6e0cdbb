//! What a connection remembers between two commands.

use crate::engine::Engine;

use super::commands::Refused;

/// One client, from hello to goodbye.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) engine: Engine,
    /// As `CLIENT ID` tells it.
    pub(crate) id: u64,
    /// As `CLIENT SETNAME` gave it.
    pub(crate) name: String,
    /// Set by `QUIT`: nothing after it is read.
    pub(crate) is_over: bool,
}

impl Session {
    pub(crate) fn new(engine: Engine, id: u64) -> Self {
        Self { engine, id, name: String::new(), is_over: false }
    }

    /// May this client ask about this domain? Nothing named: about limits that come with the call.
    #[inline]
    pub(crate) fn admit(&self, _domain: Option<&str>) -> Result<(), Refused> {
        Ok(())
    }

    /// May this client ask anything?
    pub(crate) fn admit_any(&self) -> Result<(), Refused> {
        Ok(())
    }

    /// Takes a token for what it is worth.
    pub(crate) fn authenticate(&mut self, _token: &[u8]) -> Result<(), Refused> {
        Err(Refused("ERR Client sent AUTH, but no token is set; the port is open to all who reach it".to_owned()))
    }

    /// As if the client had just come.
    pub(crate) fn start_over(&mut self) {
        self.name.clear();
    }
}
