//! One call on its way: from node to node until there is an answer, or nothing more that may be tried.
//!
//! Every step taken here follows a reply that says "not carried out". Silence ends the walk.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use redis::{Cmd, Value};

use super::{
    Whom,
    call::{Call, Form, time_in},
    dial::{DialError, Told},
    error::{CallError, NotRun},
    fate::{Answer, Fate, Redirect, Refusal},
    node::Node,
    route::Route,
};
use crate::{address::HostPort, counters::Counters};

/// What is to be done.
#[derive(Debug)]
pub(super) enum Errand<'a> {
    Script(Call<'a>),
    Plain(&'a Cmd),
}

/// The state of one call.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    route: &'a Route,
    counters: &'a Counters,
    deadline: Instant,
    form: Form,
    /// The next node has not got the key yet; it must be told that another has sent us.
    asking: bool,
    hops: u32,
    /// How often the keys of the call were found on both sides of a move.
    tries: u32,
    has_left_a_replica: bool,
}

impl<'a> Walk<'a> {
    pub(super) fn new(route: &'a Route, counters: &'a Counters, deadline: Instant) -> Self {
        Self {
            route,
            counters,
            deadline,
            form: Form::Hash,
            asking: false,
            hops: 0,
            tries: 0,
            has_left_a_replica: false,
        }
    }

    pub(super) async fn run(mut self, whom: Whom<'_>, mut errand: Errand<'_>) -> Result<Value, CallError> {
        let route = self.route;
        let found = route.node_for(whom, self.deadline).await;
        let mut node = found.map_err(|error| match error {
            DialError::NotRun(why) => not_run(why, route.place()),
            DialError::Refused(refusal) => refused(refusal, route.place()),
        })?;
        loop {
            let fate = node.ask(self.deadline, self.asking, |deadline_us| match &mut errand {
                Errand::Script(call) => call.command(self.form, deadline_us),
                Errand::Plain(command) => (*command).clone(),
            });
            match fate.await {
                Fate::Answered(answer) => {
                    if matches!(errand, Errand::Script(_)) {
                        hear_time(&node, &answer);
                    }
                    return Ok(answer.value);
                }
                Fate::NoScript if self.form == Form::Hash => {
                    self.counters.script_reloads.add_one();
                    self.form = Form::Text;
                }
                Fate::NoScript => return Err(refused(Refusal::forgetful(), node.place())),
                Fate::Elsewhere(redirect) => node = self.follow(&redirect, &node)?,
                Fate::NotRun(NotRun::ReadOnly) if !self.has_left_a_replica => {
                    self.has_left_a_replica = true;
                    node.leave();
                    if let Route::Cluster(cluster) = route {
                        cluster.refresh();
                    }
                }
                Fate::NotRun(NotRun::TryAgain) if self.may_try_again() => tokio::time::sleep(TRY_AGAIN).await,
                Fate::NotRun(why) => return Err(not_run(why, node.place())),
                Fate::Refused(refusal) => return Err(refused(refusal, node.place())),
                Fate::Unknown { waited } => {
                    self.counters.ambiguous_calls.add_one();
                    return Err(CallError::Unknown { address: node.place(), waited });
                }
            }
        }
    }

    /// Some keys of a slot that moves are here and some there; a moment later they are together.
    fn may_try_again(&mut self) -> bool {
        self.tries += 1;
        self.tries <= MAX_TRIES && Instant::now() + TRY_AGAIN < self.deadline
    }

    fn follow(&mut self, redirect: &Redirect, from: &Node) -> Result<Arc<Node>, CallError> {
        let teller = from.place();
        let Route::Cluster(cluster) = self.route else { return Err(refused(Refusal::of_a_cluster(), teller)) };
        self.hops += 1;
        if self.hops > MAX_HOPS {
            return Err(not_run(NotRun::TooManyHops { hops: MAX_HOPS }, teller));
        }
        self.counters.redirects_followed.add_one();
        self.asking = redirect.is_for_once;
        // The next node may well know the script.
        self.form = Form::Hash;
        let next = cluster.follow(redirect, &teller);
        next.ok_or_else(|| not_run(NotRun::NoOwner { slot: redirect.slot }, teller))
    }
}

impl Refusal {
    fn of_a_cluster() -> Self {
        Self { code: "MOVED".into(), message: "this server is one of a cluster; connect with redis+cluster://".into() }
    }

    fn forgetful() -> Self {
        Self { code: "NOSCRIPT".into(), message: "the server does not know a script it was given in full".into() }
    }
}

fn not_run(why: NotRun, address: HostPort) -> CallError {
    CallError::NotRun { address, why }
}

fn refused(Refusal { code, message }: Refusal, address: HostPort) -> CallError {
    CallError::Refused { address, code, message }
}

/// Answers of our scripts tell the time; that keeps the estimate fresh where it matters.
fn hear_time(node: &Node, answer: &Answer) {
    if let Some(server) = time_in(&answer.value) {
        node.hear(Told { server, asked: answer.asked, answered: answer.answered });
    }
}

/// A key moves once, or twice in a very busy reshard; whoever is sent on more often walks in a circle.
const MAX_HOPS: u32 = 3;
/// A slot of a few thousand keys has moved after so many pauses of this length.
const MAX_TRIES: u32 = 50;
const TRY_AGAIN: Duration = Duration::from_millis(4);
