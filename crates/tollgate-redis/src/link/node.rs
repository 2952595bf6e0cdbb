//! One server: a connection that others keep up, a breaker, a clock, and a bound on what is under way.
//!
//! Callers never dial. They take the connection that is there, wait for one that is being made, or hear at once why there
//! is none. The keeper, in the background, does the rest.

mod keeper;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use redis::Cmd;
use tokio::{
    sync::{Notify, Semaphore, watch},
    time::{timeout, timeout_at},
};
use tollgate_core::Micros;

use super::{
    background::Background,
    backoff::Backoff,
    breaker::{Breaker, Change, Event},
    clock::ServerClock,
    dial::{DialError, Dialer, Greeted, Told},
    error::NotRun,
    fate::Fate,
    random::Random,
    sentinel::Sentinels,
    settings::LinkSettings,
    wire::Wire,
};
use crate::{address::HostPort, counters::Counters};

/// A server, as callers see it.
#[derive(Debug)]
pub(super) struct Node {
    shared: Arc<Shared>,
    keeper: Background,
}

/// Where a node's server is to be found.
#[derive(Debug)]
pub(super) enum Whereabouts {
    Fixed(HostPort),
    /// Wherever the sentinels say.
    Watched(Box<Sentinels>),
}

/// What every node of a link has in common.
#[derive(Clone, Debug)]
pub(super) struct Common {
    pub(super) dialer: Arc<Dialer>,
    pub(super) settings: LinkSettings,
    pub(super) counters: Arc<Counters>,
    /// Told whenever a node loses its connection or cannot get one.
    pub(super) trouble: Arc<Notify>,
}

/// What callers and the keeper share.
#[derive(Debug)]
struct Shared {
    whereabouts: Whereabouts,
    common: Common,
    line: watch::Sender<Line>,
    health: Mutex<Health>,
    in_flight: Semaphore,
    /// Wakes the keeper: the breaker has opened, or the connection was given up.
    wake: Notify,
}

/// The connection, or why there is none.
#[derive(Clone, Debug)]
enum Line {
    /// Being made for the first time, or again after one was lost. Worth waiting for.
    Dialing,
    Up(Arc<Wire>),
    /// The last dial came to nothing. Being tried again, but nobody waits for it.
    Down(DialError),
}

#[derive(Debug)]
struct Health {
    breaker: Breaker,
    clock: ServerClock,
    /// When the server was last heard of.
    heard: Option<Instant>,
}

/// How a node is doing, for people.
#[derive(Clone, Debug)]
pub(crate) struct NodeState {
    /// Where it is, or was last.
    pub(crate) place: HostPort,
    pub(crate) is_connected: bool,
    /// Nothing wrong, or what is: no connection, or a breaker that is open.
    pub(crate) trouble: Option<String>,
    pub(crate) is_breaker_closed: bool,
    /// What its clock shows, and how far off that may be.
    pub(crate) clock: Option<(Micros, Duration)>,
}

impl Node {
    pub(super) fn new(whereabouts: Whereabouts, common: Common) -> Arc<Self> {
        let random = Random::new();
        let breaker = Breaker::new(common.settings.breaker.clone(), random);
        let shared = Shared {
            whereabouts,
            line: watch::Sender::new(Line::Dialing),
            health: Mutex::new(Health { breaker, clock: ServerClock::default(), heard: None }),
            in_flight: Semaphore::new(common.settings.max_in_flight.clamp(1, Semaphore::MAX_PERMITS)),
            wake: Notify::new(),
            common,
        };
        let node = Arc::new(Self { shared: Arc::new(shared), keeper: Background::default() });
        node.be_kept();
        node
    }

    /// Where it is, or was last known to be.
    pub(super) fn place(&self) -> HostPort {
        self.shared.place()
    }

