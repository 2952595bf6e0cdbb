//! The sums behind an answer, with real numbers: what was used before, what the request adds, and what has to go first.

use tollgate_core::{
    Micros, Period, ReadyRule, Verb,
    algorithm::{Algorithm, Bucket, Counter, Limiting, Meter, State, Stepwise, Window},
};

use crate::{report, simulate::told_millis};

/// One rule's sums for one request, line by line.
pub(super) fn lines(rule: &ReadyRule, before: &State, verb: &Verb, now: Micros) -> Vec<String> {
    let quota = rule.rule().quota();
    let span = match quota.period() {
        Period::Span(span) => span,
        Period::Month => Micros::ZERO,
    };
    let cost = match verb {
        Verb::Take(take) => take.cost,
        _ => 0,
    };
    let sums = Sums { cost, limit: rule.limiting().limit(), now, span, lump: quota.limit() };
    // A key never seen has no state of its own kind yet.
    let fresh_meter = Meter::default();
    let meter = if let State::Meter(meter) = before { meter } else { &fresh_meter };
    let mut lines = match (rule.limiting(), before) {
        (Limiting::Bucket(bucket), _) => sums.bucket(bucket, meter),
        (Limiting::Stepwise(stepwise), _) => sums.stepwise(stepwise, meter),
        (Limiting::Window(window), _) => sums.window(window, meter),
        (Limiting::Log(log), State::Log(state)) => sums.log(log.live(state, now).collect()),
        (Limiting::Log(_), _) => sums.log(Vec::new()),
        (Limiting::Counter(counter), State::Counter(state)) => {
            sums.counter(counter.slices(state, now).collect(), counter)
        }
        (Limiting::Counter(counter), _) => sums.counter(Vec::new(), counter),
        (Limiting::Leases(_), State::Leases(state)) => {
            let held = state.leases().iter().filter(|lease| lease.until > now);
            sums.leases(held.map(|lease| (lease.until, lease.permits)).collect())
        }
        (Limiting::Leases(_), _) => sums.leases(Vec::new()),
    };
    if cost > 0 && cost <= sums.limit {
        let weighed = rule.limiting().weigh(before, cost, now);
        let (free_in, go_in) = (weighed.free_at - now, weighed.go_at - now);
        let goes = told_millis(weighed.go_at);
        lines.push(match (free_in, go_in) {
            (_, Micros::ZERO) => format!("so under this rule {cost} may go at once"),
            (free, wait) if free == wait || free == Micros::ZERO => {
                format!("so under this rule {cost} may go in {}, at {goes} ms", report::span(wait))
            }
            (free, _) => {
                format!("so under this rule {cost} would be admitted in {}, to go at {goes} ms", report::span(free))
            }
        });
    } else if cost > sums.limit {
        lines.push(format!("{cost} is more than {}, the most that can ever go at once", sums.limit));
    }
    lines
}

/// What all the sums have in common.
struct Sums {
    cost: u64,
    limit: u64,
    now: Micros,
    span: Micros,
    lump: u64,
}

impl Sums {
    /// Whether there is a cost to weigh, and it could ever pass.
    fn weighs(&self) -> bool {
        self.cost > 0 && self.cost <= self.limit
    }

    /// `35 + 100 = 135, which is 35 more than 100`
    fn added(&self, used: u64, cost: u64, most: u64) -> String {
        let sum = used + cost;
        match sum.checked_sub(most) {
            Some(0) => format!("{used} + {cost} = {sum}, which just fits into {most}"),
            Some(over) => format!("{used} + {cost} = {sum}, which is {over} more than {most}"),
            None => format!("{used} + {cost} = {sum}, which fits into {most}"),
        }
    }

    fn bucket(&self, bucket: &Bucket, meter: &Meter) -> Vec<String> {
        let (unit, drain) = (bucket.unit(), bucket.drain());
        let capacity = self.limit * unit;
        let used = bucket.used(meter, self.now);
        let mut lines = vec![format!(
            "one permit is {unit} units, {drain} of which drain every µs; {} permits are {capacity} units",
            self.limit
        )];
        if meter.used == 0 {
            lines.push("before: nothing is used".to_owned());
        } else {
            let drained = meter.used - used;
            lines.push(format!(
                "before: {} units were used at {} ms; {} later {drained} have drained and {used} are left (rounded up, {})",
                meter.used,
                told_millis(meter.at),
                report::span(self.now - meter.at),
                permits(used.div_ceil(unit)),
            ));
        }
        if !self.weighs() {
            return lines;
        }
        let asked = self.cost * unit;
        lines.push(format!(
            "the request: {} × {unit} = {asked} units; {}",
            self.cost,
            self.added(used, asked, capacity)
        ));
        let over = (used + asked).saturating_sub(capacity);
        if over > 0 {
            lines.push(format!(
                "{over} units must drain first: {over} ÷ {drain} = {} µs, rounded up",
                over.div_ceil(drain)
            ));
        }
        if bucket.is_shaped() && used > 0 {
            let ahead = used.div_ceil(drain);
            lines.push(format!(
                "shaped: it goes when the {used} units ahead have drained, {used} ÷ {drain} = {ahead} µs, rounded up"
            ));
        }
        lines
    }

