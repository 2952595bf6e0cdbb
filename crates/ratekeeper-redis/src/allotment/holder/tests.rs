use ratekeeper_core::{
    Policy, Quota, Rule,
    store_api::{AllotmentCall, AllotmentReply, AllottedKey},
};

use super::*;

const START: Timestamp = Timestamp::from_secs(1_700_000_000);
const CONFIG: HolderConfig = HolderConfig {
    turn: Span::from_millis(100),
    hold: Span::from_millis(1_000),
    remember: Span::from_millis(50),
    hot_per_second: 0,
    largest_cost: 100,
};

/// A holder and its store. Both clocks start together; times are in ms.
struct Fixture {
    policy: Policy,
    key: AllottedKey,
    holder: Holder,
}

fn local(ms: u64) -> LocalTime {
    LocalTime(1_000_000 + ms * 1_000)
}

fn stored(ms: u64) -> Timestamp {
    START + Span::from_millis(ms)
}

impl Fixture {
    fn new() -> Self {
        let policy = Policy::new("p", [Rule::sliding_log("r", Quota::per_second(100))]).unwrap();
        let key = AllottedKey::new(policy.fresh());
        let mut fixture = Self { policy, key, holder: Holder::new(1, local(0)) };
        // The first permits.
        let mut call = fixture.holder.call(0, false, local(0), &CONFIG);
        call.want = 20;
        fixture.carry_out(&call, 0, 0);
        fixture
    }

    /// The store carries out the call and the holder reads its reply.
    fn carry_out(&mut self, call: &AllotmentCall, at_store: u64, read: u64) -> AllotmentReply {
        let reply = self.policy.allot(&mut self.key, call, [], stored(at_store)).reply.unwrap();
        self.holder.reply(call.seq, &reply, None, local(read), &CONFIG);
        reply
    }

    fn take(&mut self, ms: u64) -> bool {
        matches!(self.holder.take(1, local(ms), &CONFIG), Served::Granted { .. })
    }
}

/// A call that arrives after the end of the allotment: what was used meanwhile was charged at the end. It cannot be
/// returned and used again, since the store does not count it any more.
#[test]
fn what_the_store_has_charged_at_the_end_is_not_returned() {
    let mut fixture = Fixture::new();
    let mut call = fixture.holder.call(0, false, local(900), &CONFIG);
    call.want = 5;
    assert!(fixture.take(950));
    let reply = fixture.carry_out(&call, 1_100, 1_101);
    assert_eq!((reply.keep, fixture.holder.held()), (0, 5));
    assert!(!fixture.holder.give_back(1, local(1_102)));
    assert_eq!(fixture.holder.held(), 5);
}

/// The holder's permits have ended by its clock, but not by the store's, which receives a report. It states the time of
/// the last use.
#[test]
fn a_report_after_the_local_end_states_the_last_use() {
    let mut fixture = Fixture::new();
    assert!(fixture.take(990));
    assert!(!fixture.take(999));
    assert_eq!(fixture.holder.tick(local(999), &CONFIG), Action::None);
    let call = fixture.holder.call(0, false, local(999), &CONFIG);
    assert!(call.used_by >= stored(990) && call.used_by < stored(999), "{}", call.used_by);
    assert_eq!(call.used, 1);
}

/// Without a use since the last report, the time of the last use is unknown: it may be now.
#[test]
fn an_unknown_time_of_use_is_late() {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.holder.call(0, false, local(10), &CONFIG).used_by, MAX_TIME);
}

/// A reply that is read after the end of its permits grants nothing, and ends what an earlier reply has granted.
#[test]
fn a_reply_read_too_late_ends_the_allotment() {
    let mut fixture = Fixture::new();
    assert!(fixture.take(10));
    let short = HolderConfig { hold: Span::from_millis(200), ..CONFIG };
    let call = fixture.holder.call(0, false, local(20), &short);
    assert!(fixture.take(30));
    let reply = fixture.policy.allot(&mut fixture.key, &call, [], stored(21)).reply.unwrap();
    fixture.holder.reply(call.seq, &reply, None, local(300), &short);
    assert!(!fixture.holder.give_back(1, local(301)));
    assert_eq!(fixture.holder.held(), 0);
}

/// A call with a shorter hold moves the end in the store, whether its reply arrives or not.
#[test]
fn a_shorter_hold_counts_from_the_call() {
    let mut fixture = Fixture::new();
    let call = fixture.holder.call(0, false, local(100), &HolderConfig { hold: Span::from_millis(200), ..CONFIG });
    fixture.holder.failed(call.seq);
    assert!(fixture.take(299));
    assert!(!fixture.take(301));
}