    /// Asks, once. `command` is given the deadline as the server's own clock will show it, in microseconds.
    pub(super) async fn ask(&self, deadline: Instant, asking: bool, command: impl FnOnce(f64) -> Cmd) -> Fate {
        self.be_kept();
        let Ok(_place) = self.shared.in_flight.try_acquire() else { return Fate::NotRun(NotRun::TooBusy) };
        if !self.shared.health.lock().breaker.is_closed() {
            return Fate::NotRun(NotRun::BreakerOpen);
        }
        let wire = match self.wire(deadline).await {
            Ok(wire) => wire,
            Err(error) => return error.into(),
        };
        let command = command(self.stamp(deadline));
        let asked = Instant::now();
        if asked >= deadline {
            return Fate::NotRun(NotRun::OutOfTime);
        }
        // From here on the command may be on its way.
        let mut reply = std::pin::pin!(wire.ask(&command, asking));
        let fate = match timeout_at(deadline.into(), &mut reply).await {
            Ok(reply) => Fate::of(reply, asked),
            Err(_) => match self.read_on(reply, asked, deadline.elapsed()).await {
                Some(fate) => fate,
                // Nothing can be said of the server: this process was not there to hear it.
                None => return Fate::Unknown { waited: asked.elapsed() },
            },
        };
        self.learn_from(&fate, &wire);
        fate
    }

    /// The deadline has passed, but a reply that has arrived counts: it may lie in the socket, unread because the task
    /// that reads has had no turn yet. It is given twice as long as this task was late, and half a deadline at least.
    /// Nothing runs late by that: scripts are stamped with the deadline, and a reply that is not "too late" was made in
    /// time. `None` if this process was held up all the while, so that nothing can be said about the server.
    async fn read_on(
        &self,
        reply: impl Future<Output = redis::RedisResult<redis::Value>>,
        asked: Instant,
        late: Duration,
    ) -> Option<Fate> {
        let counters = &self.shared.common.counters;
        let least = (self.shared.common.settings.deadline / 2).min(LEAST_GRACE);
        let (began, grace) = (Instant::now(), late.saturating_mul(2).clamp(least, MOST_GRACE));
        if let Ok(reply) = timeout(grace, reply).await {
            counters.replies_read_late.add_one();
            return Some(Fate::of(reply, asked));
        }
        if late > OWN_DELAY && began.elapsed().saturating_sub(grace) > OWN_DELAY {
            counters.silent_by_own_delay.add_one();
            return None;
        }
        counters.silent_store.add_one();
        Some(Fate::Unknown { waited: asked.elapsed() })
    }

    /// The server has told its time.
    pub(super) fn hear(&self, told: Told) {
        self.shared.health.lock().clock.hear(told.server, told.asked, told.answered);
    }

    /// What the server's clock shows now, and how far off that may be.
    pub(super) fn clock(&self) -> Option<(Micros, Duration)> {
        let now = Instant::now();
        let health = self.shared.health.lock();
        Some((health.clock.at(now)?, health.clock.doubt(now)?))
    }

    /// Gives the connection up for a new one: it leads to a server that is not in charge any more.
    pub(super) fn leave(&self) {
        self.shared.hang_up();
    }

    pub(super) fn is_connected(&self) -> bool {
        matches!(&*self.shared.line.borrow(), Line::Up(wire) if !wire.is_closed())
    }

    /// Whether it has answered since the start.
    pub(super) fn was_reached(&self) -> bool {
        self.shared.health.lock().heard.is_some()
    }

    pub(super) fn state(&self) -> NodeState {
        let (place, is_connected, clock) = (self.place(), self.is_connected(), self.clock());
        let (is_breaker_closed, is_known) = {
            let health = self.shared.health.lock();
            (health.breaker.is_closed(), health.heard.is_some())
        };
        let trouble = match &*self.shared.line.borrow() {
            Line::Down(error) => Some(error.to_string()),
            Line::Dialing if !is_known => Some(NOT_YET.to_owned()),
            // A connection that is being replaced is no news: the dial that follows will tell.
            Line::Dialing | Line::Up(_) if is_breaker_closed => None,
            Line::Dialing | Line::Up(_) => {
                let deadline = self.shared.common.settings.deadline;
                Some(format!("too many calls had no answer within {deadline:?}; left alone until it is well again"))
            }
        };
        NodeState { place, is_connected, trouble, is_breaker_closed, clock }
    }

