//! Access control lists: users of a server, with passwords and rights.
//!
//! The user `default` is off, so a client without credentials is refused.

/// Users and their rights, in the syntax of `ACL SETUSER`.
#[derive(Clone, Debug, Default)]
pub struct Acl {
    users: String,
}

impl Acl {
    /// No users.
    pub fn new() -> Self {
        Self::default()
    }

    /// A user with a password and rules such as `~rk:* +@read +evalsha`. Without rules a user may do nothing.
    #[must_use]
    pub fn user(mut self, name: &str, password: &str, rules: &str) -> Self {
        self.users += &format!("user {name} on >{password} {rules}\n");
        self
    }

    /// The users file: these users, and one for the commands of the testkit.
    pub(super) fn file(&self) -> String {
        let (admin, password) = (Self::ADMIN, Self::ADMIN_PASSWORD);
        format!("user default off\nuser {admin} on >{password} ~* &* +@all\n{}", self.users)
    }

    pub(super) const ADMIN: &str = "testkit";
    pub(super) const ADMIN_PASSWORD: &str = "no-test-logs-in-with-this";
}