    fn stepwise(&self, stepwise: &Stepwise, meter: &Meter) -> Vec<String> {
        let (used, tick) = stepwise.used(meter, self.now);
        let mut lines =
            vec![format!("{} permits come back at once every {}, nothing in between", self.lump, self.span)];
        if meter.used == 0 || used == 0 {
            lines.push("before: nothing is used, so ticks begin with this request".to_owned());
        } else {
            lines.push(format!(
                "before: {} were used at {} ms; with {} since, {used} are; the last tick was at {} ms",
                meter.used,
                told_millis(meter.at),
                ticks((tick - meter.at).0 / self.span.0.max(1)),
                told_millis(tick),
            ));
        }
        if self.weighs() {
            lines.push(format!("the request: {}", self.added(used, self.cost, self.limit)));
            let over = (used + self.cost).saturating_sub(self.limit);
            if over > 0 {
                let needed = over.div_ceil(self.lump);
                let at = tick + Micros(needed * self.span.0);
                lines.push(format!(
                    "{over} must come back first, which takes {}: until {} ms",
                    ticks(needed),
                    told_millis(at)
                ));
            }
        }
        lines
    }

    fn window(&self, window: &Window, meter: &Meter) -> Vec<String> {
        let (used, start) = window.used(meter, self.now);
        let end = window.end(start);
        let reach = format!("{} ms to {} ms", told_millis(start), told_millis(end));
        let mut lines = vec![format!("the window: {reach}, {used} of {} used before", self.limit)];
        if self.weighs() {
            lines.push(format!("the request: {}", self.added(used, self.cost, self.limit)));
            if used + self.cost > self.limit {
                lines.push(format!(
                    "it has to wait for the first window with room; this one ends in {}",
                    report::span(end - self.now)
                ));
            }
        }
        lines
    }

    fn log(&self, entries: Vec<(Micros, u64)>) -> Vec<String> {
        let told: Vec<Parted> =
            entries.iter().map(|&(at, permits)| Parted { at, permits, leaves: at + self.span }).collect();
        let since = told_millis(self.now - self.span);
        let reach = format!("the window: after {since} ms, up to {} ms", told_millis(self.now));
        self.parts(reach, "admission", "leaves the window", &told)
    }

    fn counter(&self, slices: Vec<(Micros, u64)>, counter: &Counter) -> Vec<String> {
        let slice = counter.slice();
        let told: Vec<Parted> =
            slices.iter().map(|&(at, permits)| Parted { at, permits, leaves: at + slice + self.span }).collect();
        let reach = format!("slices of {slice}; each counts until its end is {} old", self.span);
        self.parts(reach, "slice", "leaves", &told)
    }

    fn leases(&self, held: Vec<(Micros, u64)>) -> Vec<String> {
        // What a lease's quota calls a period is its length.
        let told: Vec<Parted> =
            held.iter().map(|&(until, permits)| Parted { at: until - self.span, permits, leaves: until }).collect();
        let reach = format!("a holder keeps its permits until it lets go, {} at most", self.span);
        self.parts(reach, "lease", "ends by itself", &told)
    }

    /// Algorithms that keep a list: what is on it, and how much of it has to go first.
    fn parts(&self, reach: String, what: &str, goes: &str, parts: &[Parted]) -> Vec<String> {
        let used: u64 = parts.iter().map(|part| part.permits).sum();
        let mut lines = vec![reach];
        match parts.len() {
            0 => lines.push("before: nothing is used".to_owned()),
            count => lines.push(format!("before: {used} used, in {}", report::counted(count, what))),
        }
        let over = (used + self.cost).saturating_sub(self.limit);
        let last = parts
            .iter()
            .scan(0, |gone, part| {
                *gone += part.permits;
                Some(*gone)
            })
            .position(|gone| self.weighs() && over > 0 && gone >= over);
        // All of them up to the one that matters, or as many as help.
        let shown = last.map_or(MOST_PARTS, |last| (last + 1).max(MOST_PARTS)).min(parts.len());
        let skipped = if shown > 2 * MOST_PARTS { MOST_PARTS..shown - MOST_PARTS } else { 0..0 };
        for (index, part) in parts.iter().enumerate().take(shown) {
            if index == skipped.start && !skipped.is_empty() {
                lines.push(format!("  … {} more …", skipped.len()));
            }
            if !skipped.contains(&index) {
                let ahead = if part.at > self.now { " (reserved)" } else { "" };
                let (at, leaves) = (told_millis(part.at), told_millis(part.leaves));
                lines.push(format!("  {} at {at} ms{ahead}, {goes} at {leaves} ms", part.permits));
            }
        }
        if shown < parts.len() {
            lines.push(format!("  … and {} later", parts.len() - shown));
        }
        if self.weighs() {
            lines.push(format!("the request: {}", self.added(used, self.cost, self.limit)));
        }
        if let Some(part) = last.map(|last| &parts[last]) {
            lines.push(format!(
                "{over} must go first; the last of them is the {what} of {} ms, which {goes} at {} ms",
                told_millis(part.at),
                told_millis(part.leaves)
            ));
        }
        lines
    }
}

/// An admission, a slice or a lease.
struct Parted {
    at: Micros,
    permits: u64,
    leaves: Micros,
}

fn permits(count: u64) -> String {
    if count == 1 { "1 permit".to_owned() } else { format!("{count} permits") }
}

fn ticks(count: u64) -> String {
    if count == 1 { "1 tick".to_owned() } else { format!("{count} ticks") }
}

/// How many entries are listed before it gets tiring.
const MOST_PARTS: usize = 8;
