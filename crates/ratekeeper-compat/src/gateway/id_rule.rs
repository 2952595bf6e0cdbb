//! Ids and key names of buckets, as the gateways form them.

/// How a bucket's id is derived from the key that a request resolves to.
///
/// ```
/// use ratekeeper_compat::gateway::IdRule;
///
/// assert_eq!(IdRule::Spring { route: "search".to_owned() }.id("user-42"), "search.user-42");
/// assert_eq!(IdRule::ShenYu { rule: "1529".to_owned() }.id("10.0.0.7"), "1529-10.0.0.7");
/// ```
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub enum IdRule {
    /// Spring Cloud Gateway: `<route>.<key>`.
    Spring {
        /// The route's id.
        route: String,
    },
    /// ShenYu with a key resolver: `<rule>-<key>`. Its `WHOLE_KEY_RESOLVER` resolves every request to the resolver's name.
    ShenYu {
        /// The rule's id.
        rule: String,
    },
    /// ShenYu without one, and Soul: `<rule>`, whatever the key.
    ShenYuRule {
        /// The rule's id.
        rule: String,
    },
    /// The key as it is.
    #[default]
    Plain,
}

impl IdRule {
    /// The id for one key.
    pub fn id(&self, key: &str) -> String {
        match self {
            Self::Spring { route } => format!("{route}.{key}"),
            Self::ShenYu { rule } => format!("{rule}-{key}"),
            Self::ShenYuRule { rule } => rule.clone(),
            Self::Plain => key.to_owned(),
        }
    }
}

/// The names of tokens and timestamp. The braces put both into one slot of a cluster.
pub(super) fn keys(prefix: &str, id: &str) -> [String; 2] {
    ["tokens", "timestamp"].map(|kind| format!("{prefix}.{{{id}}}.{kind}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_the_gateways() {
        let id = IdRule::Spring { route: "r".to_owned() }.id("k");
        let [tokens, timestamp] = keys("request_rate_limiter", &id);
        assert_eq!(
            (tokens.as_str(), timestamp.as_str()),
            ("request_rate_limiter.{r.k}.tokens", "request_rate_limiter.{r.k}.timestamp")
        );
        assert_eq!(IdRule::ShenYuRule { rule: "7".to_owned() }.id("any"), "7");
    }
}
