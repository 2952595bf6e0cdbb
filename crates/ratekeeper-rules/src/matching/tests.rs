use super::*;
use crate::{Format, read_str};

/// Entries are the names of policies and the paths of descriptors.
struct Names;

impl RuleInstaller for Names {
    type Policy = String;
    type Limit = String;
    type Error = ();

    fn policy(&mut self, policy: &FilePolicy) -> Result<String, ()> {
        if policy.policy.name() == "refused" { Err(()) } else { Ok(policy.policy.name().to_owned()) }
    }

    fn limit(&mut self, descriptor: &EnvoyDescriptor, _: &EnvoyLimit) -> Result<String, ()> {
        Ok(descriptor.name.clone())
    }
}

fn native(patterns: &[(&str, &str)]) -> RuleFile {
    let rules = "rules: [{ name: r, algorithm: token_bucket, limit: 1, per: 1s }]";
    let policies: String =
        patterns.iter().map(|(name, pattern)| format!("  - {{ name: {name}, match: {pattern}, {rules} }}\n")).collect();
    read_str("native.yaml", &format!("domain: api\npolicies:\n{policies}"), Format::Yaml).unwrap()
}

fn matchers(files: &[RuleFile]) -> Matchers<String> {
    Matchers::build(files, &mut Names).unwrap()
}

fn found(matcher: &Matcher<String>, entries: &[(&str, &str)]) -> Option<(String, String)> {
    matcher.find(entries).map(|(entry, key)| (entry.clone(), key.into_owned()))
}

fn pair(entry: &str, key: &str) -> Option<(String, String)> {
    Some((entry.to_owned(), key.to_owned()))
}

/// A list is a literal for each of its values. A key without a descriptor is the value of the only `*`, so lists apply
/// to it as well.
#[test]
fn a_list_matches_each_of_its_values() {
    let file = native(&[
        ("user", "{ user: \"*\" }"),
        ("banned", "{ user: [eve, mallory] }"),
        ("pair", "{ user: [a, b], region: [eu, us] }"),
    ]);
    let matchers = matchers(&[file]);
    let api = matchers.domain("api").unwrap();
    assert_eq!(found(api, &[("user", "eve")]), pair("banned", ""));
    assert_eq!(found(api, &[("user", "mallory")]), pair("banned", ""));
    assert_eq!(found(api, &[("user", "a")]), pair("user", "a"));
    assert_eq!(found(api, &[("region", "us"), ("user", "a")]), pair("pair", ""));
    assert_eq!(found(api, &[("region", "asia"), ("user", "a")]), pair("user", "a"));
    let by_key = |key| api.find_by_key(key).unwrap().map(|(entry, key)| (entry.clone(), key.into_owned()));
    assert_eq!((by_key("eve"), by_key("alice")), (pair("banned", ""), pair("user", "alice")));
}

/// With `match: all`, every pattern that matches applies, in the order of the files.
#[test]
fn all_patterns_that_match_apply() {
    let mode = |mut file: RuleFile| {
        file.match_mode = MatchMode::All;
        file
    };
    let first = native(&[("global", "{}"), ("user", "{ user: \"*\" }"), ("login", "{ path: /login }")]);
    let second = native(&[("ip-user", "{ user: \"*\", ip: \"*\" }"), ("acme", "{ user: acme }")]);
    let both = [mode(first.clone()), mode(second)];
    let matchers = matchers(&both);
    let api = matchers.domain("api").unwrap();
    let found = |entries: &[(&str, &str)]| -> Vec<(String, String)> {
        api.find_all(entries).into_iter().map(|(entry, key)| (entry.clone(), key.into_owned())).collect()
    };
    let expected = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(entry, key)| ((*entry).to_owned(), (*key).to_owned())).collect()
    };
    let login = [("path", "/login"), ("ip", "1.1.1.1"), ("user", "7")];
    assert_eq!(found(&login), expected(&[("global", ""), ("user", "7"), ("login", ""), ("ip-user", "7:1.1.1.11:7")]));
    assert_eq!(found(&[("user", "acme")]), expected(&[("global", ""), ("user", "acme"), ("acme", "")]));
    assert_eq!(found(&[("agent", "x")]), expected(&[("global", "")]));
    // A key without a descriptor: the policy for everything, as with `match: best`.
    assert_eq!(api.find_all_by_key("7").unwrap().into_vec(), [(&"global".to_owned(), Cow::Borrowed("7"))]);

    let keyed = mode(native(&[("global", "{}"), ("key", "{ key: \"*\" }")]));
    let matchers = self::matchers(&[keyed]);
    let found = matchers.domain("api").unwrap().find_all_by_key("7").unwrap();
    assert_eq!(found.into_vec(), [(&"global".to_owned(), Cow::Borrowed("")), (&"key".to_owned(), Cow::Borrowed("7"))]);

    let matchers = self::matchers(&[first]);
    assert_eq!(matchers.domain("api").unwrap().find_all(&login).len(), 1, "the best one");
}

