//! Commands of one connection that are under way at the same time, and their answers in the order they were asked in.
//!
//! Where limits are kept in this process every command is answered at once, and nothing of this is used. Where they are
//! kept in Redis, a client that sends sixteen commands in one piece should wait for one round trip, not for sixteen:
//!
//! ```text
//!   asked     a  b  PING  a  c          a, b and c go out together; the second a waits for the first,
//!   answered  a  b  PING  a  c          since what it is told depends on it
//! ```
//!
//! Commands about one counter are decided in the order they came in, one after the other: only the answer tells that a
//! command was carried out and not turned back at the door, to be sent again behind the others (a script that a server
//! does not know yet, a value that other numbers have left).

use std::{collections::VecDeque, future::Future, pin::Pin, sync::Arc};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::sync::Semaphore;

use super::{
    commands::{self, Waiting},
    frame::{Command, Words},
    reply::{Protocol, Replies},
    session::Session,
    transaction::{Step, Transaction},
};

/// What one connection has asked and not been answered yet.
pub(crate) struct Pipeline {
    /// In the order asked. The first has the number `first`.
    slots: VecDeque<Slot>,
    first: u64,
    under_way: FuturesUnordered<UnderWay>,
    /// How many slots are still to be begun.
    held_back: usize,
    /// What all connections together may have under way beyond one command each.
    places: Arc<Semaphore>,
}

/// A command's answer, when there is one.
type UnderWay = Pin<Box<dyn Future<Output = (u64, Vec<u8>)> + Send>>;

enum Slot {
    Answered(Vec<u8>),
    /// The store has been asked.
    UnderWay {
        lane: u64,
    },
    /// It will be.
    HeldBack(Waiting),
}

impl Pipeline {
    pub(crate) fn new(places: Arc<Semaphore>) -> Self {
        Self { slots: VecDeque::new(), first: 0, under_way: FuturesUnordered::new(), held_back: 0, places }
    }

    /// Answers a command, or begins to. What has been answered and everything before it goes into the replies.
    #[inline]
    pub(crate) async fn answer(&mut self, session: &mut Session, command: Command<'_>, replies: &mut Replies) {
        if let Some(transaction) = session.transaction.take() {
            return self.within(transaction, session, command, replies).await;
        }
        self.carry_out(session, command, replies).await;
    }

    /// Answers a command of a client that has said `MULTI`. Nothing else is under way then.
    #[cold]
    async fn within(
        &mut self,
        mut transaction: Transaction,
        session: &mut Session,
        command: Command<'_>,
        replies: &mut Replies,
    ) {
        match Step::of(command) {
            Step::Keep => {
                transaction.keep(command, replies);
                session.transaction = Some(transaction);
            }
            Step::Discard => replies.status("OK"),
            Step::Leave => self.carry_out(session, command, replies).await,
            Step::Execute => {
                transaction.announce(replies);
                let (mut at, mut words) = (0, Words::default());
                while let Some(taken) = transaction.next(at, &mut words) {
                    self.carry_out(session, Command::new(transaction.frames(at), &words), replies).await;
                    at += taken;
                }
                self.finish(session, replies).await;
            }
        }
    }

    #[inline]
    async fn carry_out(&mut self, session: &mut Session, command: Command<'_>, replies: &mut Replies) {
        if !self.slots.is_empty() && commands::waits_for_all_before(command) {
            self.finish(session, replies).await;
        }
        if self.slots.is_empty() {
            if let Some(waiting) = commands::answer(session, command, replies) {
                // It is the only one: what may meet others of several lanes has waited for them above.
                let is_alone = waiting.is_about_several();
                self.begin(waiting, session, replies.protocol);
                if is_alone {
                    self.finish(session, replies).await;
                }
            }
            return;
        }
        let mut own = Replies::speaking(replies.protocol);
        match commands::answer(session, command, &mut own) {
            Some(waiting) => self.begin(waiting, session, replies.protocol),
            None => self.slots.push_back(Slot::Answered(own.into_bytes())),
        }
        while self.slots.len() >= MAX_SLOTS {
            self.next(session, replies).await;
        }
    }

    /// Waits for all of them.
    #[inline]
    pub(crate) async fn finish(&mut self, session: &Session, replies: &mut Replies) {
        while !self.slots.is_empty() {
            self.next(session, replies).await;
        }
    }

    fn begin(&mut self, waiting: Waiting, session: &Session, protocol: Protocol) {
        self.slots.push_back(Slot::HeldBack(waiting));
        self.held_back += 1;
        self.try_begin(self.slots.len() - 1, session, protocol);
    }

    /// Begins the one at this position, if none before it is about the same counter and there is a place for it.
    fn try_begin(&mut self, position: usize, session: &Session, protocol: Protocol) {
        let Slot::HeldBack(waiting) = &self.slots[position] else { return };
        let lane = waiting.lane();
        if self.slots.range(..position).any(|earlier| earlier.lane() == Some(lane)) {
            return;
        }
        // One is always let through, or a crowd would keep a connection waiting for ever.
        let place = match Arc::clone(&self.places).try_acquire_owned() {
            Ok(place) => Some(place),
            Err(_) if self.under_way.is_empty() => None,
            Err(_) => return,
        };
        let Slot::HeldBack(waiting) = std::mem::replace(&mut self.slots[position], Slot::UnderWay { lane }) else {
            return;
        };
        self.held_back -= 1;
        let number = self.first + position as u64;
        let engine = session.engine.clone();
        self.under_way.push(Box::pin(async move {
            let answer = waiting.answer(engine, protocol).await;
            drop(place);
            (number, answer)
        }));
    }

    /// Waits for one answer, begins what has waited for it, and hands on what is next in line.
    async fn next(&mut self, session: &Session, replies: &mut Replies) {
        if let Some((number, answer)) = self.under_way.next().await
            && let Some(slot) = usize::try_from(number - self.first).ok().and_then(|at| self.slots.get_mut(at))
        {
            *slot = Slot::Answered(answer);
        }
        while let Some(Slot::Answered(answer)) = self.slots.front() {
            replies.append(answer);
            self.slots.pop_front();
            self.first += 1;
        }
        if self.held_back > 0 {
            // The protocol is theirs, too: what changes it waits for all before.
            (0..self.slots.len()).for_each(|position| self.try_begin(position, session, replies.protocol));
        }
    }
}

impl Slot {
    /// The counter that others have to wait for.
    fn lane(&self) -> Option<u64> {
        match self {
            Self::Answered(_) => None,
            Self::UnderWay { lane } => Some(*lane),
            Self::HeldBack(waiting) => Some(waiting.lane()),
        }
    }
}

/// The most commands of one connection that wait for answers, or for those before them.
const MAX_SLOTS: usize = 128;

/// What all connections of the wire may have under way beyond one command each. Enough to keep a server busy that is a
/// millisecond away, and few enough that it answers the last of them well before its deadline.
pub(crate) const MAX_UNDER_WAY: usize = 256;
