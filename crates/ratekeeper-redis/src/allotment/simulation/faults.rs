//! Faults, and what operators do to a key.

use ratekeeper_core::OnQuotaChange;
use ratekeeper_testkit::random::Random;

#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// The process ends without returning anything, and starts again later with a new id.
    Crash {
        process: usize,
        down: u64,
    },
    /// The process returns what it holds and starts again.
    Restart {
        process: usize,
    },
    /// Nothing of the process runs; its clock does.
    Pause {
        process: usize,
        span: u64,
    },
    /// The clock of the machine has jumped: the holder drops what it has.
    Distrust {
        process: usize,
    },
    /// The server is stopped, and later carries out what has arrived, in order.
    Stall {
        span: u64,
    },
    /// A replica copies the store.
    Snapshot,
    /// The replica takes over with its copy; without a copy, an empty store.
    Failover {
        keeps_copy: bool,
    },
    /// The store's clock steps.
    Step {
        by: i64,
    },
    Penalize {
        key: usize,
        permits: u64,
    },
    Block {
        key: usize,
        span: u64,
    },
    Reset {
        key: usize,
    },
    QuotaChange {
        key: usize,
        how: OnQuotaChange,
        percent: u64,
    },
}

/// Kinds of faults that a seed has.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct FaultKinds {
    pub(super) crashes: bool,
    pub(super) pauses: bool,
    pub(super) stalls: bool,
    pub(super) failovers: bool,
    pub(super) steps: bool,
    pub(super) penalties: bool,
    pub(super) blocks: bool,
    pub(super) resets: bool,
    pub(super) quota_changes: bool,
}

impl FaultKinds {
    pub(super) fn random(random: &mut Random) -> Self {
        let mut often = || random.below(100) < 45;
        let (crashes, pauses, stalls, failovers, steps) = (often(), often(), often(), often(), often());
        let mut seldom = || random.one_in(6);
        Self {
            crashes,
            pauses,
            stalls,
            failovers,
            steps,
            penalties: seldom(),
            blocks: seldom(),
            resets: seldom(),
            quota_changes: seldom(),
        }
    }
}

/// The sizes of a scenario that its faults depend on.
#[derive(Clone, Copy, Debug)]
pub(super) struct FaultSizes {
    pub(super) processes: usize,
    pub(super) keys: u64,
    pub(super) length: u64,
    pub(super) hold: u64,
    pub(super) limit: u64,
}

pub(super) fn faults(random: &mut Random, kinds: FaultKinds, sizes: FaultSizes) -> Vec<(u64, Fault)> {
    let FaultSizes { processes, length, hold, .. } = sizes;
    let mut list = Vec::new();
    for process in 0..processes {
        if kinds.crashes && random.one_in(2) {
            let crash = Fault::Crash { process, down: random.between(1, 1_000_000) };
            let fault = if random.one_in(3) { Fault::Restart { process } } else { crash };
            list.push((random.below(length), fault));
        }
        if kinds.pauses {
            for _ in 0..random.below(4) {
                let span = random.pick(&[hold / 2, hold, 2 * hold, 3 * hold]) + random.below(hold);
                let at = random.below(length);
                list.push((at, Fault::Pause { process, span }));
                if random.one_in(8) {
                    list.push((at + span, Fault::Distrust { process }));
                }
            }
        }
    }
    if kinds.stalls {
        for _ in 0..random.between(1, 3) {
            list.push((random.below(length), Fault::Stall { span: random.between(1_000, 2 * hold + 2_000) }));
        }
    }
    if kinds.failovers {
        for _ in 0..random.between(1, 3) {
            let (at, keeps_copy) = (random.below(length), random.below(10) < 7);
            list.push((at.saturating_sub(random.between(1, 2 * hold)), Fault::Snapshot));
            list.push((at, Fault::Failover { keeps_copy }));
        }
    }
    if kinds.steps {
        for _ in 0..random.between(1, 2) {
            let by = random.between(1, 3_000_000).cast_signed();
            list.push((random.below(length), Fault::Step { by: if random.one_in(2) { by } else { -by } }));
        }
    }
    operations(random, kinds, sizes, &mut list);
    list
}

fn operations(random: &mut Random, kinds: FaultKinds, sizes: FaultSizes, list: &mut Vec<(u64, Fault)>) {
    let FaultSizes { keys, length, limit, .. } = sizes;
    let key = |random: &mut Random| usize::try_from(random.below(keys)).unwrap();
    if kinds.penalties {
        for _ in 0..random.between(1, 4) {
            let penalty = Fault::Penalize { key: key(random), permits: random.between(1, limit) };
            list.push((random.below(length), penalty));
        }
    }
    if kinds.blocks {
        for _ in 0..random.between(1, 2) {
            let (at, key, span) = (random.below(length), key(random), random.between(1_000, length));
            list.push((at, Fault::Block { key, span }));
            if random.one_in(2) {
                list.push((at + random.below(span), Fault::Block { key, span: 0 }));
            }
        }
    }
    if kinds.resets {
        for _ in 0..random.between(1, 2) {
            list.push((random.below(length), Fault::Reset { key: key(random) }));
        }
    }
    if kinds.quota_changes {
        for key in 0..usize::try_from(keys).unwrap() {
            let how = random.pick(&[
                OnQuotaChange::Keep,
                OnQuotaChange::Keep,
                OnQuotaChange::Scale,
                OnQuotaChange::Fresh,
                OnQuotaChange::KeepResetTime,
            ]);
            let percent = random.pick(&[20, 50, 80, 130, 200]);
            list.push((random.below(length), Fault::QuotaChange { key, how, percent }));
        }
    }
}
