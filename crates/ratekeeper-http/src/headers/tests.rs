use ratekeeper_core::{Quota, Rule, Span, Take, Timestamp, Verb, bounds::MAX_WAIT, store_api::KeyState};
use ratekeeper_testkit::random::{Kind, Random};
use sfv::{BareItem, List, ListEntry, Parser};

use super::*;

/// One key under one policy at a time that the test advances.
struct Fixture {
    policy: Policy,
    fields: RateLimitFields,
    key: KeyState,
    now: Timestamp,
}

impl Fixture {
    fn new(rules: impl IntoIterator<Item = Rule>, style: HeaderStyle) -> Self {
        let policy = Policy::new("api", rules).unwrap();
        let fields = RateLimitFields::new(&policy, style);
        Self { key: policy.fresh(), policy, fields, now: Timestamp::from_secs(1_768_212_847) }
    }

    fn ask(&mut self, cost: u64, verb: Verb) -> Decision {
        self.policy.decide(&mut self.key, cost, &verb, self.now).decision
    }

    fn take(&mut self, cost: u64) -> Vec<(String, String)> {
        let decision = self.ask(cost, Verb::Take(Take::now()));
        written(&self.fields, &decision)
    }
}

fn written(fields: &RateLimitFields, decision: &Decision) -> Vec<(String, String)> {
    let mut written = Vec::new();
    fields.for_each(decision, |name, value| written.push((name.to_owned(), value.to_owned())));
    written
}

fn field(fields: &[(String, String)], name: &str) -> Option<String> {
    fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.clone())
}

/// A list of strings with parameters, parsed by the crate `sfv`: (name, [(parameter, value)]).
fn parsed(value: &str) -> Vec<(String, Vec<(String, i64)>)> {
    let list: List = Parser::new(value).parse().unwrap();
    let members = list.into_iter().map(|entry| {
        let ListEntry::Item(item) = entry else { panic!("expected an item in {value}") };
        let BareItem::String(name) = &item.bare_item else { panic!("expected a string in {value}") };
        let numbers = item.params.iter().filter_map(|(name, value)| match value {
            BareItem::Integer(number) => Some((name.as_str().to_owned(), i64::from(*number))),
            _ => None,
        });
        (name.as_str().to_owned(), numbers.collect())
    });
    members.collect()
}

fn number(value: &str, rule: &str, parameter: &str) -> Option<u64> {
    let (_, numbers) = parsed(value).into_iter().find(|(name, _)| name == rule)?;
    numbers.into_iter().find(|(name, _)| name == parameter).map(|(_, number)| u64::try_from(number).unwrap())
}