/// More entries win over more literals, and those over the order of the files.
#[test]
fn the_most_specific_pattern_wins() {
    let first = native(&[
        ("user", "{ user: \"*\" }"),
        ("admin", "{ user: admin }"),
        ("user-path", "{ user: \"*\", path: \"*\" }"),
    ]);
    let second = native(&[("path", "{ path: \"*\" }"), ("admin-path", "{ path: \"*\", user: admin }")]);
    let matchers = matchers(&[first, second]);
    let api = matchers.domain("api").unwrap();
    assert_eq!(found(api, &[("user", "7")]), pair("user", "7"));
    assert_eq!(found(api, &[("user", "admin")]), pair("admin", ""));
    assert_eq!(found(api, &[("user", "7"), ("path", "/a")]), pair("user-path", "2:/a1:7"));
    assert_eq!(found(api, &[("path", "/a"), ("user", "admin")]), pair("admin-path", "/a"));
    // An entry that no pattern names does not matter; without a common one nothing matches.
    assert_eq!(found(api, &[("path", "/a"), ("agent", "x")]), pair("path", "/a"));
    assert_eq!(found(api, &[("agent", "x")]), None);
    assert!(matchers.domain("other").is_none());
}

/// Of two patterns of equal rank the first in the files wins.
#[test]
fn the_first_pattern_wins_among_equals() {
    let matchers = matchers(&[native(&[("b", "{ b: \"*\" }"), ("a", "{ a: \"*\" }")])]);
    assert_eq!(found(matchers.domain("api").unwrap(), &[("a", "1"), ("b", "2")]), pair("b", "2"));
}

#[test]
fn a_bare_key_has_one_policy_or_is_ambiguous() {
    let by_key = |patterns: &[(&str, &str)]| {
        let matchers = matchers(&[native(patterns)]);
        let found = matchers.domain("api").unwrap().find_by_key("k");
        found.map(|found| found.map(|(entry, key)| (entry.clone(), key.into_owned())))
    };
    let (user, path) = (("user", "{ user: \"*\" }"), ("path", "{ path: \"*\" }"));
    assert_eq!(by_key(&[user]), Ok(pair("user", "k")));
    assert_eq!(by_key(&[user, path, ("all", "{}")]), Ok(pair("all", "k")));
    assert_eq!(by_key(&[user, path, ("key", "{ key: k }")]), Ok(pair("key", "")));
    assert_eq!(by_key(&[("one", "{ user: a }")]), Ok(None));
    let error = by_key(&[user, path]).unwrap_err();
    assert_eq!(error.to_string(), "a key alone could mean the policies user, path; give a descriptor that says which");
}

const ENVOY: &str = "
domain: edge
descriptors:
  - key: host
    value: a
    descriptors:
      - { key: path, value: /x*, rate_limit: { unit: second, requests_per_unit: 1 } }
      - { key: path, rate_limit: { unit: second, requests_per_unit: 1 } }
  - { key: host, rate_limit: { unit: second, requests_per_unit: 1 } }
";

#[test]
fn the_walk_down_the_descriptors_does_not_go_back() {
    let matchers = matchers(&[read_str("envoy.yaml", ENVOY, Format::Yaml).unwrap()]);
    let edge = matchers.domain("edge").unwrap();
    let key = |entries: &[(&str, &str)]| found(edge, entries).map(|(_, key)| key);
    assert_eq!(key(&[("host", "b")]).as_deref(), Some("b"));
    assert_eq!(key(&[("host", "a")]), None, "the literal wins, and it has no limit");
    assert_eq!(key(&[("host", "a"), ("path", "/x1")]).as_deref(), Some("/x1"));
    assert_eq!(key(&[("path", "/x1"), ("host", "a")]), None);
    let mut entries = [("path", "/x1"), ("host", "a")];
    edge.arrange(&mut entries);
    assert_eq!(key(&entries).as_deref(), Some("/x1"));
    assert_eq!(edge.find_by_key("k").map(|found| found.map(|(_, key)| key.into_owned())), Ok(Some("k".to_owned())));
    assert_eq!(edge.single_entry(), Some("host"));
}

#[test]
fn an_error_of_the_installer_ends_the_build() {
    assert!(Matchers::build(&[native(&[("refused", "{}")])], &mut Names).is_err());
}
