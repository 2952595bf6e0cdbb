use sfv::{BareItem, List, ListEntry, Parser};
use tollgate_core::{Micros, Quota, Rule, Subject, Take, Verb, bounds::MAX_WAIT};
use tollgate_testkit::random::{Kind, Random};

use super::*;

/// One key under one policy, and the fields of its latest decision.
struct Desk {
    policy: Policy,
    fields: RateLimitFields,
    key: Subject,
    now: Micros,
}

impl Desk {
    fn new(rules: impl IntoIterator<Item = Rule>, style: HeaderStyle) -> Self {
        let policy = Policy::new("api", rules).unwrap();
        let fields = RateLimitFields::new(&policy, style);
        Self { key: policy.fresh(), policy, fields, now: Micros::from_secs(1_768_212_847) }
    }

    fn ask(&mut self, verb: Verb) -> Decision {
        self.policy.decide(&mut self.key, &verb, self.now).decision
    }

    fn take(&mut self, cost: u64) -> Vec<(String, String)> {
        let decision = self.ask(Verb::Take(Take::now(cost)));
        told(&self.fields, &decision)
    }
}

fn told(fields: &RateLimitFields, decision: &Decision) -> Vec<(String, String)> {
    let mut told = Vec::new();
    fields.for_each(decision, |name, value| told.push((name.to_owned(), value.to_owned())));
    told
}

fn field(told: &[(String, String)], name: &str) -> Option<String> {
    told.iter().find(|(field, _)| field == name).map(|(_, value)| value.clone())
}

