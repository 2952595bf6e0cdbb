//! Key names of a limiter, as Redisson forms them.
//!
//! ```text
//!   api                    config       the name as it is
//!   {api}:value            free permits, shared        {api}:value:<client id>      of one client
//!   {api}:permits          grants, shared              {api}:permits:<client id>    of one client
//! ```
//!
//! A name that contains an opening brace is not put in braces, whether or not it contains a hash tag.

use super::client_id::ClientId;

/// The five keys of a limiter for one client, in the order scripts take them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Keys {
    names: [String; 5],
}

impl Keys {
    /// `name` is the mapped one.
    pub(super) fn new(name: &str, client: &ClientId) -> Self {
        let tagged = if name.contains('{') { name.to_owned() } else { format!("{{{name}}}") };
        let names = [
            name.to_owned(),
            format!("{tagged}:value"),
            format!("{tagged}:value:{client}"),
            format!("{tagged}:permits"),
            format!("{tagged}:permits:{client}"),
        ];
        Self { names }
    }

    /// The limiter's name, which is that of its config.
    pub(super) fn name(&self) -> &str {
        &self.names[0]
    }

    /// The shared grants and those of this client.
    pub(super) fn grants(&self) -> [&str; 2] {
        [&self.names[3], &self.names[4]]
    }

    pub(super) fn all(&self) -> [&[u8]; 5] {
        self.names.each_ref().map(|name| name.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(name: &str) -> [String; 5] {
        Keys::new(name, &ClientId::given("c")).names
    }

    #[test]
    fn names_are_those_of_redisson() {
        assert_eq!(names("api"), ["api", "{api}:value", "{api}:value:c", "{api}:permits", "{api}:permits:c"]);
        assert_eq!(names("x{y}z")[1..4], ["x{y}z:value", "x{y}z:value:c", "x{y}z:permits"]);
    }

    #[test]
    fn a_name_with_an_opening_brace_is_not_put_in_braces() {
        assert_eq!(names("a{b")[1], "a{b:value");
        assert_eq!(names("a}b")[1], "{a}b}:value");
    }
}
