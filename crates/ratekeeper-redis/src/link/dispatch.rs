//! Dispatch of one call: redirects, script reload and retries, within the deadline.
//!
//! Every further attempt follows a reply that proves that the call was not executed. A call without a reply is never
//! sent again.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use redis::{Cmd, Value};

use super::{
    call::{Call, Destination, Form, time_in},
    error::{CallError, NotExecuted},
    node::Node,
    outcome::{CallOutcome, ErrorReply, Redirect},
    topology::LiveTopology,
};
use crate::{address::HostPort, counters::Counters, events::Events};

/// What is sent.
#[derive(Debug)]
pub(super) enum Payload<'a> {
    Script(Call<'a>),
    Plain(&'a Cmd),
}

/// The state of one call.
#[derive(Debug)]
pub(super) struct Dispatch<'a> {
    topology: &'a LiveTopology,
    counters: &'a Counters,
    events: &'a Events,
    deadline: Instant,
    form: Form,
    /// The last redirect was `ASK`: the next node imports the slot and executes the command only after `ASKING`.
    asking: bool,
    hops: u32,
    /// Replies `TRYAGAIN`: the keys of the call are on both sides of a slot that is being moved.
    tries: u32,
    has_left_a_replica: bool,
}

impl<'a> Dispatch<'a> {
    pub(super) fn new(
        topology: &'a LiveTopology,
        counters: &'a Counters,
        events: &'a Events,
        deadline: Instant,
    ) -> Self {
        Self {
            topology,
            counters,
            events,
            deadline,
            form: Form::Hash,
            asking: false,
            hops: 0,
            tries: 0,
            has_left_a_replica: false,
        }
    }

    pub(super) async fn run(
        mut self,
        destination: Destination<'_>,
        mut payload: Payload<'_>,
    ) -> Result<Value, CallError> {
        let topology = self.topology;
        let found = topology.node_for(destination, self.deadline).await;
        let mut node = found.map_err(|error| error.at(topology.address()))?;
        loop {
            // Replies of our scripts carry the server's time, which keeps the clock estimate accurate.
            let is_script = matches!(payload, Payload::Script(_));
            let command = |deadline_us| match &mut payload {
                Payload::Script(call) => call.command(self.form, deadline_us),
                Payload::Plain(command) => (*command).clone(),
            };
            let time = |reply: &Value| if is_script { time_in(reply) } else { None };
            match node.ask(self.deadline, self.asking, command, time).await {
                CallOutcome::Answered(reply) => return Ok(reply.value),
                CallOutcome::NoScript if self.form == Form::Hash => {
                    self.counters.script_reloads.add_one();
                    if let Payload::Script(call) = &payload {
                        self.events.script_reloaded(&node.address(), call.script.hash());
                    }
                    self.form = Form::Text;
                }
                CallOutcome::NoScript => return Err(refused(ErrorReply::script_unknown(), node.address())),
                CallOutcome::Redirected(redirect) => node = self.follow(&redirect, &node)?,
                CallOutcome::NotExecuted(NotExecuted::ReadOnly) if !self.has_left_a_replica => {
                    self.has_left_a_replica = true;
                    node.reconnect();
                    if let LiveTopology::Cluster(cluster) = topology {
                        cluster.refresh();
                    }
                }
                CallOutcome::NotExecuted(NotExecuted::TryAgain) if self.may_try_again() => {
                    tokio::time::sleep(TRY_AGAIN).await;
                }
                CallOutcome::NotExecuted(why) => return Err(not_executed(why, node.address())),
                CallOutcome::Refused(refusal) => return Err(refused(refusal, node.address())),
                CallOutcome::Unknown { waited } => {
                    self.counters.ambiguous_calls.add_one();
                    return Err(CallError::Unknown { address: node.address(), waited });
                }
            }
        }
    }

    /// While a slot moves, its keys may be on both nodes for a short time.
    fn may_try_again(&mut self) -> bool {
        self.tries += 1;
        self.tries <= MAX_TRIES && Instant::now() + TRY_AGAIN < self.deadline
    }

    fn follow(&mut self, redirect: &Redirect, from: &Node) -> Result<Arc<Node>, CallError> {
        let sender = from.address();
        let LiveTopology::Cluster(cluster) = self.topology else {
            return Err(refused(ErrorReply::unexpected_cluster(), sender));
        };
        self.hops += 1;
        if self.hops > MAX_HOPS {
            return Err(not_executed(NotExecuted::TooManyHops { hops: MAX_HOPS }, sender));
        }
        self.counters.redirects_followed.add_one();
        self.events.redirected(redirect.slot, &sender, &redirect.to);
        self.asking = redirect.is_ask;
        // The next node may know the script.
        self.form = Form::Hash;
        let next = cluster.follow(redirect, &sender);
        next.ok_or_else(|| not_executed(NotExecuted::NoOwner { slot: redirect.slot }, sender))
    }
}

impl ErrorReply {
    fn unexpected_cluster() -> Self {
        Self { code: "MOVED".into(), message: "this server is one of a cluster; connect with redis+cluster://".into() }
    }

    fn script_unknown() -> Self {
        Self { code: "NOSCRIPT".into(), message: "the server does not know a script it was given in full".into() }
    }
}

fn not_executed(why: NotExecuted, address: HostPort) -> CallError {
    CallError::NotExecuted { address, why }
}

fn refused(ErrorReply { code, message }: ErrorReply, address: HostPort) -> CallError {
    CallError::Refused { address, code, message }
}

/// A key moves once, or twice in a busy reshard. More redirects are a cycle.
const MAX_HOPS: u32 = 3;
/// A slot of a few thousand keys has moved after this many pauses of [`TRY_AGAIN`].
const MAX_TRIES: u32 = 50;
const TRY_AGAIN: Duration = Duration::from_millis(4);
