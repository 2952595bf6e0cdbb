//! Runs of the mutants: each is found within a stated number of seeds.
//!
//! A mutant runs with the rules and faults that its missing rule is about, so that few seeds suffice. The seed that
//! finds it finds nothing without the mutant. [`Mutant::EndedKept`] has a [scene](super::ended_kept) instead, because few
//! seeds have a call that arrives late and others that use all room just afterwards.

use super::{
    demand::DemandShape,
    faults::FaultKinds,
    mutants::Mutant,
    run_seed,
    scenario::{Focus, Network, RuleKind},
};

/// One mutant with its runs.
struct MutantRun {
    mutant: Mutant,
    focus: Focus,
    /// Within so many seeds it is found.
    seeds: u64,
}

const NONE: FaultKinds = FaultKinds {
    crashes: false,
    pauses: false,
    stalls: false,
    failovers: false,
    steps: false,
    penalties: false,
    blocks: false,
    resets: false,
    quota_changes: false,
};

const QUEUE: Option<DemandShape> = Some(DemandShape::Queue);

const FAST: Option<Network> =
    Some(Network { delay: (50, 300), lost: 0, doubled: 0, late: 0, timeout: 2_000_000, has_deadlines: false });

const SLOW: Option<Network> =
    Some(Network { delay: (100, 40_000), lost: 50, doubled: 0, late: 0, timeout: 200_000, has_deadlines: false });

const LOSSY: Option<Network> =
    Some(Network { delay: (100, 2_000), lost: 200, doubled: 200, late: 200, timeout: 5_000, has_deadlines: false });

fn runs() -> Vec<MutantRun> {
    use RuleKind::{Bucket, Epoch, FirstRequest, Log};
    let hard = Focus { is_hard: true, faults: Some(NONE), ..Focus::default() };
    let with = |faults: FaultKinds| Focus { faults: Some(faults), ..hard };
    let queue = Focus { kinds: &[Bucket], shape: QUEUE, waits: true, network: FAST, ..hard };
    let pauses = FaultKinds { pauses: true, crashes: true, ..NONE };
    let meters: &[RuleKind] = &[Bucket, Log];
    let run = |mutant: Mutant, focus: Focus, seeds: u64| MutantRun { mutant, focus, seeds };
    vec![
        run(Mutant::DropHeldGate, hard, 100),
        run(Mutant::ExpiryFrees, with(pauses), 100),
        run(Mutant::ExpiryAtGrant, with(pauses), 200),
        run(Mutant::ExpiryAtEnd, Focus { kinds: &[FirstRequest], ..with(pauses) }, 1_000),
        run(Mutant::StampAtFirstUse, Focus { kinds: meters, ..hard }, 1_000),
        run(Mutant::NoLocalExpiry, with(pauses), 200),
        run(Mutant::ExpiryFromReply, Focus { network: SLOW, ..hard }, 400),
        run(Mutant::LateReply, Focus { network: LOSSY, ..hard }, 400),
        run(Mutant::NoSequence, Focus { network: LOSSY, ..hard }, 400),
        run(Mutant::NoRunningTotal, Focus { network: LOSSY, ..hard }, 400),
        run(Mutant::KeepIsFree, hard, 200),
        run(Mutant::GrantNotStored, hard, 100),
        run(Mutant::OutlivesWindow, Focus { kinds: &[FirstRequest], ..with(pauses) }, 1_000),
        run(Mutant::ReservationAsIfUsed, Focus { larger_costs: true, ..queue }, 1_000),
        run(Mutant::CancelAny, Focus { refunds: true, ..queue }, 2_000),
        run(Mutant::GiveBackAfterReport, Focus { kinds: &[Bucket], refunds: true, ..hard }, 400),
        run(Mutant::RefundTwice, Focus { kinds: &[Bucket, Epoch], refunds: true, ..hard }, 400),
        run(
            Mutant::ResetDropsAllotments,
            Focus { kinds: &[Epoch, Log], ..with(FaultKinds { resets: true, ..NONE }) },
            400,
        ),
        run(Mutant::ChangeDropsAllotments, with(FaultKinds { quota_changes: true, ..NONE }), 400),
    ]
}

/// Each mutant exceeds a bound; the same seed without it does not.
#[test]
fn mutants_are_found() {
    let mut missed = Vec::new();
    for MutantRun { mutant, focus, seeds } in runs() {
        let focus = Focus { mutant: Some(mutant), ..focus };
        let found = (0..seeds).find_map(|seed| run_seed(seed, &focus).err().map(|failure| (seed, failure)));
        match found {
            Some((seed, failure)) => {
                println!(
                    "{mutant:?} found at seed {seed} of {seeds}: {}",
                    failure.split(';').next().unwrap_or_default()
                );
                assert_eq!(run_seed(seed, &Focus { mutant: None, ..focus }), Ok(()), "{mutant:?}");
            }
            None => missed.push(mutant),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
