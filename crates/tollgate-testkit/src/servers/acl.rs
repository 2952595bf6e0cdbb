//! Servers that know their clients by name.
//!
//! The user every client is without a name (`default`) is off, so a client that forgets its name gets nowhere.

/// Who may do what, in the words of `ACL SETUSER`.
#[derive(Clone, Debug, Default)]
pub struct Acl {
    users: String,
}

impl Acl {
    /// Nobody yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A user with a password and rules such as `~tg:* +@read +evalsha`. Without rules a user may do nothing.
    #[must_use]
    pub fn user(mut self, name: &str, password: &str, rules: &str) -> Self {
        self.users += &format!("user {name} on >{password} {rules}\n");
        self
    }

    /// The users file: those above, and one for the test kit's own questions.
    pub(super) fn file(&self) -> String {
        let (keeper, password) = (Self::KEEPER, Self::KEEPER_PASSWORD);
        format!("user default off\nuser {keeper} on >{password} ~* &* +@all\n{}", self.users)
    }

    pub(super) const KEEPER: &str = "testkit";
    pub(super) const KEEPER_PASSWORD: &str = "no-test-logs-in-with-this";
}