/// A list of strings with parameters, read by somebody else's parser: (name, [(parameter, value)]).
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
fn every_rule_is_told_in_the_words_of_the_draft() {
    let rules = [
        Rule::token_bucket("burst", Quota::per_second(100).burst(200)),
        Rule::sliding_log("daily", Quota::per_day(10_000)),
    ];
    let told = Desk::new(rules, HeaderStyle::Ietf).take(1);
    assert_eq!(field(&told, "ratelimit-policy").unwrap(), r#""burst";q=200;w=2, "daily";q=10000;w=86400"#);
    assert_eq!(field(&told, "ratelimit").unwrap(), r#""burst";r=199;t=1, "daily";r=9999;t=86400"#);
    assert_eq!(told.len(), 2, "nothing else: {told:?}");
}

#[test]
fn a_refusal_names_the_rules_that_refuse_and_the_wait_once() {
    let rules = [
        Rule::sliding_log("minute", Quota::per_minute(3)),
        Rule::fixed_window("day", Quota::per_day(1000)).align(tollgate_core::Align::FirstRequest),
    ];
    let mut desk = Desk::new(rules, HeaderStyle::Ietf);
    desk.take(3);
    desk.now = desk.now + Micros::from_millis(17_300);
    let told = desk.take(2);
    assert_eq!(field(&told, "ratelimit").unwrap(), r#""minute";r=0;t=43"#);
    assert_eq!(field(&told, "retry-after").unwrap(), "43");
    let decision = desk.ask(Verb::Take(Take::now(2)));
    assert_eq!(desk.fields.violated(&decision).collect::<Vec<_>>(), ["minute"]);
}

#[test]
fn what_can_never_pass_is_not_told_to_come_back() {
    let mut desk = Desk::new([Rule::token_bucket("burst", Quota::per_second(5))], HeaderStyle::Ietf);
    let told = desk.take(6);
    assert_eq!(field(&told, "retry-after"), None);
    assert_eq!(field(&told, "ratelimit-policy").unwrap(), r#""burst";q=5;w=1"#);
    assert_eq!(field(&told, "ratelimit").unwrap(), r#""burst";r=5"#);
}

#[test]
fn a_blocked_key_has_nothing_left() {
    let mut desk = Desk::new([Rule::token_bucket("burst", Quota::per_second(5))], HeaderStyle::IetfAndX);
    let _ = desk.ask(Verb::Block { span: Micros::from_millis(2_500) });
    let told = desk.take(1);
    assert_eq!(field(&told, "ratelimit").unwrap(), r#""burst";r=0;t=3"#);
    assert_eq!(field(&told, "retry-after").unwrap(), "3");
    assert_eq!(field(&told, "x-ratelimit-remaining").unwrap(), "0");
    assert_eq!(field(&told, "x-ratelimit-reset").unwrap(), "3");
}

#[test]
fn windows_below_a_second_and_months_have_no_w() {
    let policy = |rule| field(&Desk::new([rule], HeaderStyle::Ietf).take(1), "ratelimit-policy").unwrap();
    let tenth = Quota::per_micros(10, Micros::from_millis(100));
    assert_eq!(policy(Rule::sliding_log("fast", tenth)), r#""fast";q=10"#);
    let month = tollgate_core::Align::Calendar(tollgate_core::UtcOffset::hours(0));
    assert_eq!(policy(Rule::fixed_window("mo", Quota::per_month(9)).align(month)), r#""mo";q=9"#);
    let odd = Quota::per_micros(10, Micros::from_millis(1_500));
    assert_eq!(policy(Rule::sliding_log("odd", odd)), r#""odd";q=10;w=2"#);
}

#[test]
fn concurrency_is_counted_in_concurrent_requests() {
    let mut desk = Desk::new([Rule::concurrency("slots", 2, std::time::Duration::from_secs(30))], HeaderStyle::Ietf);
    let told = desk.take(1);
    assert_eq!(field(&told, "ratelimit-policy").unwrap(), r#""slots";q=2;qu="concurrent-requests""#);
    assert_eq!(field(&told, "ratelimit").unwrap(), r#""slots";r=1"#);
}

#[test]
fn rules_that_only_watch_are_not_shown() {
    let watch = Rule::token_bucket("watch", Quota::per_second(1)).shadow(true);
    let mut desk = Desk::new([watch.clone(), Rule::token_bucket("burst", Quota::per_second(5))], HeaderStyle::Ietf);
    for told in [desk.take(1), desk.take(1)] {
        assert_eq!(field(&told, "ratelimit-policy").unwrap(), r#""burst";q=5;w=1"#);
        assert!(field(&told, "ratelimit").unwrap().starts_with(r#""burst";"#));
    }
    for style in [HeaderStyle::Ietf, HeaderStyle::Ietf06, HeaderStyle::XRateLimit] {
        assert_eq!(Desk::new([watch.clone()], style).take(1), [], "{style:?}");
    }
}

#[test]
fn the_older_styles_tell_of_the_rule_that_decided() {
    let rules = || [Rule::token_bucket("burst", Quota::per_second(3)), Rule::sliding_log("day", Quota::per_day(100))];
    let told = Desk::new(rules(), HeaderStyle::XRateLimit).take(1);
    let expected = [("x-ratelimit-limit", "3"), ("x-ratelimit-remaining", "2"), ("x-ratelimit-reset", "1")];
    assert_eq!(told, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));

    let mut desk = Desk::new(rules(), HeaderStyle::Ietf06);
    desk.take(3);
    let told = desk.take(1);
    let expected =
        [("ratelimit-limit", "3"), ("ratelimit-remaining", "0"), ("ratelimit-reset", "1"), ("retry-after", "1")];
    assert_eq!(told, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));

    let mut desk = Desk::new(rules(), HeaderStyle::None);
    desk.take(3);
    assert_eq!(desk.take(1), [("retry-after".to_owned(), "1".to_owned())]);
}

#[test]
fn rules_of_several_policies_go_by_both_names() {
    let rule = || [Rule::token_bucket("burst", Quota::per_second(5))];
    let policies = [Policy::new("user", rule()).unwrap(), Policy::new("tenant", rule()).unwrap()];
    let fields = RateLimitFields::of_several(&policies, HeaderStyle::Ietf);
    let mut value = String::new();
    let decision = policies[0].decide(&mut policies[0].fresh(), &Verb::Peek, Micros(1)).decision;
    fields.for_each(&decision, |name, told| {
        if name == "ratelimit-policy" {
            value = told.to_owned();
        }
    });
    assert_eq!(value, r#""user/burst";q=5;w=1, "tenant/burst";q=5;w=1"#);
}

#[test]
fn nothing_is_told_of_what_nobody_counted() {
    let mut desk = Desk::new([Rule::token_bucket("burst", Quota::per_second(5))], HeaderStyle::IetfAndX);
    let mut decision = desk.ask(Verb::Take(Take::now(1)));
    decision.source = Source::Open;
    let told = told(&desk.fields, &decision);
    assert_eq!(told, [("ratelimit-policy".to_owned(), r#""burst";q=5;w=1"#.to_owned())]);
}

#[test]
fn two_layers_add_to_each_others_lists_and_the_longer_wait_stands() {
    let mut headers = HeaderMap::new();
    let mut fill = |rule: Rule, cost| {
        let mut desk = Desk::new([rule], HeaderStyle::Ietf);
        let _ = desk.take(cost);
        let decision = desk.ask(Verb::Take(Take::now(cost)));
        desk.fields.insert_into(&decision, &mut headers);
    };
    fill(Rule::sliding_log("minute", Quota::per_minute(1)), 1);
    fill(Rule::sliding_log("hour", Quota::per_hour(1)), 1);
    fill(Rule::sliding_log("second", Quota::per_second(1)), 1);
    assert_eq!(headers.get_all("ratelimit").iter().count(), 3);
    assert_eq!(headers.get_all("retry-after").iter().collect::<Vec<_>>(), ["3600"]);
}

/// The promise of the whole file, for every algorithm, on random traffic: whoever waits as many seconds as the fields
/// say passes, whoever uses what they say is left is let through, and every field is one the parser understands.
#[test]
fn whoever_obeys_passes() {
    let mut random = Random::new(0x70_11_6a_7e);
    let (mut refusals, mut grants) = (0, 0);
    for kind in Kind::ALL {
        for _ in 0..200 {
            let mut desk = Desk::new([random.rule("rule", kind)], HeaderStyle::IetfAndX);
            for _ in 0..50 {
                let limit = desk.ask(Verb::Peek).limit();
                let cost = random.between(1, limit.min(5));
                let lease = tollgate_core::LeaseId(random.below(1 << 50));
                let take = Verb::Take(Take::now(cost).held_as(lease));
                let decision = desk.ask(take);
                let told = told(&desk.fields, &decision);
                let ratelimit = field(&told, "ratelimit").unwrap();
                let window = number(&ratelimit, "rule", "t");
                let remaining = number(&ratelimit, "rule", "r").unwrap();
                let policy = field(&told, "ratelimit-policy").unwrap();
                let quota = number(&policy, "rule", "q").unwrap();
                // A shaped bucket tells no wait beyond 100 days, so a longer queue cannot be filled to its end.
                let too_long = number(&policy, "rule", "w").is_some_and(|w| w > MAX_WAIT.as_secs_ceil());
                assert!(remaining <= quota, "{kind:?}: {told:?}");
                if decision.is_allowed() && !(kind == Kind::Shaped && too_long) {
                    grants += 1;
                    let at = desk.now + Micros::from_secs(window.unwrap_or(0));
                    let take = Verb::Take(Take::now(remaining).held_as(tollgate_core::LeaseId(1 << 51)));
                    let later = desk.policy.decide(&mut desk.key.clone(), &take, at).decision;
                    assert!(later.is_allowed(), "{kind:?}: {told:?} and then {later:?}");
                } else if !decision.is_allowed() {
                    refusals += 1;
                    let retry: u64 = field(&told, "retry-after").unwrap().parse().unwrap();
                    assert!(window.unwrap() <= retry, "{kind:?}: {told:?}");
                    let reset: u64 = field(&told, "x-ratelimit-reset").unwrap().parse().unwrap();
                    for wait in [retry, reset] {
                        let at = desk.now + Micros::from_secs(wait);
                        let later = desk.policy.decide(&mut desk.key.clone(), &take, at).decision;
                        assert!(later.is_allowed(), "{kind:?}: {told:?} and then {later:?}");
                    }
                }
                desk.now = desk.now + Micros(random.below(400_000));
            }
        }
    }
    assert!(refusals > 1_000 && grants > 1_000, "the traffic was one-sided: {grants} grants, {refusals} refusals");
}

/// A bucket's `t` is the time to its next permit, to the second.
#[test]
fn a_buckets_window_ends_with_its_next_permit() {
    let rules = [
        Rule::token_bucket("drip", Quota::per_minute(6).burst(4)),
        Rule::token_bucket("lump", Quota::per_minute(2).burst(5)).stepwise(),
    ];
    for rule in rules {
        let mut desk = Desk::new([rule], HeaderStyle::Ietf);
        desk.take(3);
        desk.now = desk.now + Micros::from_millis(3_200);
        let decision = desk.ask(Verb::Peek);
        let t =
            number(&field(&told(&desk.fields, &decision), "ratelimit").unwrap(), desk.policy.rules()[0].name(), "t");
        let left = |desk: &Desk, at| desk.policy.decide(&mut desk.key.clone(), &Verb::Peek, at).decision.remaining();
        let end = Micros::from_secs(t.unwrap());
        assert!(left(&desk, desk.now + end) > decision.remaining());
        assert_eq!(left(&desk, desk.now + end - Micros::SECOND), decision.remaining());
    }
}
