//! The scene of [`Mutant::EndedKept`]: a call that arrives after the end of the allotment that it keeps.
//!
//! ```text
//!      0 ms  the holder is granted 50 of 100 permits in any second, for a second
//!    990     it calls, and keeps them; the call arrives at 1 010, when the store has ended and charged them
//!  1 985     it uses them, if it has kept them: the charge leaves the window at 2 000, these uses at 2 985
//!  2 000     another process takes all 100
//! ```

use ratekeeper_core::{
    Policy, Quota, Rule, Span, Take, Timestamp, Verb,
    store_api::{AllotmentCall, AllottedKey},
};

use super::{
    checker::{Use, excess},
    mutants::{self, Mutant},
};
use crate::allotment::{Holder, HolderConfig, LocalTime, Served, SharedHolder};

const START: Timestamp = Timestamp::from_secs(1_700_000_000);
const CONFIG: HolderConfig = HolderConfig {
    turn: Span::from_millis(100),
    hold: Span::from_millis(1_000),
    remember: Span::from_millis(50),
    hot_per_second: 0,
    largest_cost: 25,
};

struct LateCallScene {
    mutant: Option<Mutant>,
    policy: Policy,
    key: AllottedKey,
    holder: SharedHolder<()>,
    uses: Vec<Use>,
}

impl LateCallScene {
    fn new(mutant: Option<Mutant>) -> Self {
        let policy = Policy::new("p", [Rule::sliding_log("r", Quota::per_second(100))]).unwrap();
        let holder = SharedHolder::new(Holder::new(1, LocalTime(0)), CONFIG, 0, ());
        Self { mutant, key: AllottedKey::new(policy.fresh()), policy, holder, uses: Vec::new() }
    }

    /// The holder calls and reads the reply at these times, in ms.
    fn call(&mut self, [asked, arrives, read]: [u64; 3], want: u64) {
        let mut call = self.holder.lock(|| local(asked)).holder.call(0, false, local(asked), &CONFIG);
        call.want = want;
        let mut sent: AllotmentCall = call;
        let now = START + Span::from_millis(arrives);
        let tampered = mutants::before_call(self.mutant, &self.policy, &mut self.key, &mut sent, now);
        let mut reply = self.policy.allot(&mut self.key, &sent, [], now).reply.unwrap();
        mutants::after_call(self.mutant, tampered, &mut self.key, &call, &mut reply);
        let mut guard = self.holder.lock(|| local(read));
        guard.holder.reply(call.seq, &reply, None, local(read), &CONFIG);
        guard.note(&reply.status);
    }

    /// The holder uses what it has.
    fn use_all(&mut self, at: u64) {
        loop {
            let granted = match self.holder.take_open(1, false, 0, local(at)) {
                Some(decision) => decision.is_allowed(),
                None => matches!(self.holder.lock(|| local(at)).take(1), Served::Granted { .. }),
            };
            if !granted {
                return;
            }
            self.record(at, 1);
        }
    }

    /// Another process takes as much as the store admits.
    fn take_rest(&mut self, at: u64) {
        let (take, now) = (Verb::Take(Take::now()), START + Span::from_millis(at));
        while self.policy.decide_allotted(&mut self.key, 1, &take, now).decision.is_allowed() {
            self.record(at, 1);
        }
    }

    fn record(&mut self, at: u64, permits: i64) {
        let order = self.uses.len();
        self.uses.push(Use { at: at * 1_000, store_at: START + Span::from_millis(at), order, permits });
    }

    fn run(mut self) -> (usize, u64) {
        self.call([0, 0, 1], 50);
        self.call([990, 1_010, 1_011], 0);
        self.use_all(1_985);
        self.take_rest(2_000);
        (self.uses.len(), excess(self.policy.rules()[0].algorithm(), &self.uses, &[]))
    }
}

fn local(ms: u64) -> LocalTime {
    LocalTime(5_000_000 + ms * 1_000)
}

#[test]
fn permits_that_the_store_has_ended_are_not_kept() {
    assert_eq!(LateCallScene::new(None).run(), (100, 0), "uses, and how many are too many");
    assert_eq!(LateCallScene::new(Some(Mutant::EndedKept)).run(), (150, 50));
}
