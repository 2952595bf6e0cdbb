//! Demand: when which process asks for how many permits.
//!
//! Shapes with a rate are Poisson processes of batches. `Edge` and `Sniper` aim at the ends of allotments: they take
//! one, keep still, and then all processes ask at once.

use ratekeeper_testkit::random::Random;

/// Requests of one process that arrive at the same instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct DemandBatch {
    pub(super) at: u64,
    pub(super) process: usize,
    pub(super) permits: u64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum DemandShape {
    Steady,
    Skewed,
    OnOff,
    Bursty,
    /// All processes at once, again and again.
    Herd,
    /// Moves from one process to another half-way.
    Shift,
    /// Bursts just before allotments end, and just after others begin.
    Edge,
    /// One permit, silence for as long as an allotment lasts, then a burst of several processes.
    Sniper,
    /// The first process takes an allotment and keeps still. The others ask for a few permits again and again, which have
    /// to wait. Then the first asks for all it has.
    Queue,
}

/// The numbers of a shape.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) shape: DemandShape,
    pub(super) processes: u64,
    /// How long, in µs.
    pub(super) length: u64,
    /// Permits per second of all processes.
    pub(super) rate: u64,
    /// Mean permits of a batch.
    pub(super) batch: u64,
    /// How long an allotment lasts.
    pub(super) hold: u64,
}

const SECOND: u64 = 1_000_000;

impl Load {
    pub(super) fn batches(&self, random: &mut Random) -> Vec<DemandBatch> {
        let mut out = Batches { random, load: *self, batches: Vec::new() };
        let (even, length) = (self.rate / self.processes, self.length);
        match self.shape {
            DemandShape::Steady => (0..self.processes).for_each(|process| out.poisson(process, even, 0, length)),
            DemandShape::Skewed => out.skewed(),
            DemandShape::OnOff => (0..self.processes).for_each(|process| out.on_off(process)),
            DemandShape::Bursty => out.bursty(),
            DemandShape::Herd => out.herd(),
            DemandShape::Shift => {
                out.poisson(0, self.rate, 0, length / 2);
                out.poisson(1 % self.processes, self.rate, length / 2, length);
            }
            DemandShape::Edge => out.edge(),
            DemandShape::Sniper => out.sniper(),
            DemandShape::Queue => out.queue(),
        }
        out.batches
    }
}

struct Batches<'a> {
    random: &'a mut Random,
    load: Load,
    batches: Vec<DemandBatch>,
}

impl Batches<'_> {
    fn add(&mut self, at: u64, process: u64, permits: u64) {
        self.batches.push(DemandBatch { at, process: usize::try_from(process).unwrap(), permits });
    }

    /// A number of about exponential distribution, in integers so that all machines agree.
    fn exponential(&mut self, mean: u64) -> u64 {
        let bits = self.random.bits();
        let (zeros, fraction) = (u64::from(bits.leading_zeros()), self.random.below(1 << 16));
        mean * ((zeros << 16) + fraction) / (3 << 15)
    }

    fn poisson(&mut self, process: u64, rate: u64, from: u64, until: u64) {
        if rate == 0 {
            return;
        }
        let (gap, batch) = (SECOND * self.load.batch / rate, self.load.batch);
        let mut at = from;
        loop {
            at += 1 + self.exponential(gap);
            if at >= until {
                return;
            }
            let permits = 1 + self.random.below(2 * batch - 1);
            self.add(at, process, permits);
        }
    }

    fn skewed(&mut self) {
        let Load { processes, rate, length, .. } = self.load;
        let weight = |rank: u64| 1_000_000 / ((rank + 1) * (rank + 1).isqrt());
        let total: u64 = (0..processes).map(weight).sum();
        let first = self.random.below(processes);
        for rank in 0..processes {
            self.poisson((first + rank) % processes, rate * weight(rank) / total, 0, length);
        }
    }

    fn on_off(&mut self, process: u64) {
        let Load { processes, rate, length, .. } = self.load;
        let mut at = 0;
        while at < length {
            let (on, off) = (self.random.between(20_000, 800_000), self.random.between(20_000, 1_500_000));
            self.poisson(process, 2 * rate / processes, at, length.min(at + on));
            at += on + off;
        }
    }

    fn bursty(&mut self) {
        let mut at = 0;
        while at < self.load.length {
            let (process, permits) =
                (self.random.below(self.load.processes), 1 + self.exponential(self.load.rate / 20));
            self.add(at, process, permits);
            at += 1 + self.exponential(SECOND / 20);
        }
    }

    fn herd(&mut self) {
        let Load { processes, rate, length, .. } = self.load;
        let mut at = 0;
        while at < length {
            for process in 0..processes {
                let (delay, permits) = (self.random.below(50), 1 + self.random.below(1 + rate / processes / 4));
                self.add(at + delay, process, permits);
            }
            at += self.random.between(50_000, 400_000);
        }
    }

    fn edge(&mut self) {
        let Load { processes, rate, length, hold, .. } = self.load;
        let mut at = 0;
        while at < length {
            for process in 0..processes {
                if self.random.below(10) < 7 {
                    let (delay, permits) = (self.random.below(3_000), 1 + self.random.below(1 + rate / 3));
                    self.add(at + delay, process, permits);
                }
            }
            let early = self.random.pick(&[2_500, 1_500, 800, 300, 0]);
            let late = self.random.pick(&[0, 300, 1_000, hold / 2, hold]);
            at += match self.random.below(10) {
                0..=3 => hold.saturating_sub(early),
                4..=6 => hold + late,
                _ => self.random.between(1_000, hold + 1_000),
            }
            .max(1_000);
        }
    }

    fn queue(&mut self) {
        let Load { processes, rate, length, hold, .. } = self.load;
        let mut at = 0;
        while at < length {
            for call in 0..self.random.between(1, 6) {
                self.add(at + call * hold / 40, 0, 1);
            }
            let end = at + hold;
            for _ in 0..self.random.between(3, 20) {
                let most = self.random.pick(&[3, 3, 3 + rate / 20]);
                let (other, permits) = (self.random.between(1, processes - 1), self.random.between(1, most));
                let time = at + self.random.below(hold);
                self.add(time, other, permits);
            }
            let (early, permits) = (self.random.below(hold * 3 / 4), 1 + self.random.below(1 + 2 * rate));
            self.add(end - early, 0, permits);
            at = end + self.random.pick(&[1, 500, hold / 2, hold]);
        }
    }

    fn sniper(&mut self) {
        let Load { processes, rate, length, hold, .. } = self.load;
        let mut at = 0;
        while at < length {
            let first = self.random.below(processes);
            self.add(at, first, 1);
            let off = self.random.pick(&[0, 100, 300, 600, 1_200, 3_000, hold / 2]);
            let end = if self.random.one_in(2) { at + hold + off } else { at + hold - off.min(hold) };
            for process in [first, self.random.below(processes), self.random.below(processes)] {
                for _ in 0..self.random.between(1, 2) {
                    let off = self.random.pick(&[0, 50, 500, 1_000, 1_450, 1_500, 1_500, 1_501, 1_550, 2_000, 3_000]);
                    let (time, permits) = ((end + off).saturating_sub(1_500), 1 + self.random.below(1 + rate));
                    self.add(time.max(at + 1), process, permits);
                }
            }
            at = end.max(at + 1) + self.random.pick(&[1, 500, 5_000, hold / 2, 2 * hold]);
        }
    }
}