#[test]
fn every_rule_is_an_item_of_both_lists() {
    let rules = [
        Rule::token_bucket("burst", Quota::per_second(100).burst(200)),
        Rule::sliding_log("daily", Quota::per_day(10_000)),
    ];
    let fields = Fixture::new(rules, HeaderStyle::Ietf).take(1);
    assert_eq!(field(&fields, "ratelimit-policy").unwrap(), r#""burst";q=200;w=2, "daily";q=10000;w=86400"#);
    assert_eq!(field(&fields, "ratelimit").unwrap(), r#""burst";r=199;t=1, "daily";r=9999;t=86400"#);
    assert_eq!(fields.len(), 2, "nothing else: {fields:?}");
}

#[test]
fn a_denial_lists_the_rules_that_deny_and_one_retry_after() {
    let rules = [
        Rule::sliding_log("minute", Quota::per_minute(3)),
        Rule::fixed_window_aligned("day", Quota::per_day(1000), ratekeeper_core::Align::FirstRequest),
    ];
    let mut fixture = Fixture::new(rules, HeaderStyle::Ietf);
    fixture.take(3);
    fixture.now = fixture.now + Span::from_millis(17_300);
    let fields = fixture.take(2);
    assert_eq!(field(&fields, "ratelimit").unwrap(), r#""minute";r=0;t=43"#);
    assert_eq!(field(&fields, "retry-after").unwrap(), "43");
    let decision = fixture.ask(2, Verb::Take(Take::now()));
    assert_eq!(fixture.fields.violated(&decision).collect::<Vec<_>>(), ["minute"]);
}

#[test]
fn a_request_that_can_never_pass_has_no_retry_after() {
    let mut fixture = Fixture::new([Rule::token_bucket("burst", Quota::per_second(5))], HeaderStyle::Ietf);
    let fields = fixture.take(6);
    assert_eq!(field(&fields, "retry-after"), None);
    assert_eq!(field(&fields, "ratelimit-policy").unwrap(), r#""burst";q=5;w=1"#);
    assert_eq!(field(&fields, "ratelimit").unwrap(), r#""burst";r=5"#);
}

#[test]
fn a_blocked_key_has_no_permits_left() {
    let mut fixture = Fixture::new([Rule::token_bucket("burst", Quota::per_second(5))], HeaderStyle::IetfAndX);
    let _ = fixture.ask(1, Verb::Block { span: Span::from_millis(2_500) });
    let fields = fixture.take(1);
    assert_eq!(field(&fields, "ratelimit").unwrap(), r#""burst";r=0;t=3"#);
    assert_eq!(field(&fields, "retry-after").unwrap(), "3");
    assert_eq!(field(&fields, "x-ratelimit-remaining").unwrap(), "0");
    assert_eq!(field(&fields, "x-ratelimit-reset").unwrap(), "3");
}

#[test]
fn windows_below_a_second_and_months_have_no_w() {
    let policy = |rule| field(&Fixture::new([rule], HeaderStyle::Ietf).take(1), "ratelimit-policy").unwrap();
    let tenth = Quota::per_micros(10, Span::from_millis(100));
    assert_eq!(policy(Rule::sliding_log("fast", tenth)), r#""fast";q=10"#);
    let month = ratekeeper_core::Align::Calendar(ratekeeper_core::UtcOffset::hours(0));
    assert_eq!(policy(Rule::fixed_window_aligned("mo", Quota::per_month(9), month)), r#""mo";q=9"#);
    let odd = Quota::per_micros(10, Span::from_millis(1_500));
    assert_eq!(policy(Rule::sliding_log("odd", odd)), r#""odd";q=10;w=2"#);
}

#[test]
fn concurrency_is_counted_in_concurrent_requests() {
    let mut fixture =
        Fixture::new([Rule::concurrency("slots", 2, std::time::Duration::from_secs(30))], HeaderStyle::Ietf);
    let fields = fixture.take(1);
    assert_eq!(field(&fields, "ratelimit-policy").unwrap(), r#""slots";q=2;qu="concurrent-requests""#);
    assert_eq!(field(&fields, "ratelimit").unwrap(), r#""slots";r=1"#);
}

#[test]
fn shadow_rules_are_not_shown() {
    let shadow = Rule::token_bucket("shadow", Quota::per_second(1)).shadow(true);
    let mut fixture =
        Fixture::new([shadow.clone(), Rule::token_bucket("burst", Quota::per_second(5))], HeaderStyle::Ietf);
    for fields in [fixture.take(1), fixture.take(1)] {
        assert_eq!(field(&fields, "ratelimit-policy").unwrap(), r#""burst";q=5;w=1"#);
        assert!(field(&fields, "ratelimit").unwrap().starts_with(r#""burst";"#));
    }
    for style in [HeaderStyle::Ietf, HeaderStyle::Ietf06, HeaderStyle::XRateLimit] {
        assert_eq!(Fixture::new([shadow.clone()], style).take(1), [], "{style:?}");
    }
}

#[test]
fn older_styles_describe_the_rule_that_decided() {
    let rules = || [Rule::token_bucket("burst", Quota::per_second(3)), Rule::sliding_log("day", Quota::per_day(100))];
    let fields = Fixture::new(rules(), HeaderStyle::XRateLimit).take(1);
    let expected = [("x-ratelimit-limit", "3"), ("x-ratelimit-remaining", "2"), ("x-ratelimit-reset", "1")];
    assert_eq!(fields, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));

    let mut fixture = Fixture::new(rules(), HeaderStyle::Ietf06);
    fixture.take(3);
    let fields = fixture.take(1);
    let expected =
        [("ratelimit-limit", "3"), ("ratelimit-remaining", "0"), ("ratelimit-reset", "1"), ("retry-after", "1")];
    assert_eq!(fields, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));

    let mut fixture = Fixture::new(rules(), HeaderStyle::None);
    fixture.take(3);
    assert_eq!(fixture.take(1), [("retry-after".to_owned(), "1".to_owned())]);
}

#[test]
fn rules_of_several_policies_are_named_by_policy_and_rule() {
    let rule = || [Rule::token_bucket("burst", Quota::per_second(5))];
    let policies = [Policy::new("user", rule()).unwrap(), Policy::new("tenant", rule()).unwrap()];
    let fields = RateLimitFields::of_several(&policies, HeaderStyle::Ietf);
    let mut value = String::new();
    let decision = policies[0].decide(&mut policies[0].fresh(), 0, &Verb::Peek, Timestamp::from_micros(1)).decision;
    fields.for_each(&decision, |name, field| {
        if name == "ratelimit-policy" {
            value = field.to_owned();
        }
    });
    assert_eq!(value, r#""user/burst";q=5;w=1, "tenant/burst";q=5;w=1"#);
}

#[test]
fn uncounted_decisions_have_no_remaining_permits() {
    let mut fixture = Fixture::new([Rule::token_bucket("burst", Quota::per_second(5))], HeaderStyle::IetfAndX);
    let mut decision = fixture.ask(1, Verb::Take(Take::now()));
    decision.source = Source::Open;
    let fields = written(&fixture.fields, &decision);
    assert_eq!(fields, [("ratelimit-policy".to_owned(), r#""burst";q=5;w=1"#.to_owned())]);
}

#[test]
fn fields_of_several_layers_are_merged() {
    let mut headers = HeaderMap::new();
    let mut fill = |rule: Rule, cost| {
        let mut fixture = Fixture::new([rule], HeaderStyle::Ietf);
        let _ = fixture.take(cost);
        let decision = fixture.ask(cost, Verb::Take(Take::now()));
        fixture.fields.insert_into(&decision, &mut headers);
    };
    fill(Rule::sliding_log("minute", Quota::per_minute(1)), 1);
    fill(Rule::sliding_log("hour", Quota::per_hour(1)), 1);
    fill(Rule::sliding_log("second", Quota::per_second(1)), 1);
    assert_eq!(headers.get_all("ratelimit").iter().count(), 3);
    assert_eq!(headers.get_all("retry-after").iter().collect::<Vec<_>>(), ["3600"]);
}

/// For every algorithm, on random traffic: a request passes after the seconds in the fields, the remaining permits can be
/// used, and an independent parser accepts every field.
#[test]
fn a_client_that_obeys_the_fields_passes() {
    let mut random = Random::new(0x70_11_6a_7e);
    let (mut denials, mut grants) = (0, 0);
    for kind in Kind::ALL {
        for _ in 0..200 {
            let mut fixture = Fixture::new([random.rule("rule", kind)], HeaderStyle::IetfAndX);
            for _ in 0..50 {
                let limit = fixture.ask(0, Verb::Peek).limit();
                let cost = random.between(1, limit.min(5));
                let lease = ratekeeper_core::LeaseId(random.below(1 << 50));
                let take = Verb::Take(Take::now().with_lease(lease));
                let decision = fixture.ask(cost, take);
                let fields = written(&fixture.fields, &decision);
                let ratelimit = field(&fields, "ratelimit").unwrap();
                let window = number(&ratelimit, "rule", "t");
                let remaining = number(&ratelimit, "rule", "r").unwrap();
                let policy = field(&fields, "ratelimit-policy").unwrap();
                let quota = number(&policy, "rule", "q").unwrap();
                // A shaped bucket admits no wait beyond `MAX_WAIT`, so a longer queue cannot be filled to its end.
                let too_long = number(&policy, "rule", "w").is_some_and(|w| w > MAX_WAIT.as_secs_ceil());
                assert!(remaining <= quota, "{kind:?}: {fields:?}");
                if decision.is_allowed() && !(kind == Kind::Shaped && too_long) {
                    grants += 1;
                    let at = fixture.now + Span::from_secs(window.unwrap_or(0));
                    let take = Verb::Take(Take::now().with_lease(ratekeeper_core::LeaseId(1 << 51)));
                    let later = fixture.policy.decide(&mut fixture.key.clone(), remaining, &take, at).decision;
                    assert!(later.is_allowed(), "{kind:?}: {fields:?} and then {later:?}");
                } else if !decision.is_allowed() {
                    denials += 1;
                    let retry: u64 = field(&fields, "retry-after").unwrap().parse().unwrap();
                    assert!(window.unwrap() <= retry, "{kind:?}: {fields:?}");
                    let reset: u64 = field(&fields, "x-ratelimit-reset").unwrap().parse().unwrap();
                    for wait in [retry, reset] {
                        let at = fixture.now + Span::from_secs(wait);
                        let later = fixture.policy.decide(&mut fixture.key.clone(), remaining, &take, at).decision;
                        assert!(later.is_allowed(), "{kind:?}: {fields:?} and then {later:?}");
                    }
                }
                fixture.now = fixture.now + Span::from_micros(random.below(400_000));
            }
        }
    }
    assert!(denials > 1_000 && grants > 1_000, "one-sided traffic: {grants} grants, {denials} denials");
}

/// The `t` of a bucket is the time to its next permit, in whole seconds.
#[test]
fn the_effective_window_of_a_bucket_ends_with_its_next_permit() {
    let rules = [
        Rule::token_bucket("drip", Quota::per_minute(6).burst(4)),
        Rule::token_bucket_stepwise("lump", Quota::per_minute(2).burst(5)),
    ];
    for rule in rules {
        let mut fixture = Fixture::new([rule], HeaderStyle::Ietf);
        fixture.take(3);
        fixture.now = fixture.now + Span::from_millis(3_200);
        let decision = fixture.ask(0, Verb::Peek);
        let t = number(
            &field(&written(&fixture.fields, &decision), "ratelimit").unwrap(),
            fixture.policy.rules()[0].name(),
            "t",
        );
        let left = |fixture: &Fixture, at| {
            fixture.policy.decide(&mut fixture.key.clone(), 0, &Verb::Peek, at).decision.remaining()
        };
        let end = Span::from_secs(t.unwrap());
        assert!(left(&fixture, fixture.now + end) > decision.remaining());
        assert_eq!(left(&fixture, fixture.now + end - Span::SECOND), decision.remaining());
    }
}