    /// The connection: at once if there is one or surely none, else when it is made or the time is up.
    async fn wire(&self, deadline: Instant) -> Result<Arc<Wire>, DialError> {
        if let Line::Up(wire) = &*self.shared.line.borrow()
            && !wire.is_closed()
        {
            return Ok(wire.clone());
        }
        let mut line = self.shared.line.subscribe();
        let settled = line.wait_for(|line| match line {
            Line::Up(wire) => !wire.is_closed(),
            Line::Down(_) => true,
            Line::Dialing => false,
        });
        let too_late = Err(DialError::NotRun(NotRun::OutOfTime));
        let Ok(Ok(line)) = timeout_at(deadline.into(), settled).await else { return too_late };
        match &*line {
            Line::Up(wire) => Ok(wire.clone()),
            Line::Down(error) => Err(error.clone()),
            Line::Dialing => too_late,
        }
    }

    /// The deadline by the server's clock. While that is unknown, no deadline at all: better a late charge than none.
    fn stamp(&self, deadline: Instant) -> f64 {
        let at = self.shared.health.lock().clock.at(deadline);
        // Microseconds since 1970 are exact in a double until 2255.
        at.map_or(f64::INFINITY, |micros| micros.get() as f64)
    }

    fn learn_from(&self, fate: &Fate, wire: &Wire) {
        let event = match fate {
            Fate::NotRun(why) if why.is_sick() => Event::Failed,
            Fate::Unknown { .. } if wire.is_closed() => {
                if !wire.is_news_of_its_end() {
                    return;
                }
                Event::Failed
            }
            // Whoever came with hardly any time left has not learnt much.
            Fate::Unknown { waited } if *waited * 2 < self.shared.common.settings.deadline => return,
            Fate::Unknown { .. } => Event::Failed,
            _ => Event::Answered,
        };
        self.shared.judge(event);
    }

    fn be_kept(&self) {
        self.keeper.ensure(|| keeper::keep(self.shared.clone()));
    }
}

impl Shared {
    fn place(&self) -> HostPort {
        match (&self.whereabouts, &*self.line.borrow()) {
            (_, Line::Up(wire)) => wire.place.clone(),
            (Whereabouts::Fixed(place), _) => place.clone(),
            (Whereabouts::Watched(sentinels), _) => {
                sentinels.places().first().cloned().unwrap_or_else(|| HostPort::new("nowhere", 0))
            }
        }
    }

    async fn dial(&self) -> Result<Greeted, DialError> {
        match &self.whereabouts {
            Whereabouts::Fixed(place) => self.common.dialer.dial(place).await,
            Whereabouts::Watched(sentinels) => sentinels.dial_primary(&self.common.dialer).await,
        }
    }

    /// Waits until another server is in charge; for ever, where nobody would tell.
    async fn deposed(&self, primary: &HostPort) {
        match &self.whereabouts {
            Whereabouts::Fixed(_) => std::future::pending().await,
            Whereabouts::Watched(sentinels) => sentinels.deposed(primary).await,
        }
    }

    /// Lets go of the connection, if there is one. Those who wait on it still get their answers.
    fn hang_up(&self) {
        let left = self.line.send_if_modified(|line| {
            let is_up = matches!(line, Line::Up(_));
            if is_up {
                *line = Line::Dialing;
            }
            is_up
        });
        if left {
            self.wake.notify_one();
        }
    }

    fn judge(&self, event: Event) {
        let now = Instant::now();
        let change = {
            let mut health = self.health.lock();
            if matches!(event, Event::Answered | Event::Probed) {
                health.heard = Some(now);
            }
            health.breaker.on(event, now)
        };
        match change {
            Some(Change::Opened) => {
                self.common.counters.breaker_opened.add_one();
                // The keeper may be asleep until the next pulse.
                self.wake.notify_one();
            }
            Some(Change::Closed) => self.common.counters.breaker_closed.add_one(),
            None => {}
        }
    }
}

/// A timer that fires later than this after its moment was held up by this process or its machine. Timers are a
/// millisecond or two late by themselves.
const OWN_DELAY: Duration = Duration::from_millis(5);
/// How long after the deadline a reply is still looked for that may have been made before it: half a deadline, at most
/// this long, where timers are punctual; and longer where they are not. With 12 ms, Envoy's 20 are kept.
const LEAST_GRACE: Duration = Duration::from_millis(8);
const MOST_GRACE: Duration = Duration::from_millis(50);
/// Of a server that has not been heard of since the start.
pub(super) const NOT_YET: &str = "it has not answered yet";
