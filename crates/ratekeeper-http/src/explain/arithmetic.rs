//! The arithmetic of a decision: permits used before, the cost of the request, and what must expire first.

use ratekeeper_core::{
    Period, ReadyRule, Span, Timestamp,
    algorithm::{Algorithm, AnyAlgorithm, AutoBlock, Bucket, Counter, Meter, State, Stepwise, Window},
};

use super::text as report;

/// The arithmetic of one rule for one request, as lines of text.
pub(super) fn lines(rule: &ReadyRule, before: &State, cost: u64, now: Timestamp) -> Vec<String> {
    let quota = rule.rule().quota();
    let span = match quota.period() {
        Period::Span(span) => span,
        Period::Month | Period::Year => Span::ZERO,
    };
    let sums = Sums { cost, limit: rule.algorithm().limit(), now, span, lump: quota.limit() };
    // A new key has no state.
    let fresh_meter = Meter::default();
    let meter = if let State::Meter(meter) = before { meter } else { &fresh_meter };
    let mut lines = match (rule.algorithm(), before) {
        (AnyAlgorithm::Bucket(bucket), _) => sums.bucket(bucket, meter),
        (AnyAlgorithm::Stepwise(stepwise), _) => sums.stepwise(stepwise, meter),
        (AnyAlgorithm::Window(window), _) => sums.window(window, meter),
        (AnyAlgorithm::Log(log), State::Log(state)) => sums.log(log.live(state, now).collect()),
        (AnyAlgorithm::Log(_), _) => sums.log(Vec::new()),
        (AnyAlgorithm::Counter(counter), State::Counter(state)) => {
            sums.counter(counter.slices(state, now).collect(), counter)
        }
        (AnyAlgorithm::Counter(counter), _) => sums.counter(Vec::new(), counter),
        (AnyAlgorithm::Leases(_), State::Leases(state)) => {
            let held = state.leases().iter().filter(|lease| lease.until > now);
            sums.leases(held.map(|lease| (lease.until, lease.permits)).collect())
        }
        (AnyAlgorithm::Leases(_), _) => sums.leases(Vec::new()),
        (AnyAlgorithm::AutoBlock(block), _) => return auto_block(block, meter, now),
    };
    if cost > 0 && cost <= sums.limit {
        let weighed = rule.algorithm().weigh(before, cost, now);
        let (free_in, go_in) = (weighed.free_at.since(now), weighed.go_at.since(now));
        let goes = report::millis(weighed.go_at);
        lines.push(match (free_in, go_in) {
            (_, Span::ZERO) => format!("so this rule admits {cost} at once"),
            (free, wait) if free == wait || free == Span::ZERO => {
                format!("so this rule admits {cost} in {}, at {goes} ms", report::span(wait))
            }
            (free, _) => {
                format!("so this rule admits {cost} in {}, to proceed at {goes} ms", report::span(free))
            }
        });
    } else if cost > sums.limit {
        lines.push(format!("{cost} is more than {}, the most that can ever pass at once", sums.limit));
    }
    lines
}

/// The denials and blocks of a key before the request.
fn auto_block(block: &AutoBlock, meter: &Meter, now: Timestamp) -> Vec<String> {
    let (denials, blocks, until) = block.counted(meter, now);
    let mut lines = Vec::new();
    match until {
        Some(until) => {
            let (rest, ends) = (report::span(until.since(now)), report::millis(until));
            lines.push(format!(
                "block {blocks} in a row ends in {rest}, at {ends} ms; denials are not counted until then"
            ));
        }
        None => {
            let (after, within) = (block.limit(), report::span(block.within()));
            lines.push(format!("{denials} of {after} denials are counted, from the first one on for {within}"));
            let next = report::span(block.length(blocks + 1));
            lines.push(format!("so this rule admits the request; the next block lasts {next}"));
        }
    }
    lines
}

/// The numbers that all algorithms need.
struct Sums {
    cost: u64,
    limit: u64,
    now: Timestamp,
    span: Span,
    lump: u64,
}

impl Sums {
    /// Whether the cost is positive and could ever pass.
    fn can_pass(&self) -> bool {
        self.cost > 0 && self.cost <= self.limit
    }

    /// `35 + 100 = 135, which is 35 more than 100`
    fn added(&self, used: u64, cost: u64, max: u64) -> String {
        let sum = used + cost;
        match sum.checked_sub(max) {
            Some(0) => format!("{used} + {cost} = {sum}, which just fits into {max}"),
            Some(over) => format!("{used} + {cost} = {sum}, which is {over} more than {max}"),
            None => format!("{used} + {cost} = {sum}, which fits into {max}"),
        }
    }

    fn bucket(&self, bucket: &Bucket, meter: &Meter) -> Vec<String> {
        let (unit, drain) = (bucket.unit(), bucket.drain());
        let capacity = self.limit * unit;
        let used = bucket.used(meter, self.now);
        let every = match bucket.period() {
            1 => "µs".to_owned(),
            period => format!("{period} µs, rounded down"),
        };
        let mut lines = vec![format!(
            "one permit is {unit} units, {drain} of which drain every {every}; {} permits are {capacity} units",
            self.limit
        )];
        if meter.used == 0 {
            lines.push("before: nothing is used".to_owned());
        } else {
            let drained = meter.used - used;
            lines.push(format!(
                "before: {} units were used at {} ms; {} later {drained} have drained and {used} are left (rounded up, {})",
                meter.used,
                report::millis(meter.at),
                report::span(self.now.since(meter.at)),
                permits(used.div_ceil(unit)),
            ));
        }
        if !self.can_pass() {
            return lines;
        }
        let needed = self.cost * unit;
        lines.push(format!(
            "the request: {} × {unit} = {needed} units; {}",
            self.cost,
            self.added(used, needed, capacity)
        ));
        let over = (used + needed).saturating_sub(capacity);
        if over > 0 {
            let (quotient, time) = self.quotient(bucket, meter, over);
            lines.push(format!("{over} units must drain first: {quotient} = {time} µs, rounded up"));
        }
        if bucket.is_shaped() && used > 0 {
            let (quotient, ahead) = self.quotient(bucket, meter, used);
            lines.push(format!(
                "shaped: it proceeds when the {used} units ahead have drained, {quotient} = {ahead} µs, rounded up"
            ));
        }
        lines
    }

    /// `35 ÷ 2`, and the microseconds in which these units drain.
    fn quotient(&self, bucket: &Bucket, meter: &Meter, units: u64) -> (String, u64) {
        let base = self.now.max(meter.at);
        let time = bucket.drained_by(base, units).since(base).as_micros();
        match bucket.period() {
            1 => (format!("{units} ÷ {}", bucket.drain()), time),
            period => (format!("{units} × {period} ÷ {}", bucket.drain()), time),
        }
    }

    fn stepwise(&self, stepwise: &Stepwise, meter: &Meter) -> Vec<String> {
        let (used, tick) = stepwise.used(meter, self.now);
        let mut lines = vec![format!("{} permits are refilled at once every {}", self.lump, self.span)];
        if meter.used == 0 || used == 0 {
            lines.push("before: nothing is used, so ticks begin with this request".to_owned());
        } else {
            lines.push(format!(
                "before: {} were used at {} ms; with {} since, {used} are; the last tick was at {} ms",
                meter.used,
                report::millis(meter.at),
                ticks(tick.since(meter.at).as_micros() / self.span.as_micros().max(1)),
                report::millis(tick),
            ));
        }
        if self.can_pass() {
            lines.push(format!("the request: {}", self.added(used, self.cost, self.limit)));
            let over = (used + self.cost).saturating_sub(self.limit);
            if over > 0 {
                let needed = over.div_ceil(self.lump);
                let at = tick + Span::from_micros(needed * self.span.as_micros());
                lines.push(format!(
                    "{over} must be refilled first, which takes {}: until {} ms",
                    ticks(needed),
                    report::millis(at)
                ));
            }
        }
        lines
    }

    fn window(&self, window: &Window, meter: &Meter) -> Vec<String> {
        let (used, start) = window.used(meter, self.now);
        let end = window.end(start);
        let reach = format!("{} ms to {} ms", report::millis(start), report::millis(end));
        let mut lines = vec![format!("the window: {reach}, {used} of {} used before", self.limit)];
        if self.can_pass() {
            lines.push(format!("the request: {}", self.added(used, self.cost, self.limit)));
            if used + self.cost > self.limit {
                lines.push(format!(
                    "it must wait for the first window with room; this one ends in {}",
                    report::span(end.since(self.now))
                ));
            }
        }
        lines
    }

    fn log(&self, entries: Vec<(Timestamp, u64)>) -> Vec<String> {
        let parts: Vec<ListEntry> =
            entries.iter().map(|&(at, permits)| ListEntry { at, permits, leaves: at + self.span }).collect();
        let since = report::millis(self.now - self.span);
        let reach = format!("the window: after {since} ms, up to {} ms", report::millis(self.now));
        self.parts(reach, "admission", "leaves the window", &parts)
    }

    fn counter(&self, slices: Vec<(Timestamp, u64)>, counter: &Counter) -> Vec<String> {
        let slice = counter.slice();
        let parts: Vec<ListEntry> =
            slices.iter().map(|&(at, permits)| ListEntry { at, permits, leaves: at + slice + self.span }).collect();
        let reach = format!("slices of {slice}; each counts until its end is {} old", self.span);
        self.parts(reach, "slice", "leaves", &parts)
    }

    fn leases(&self, held: Vec<(Timestamp, u64)>) -> Vec<String> {
        // The period of a concurrency quota is the length of a lease.
        let parts: Vec<ListEntry> =
            held.iter().map(|&(until, permits)| ListEntry { at: until - self.span, permits, leaves: until }).collect();
        let reach = format!("a lease holds its permits until it is released, {} at most", self.span);
        self.parts(reach, "lease", "expires", &parts)
    }

    /// Algorithms that keep a list: its entries, and how many of them must expire first.
    fn parts(&self, reach: String, what: &str, ends: &str, parts: &[ListEntry]) -> Vec<String> {
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
            .position(|gone| self.can_pass() && over > 0 && gone >= over);
        // Up to the entry that decides, and at least `MAX_ENTRIES`.
        let shown = last.map_or(MAX_ENTRIES, |last| (last + 1).max(MAX_ENTRIES)).min(parts.len());
        let skipped = if shown > 2 * MAX_ENTRIES { MAX_ENTRIES..shown - MAX_ENTRIES } else { 0..0 };
        for (index, part) in parts.iter().enumerate().take(shown) {
            if index == skipped.start && !skipped.is_empty() {
                lines.push(format!("  … {} more …", skipped.len()));
            }
            if !skipped.contains(&index) {
                let ahead = if part.at > self.now { " (reserved)" } else { "" };
                let (at, leaves) = (report::millis(part.at), report::millis(part.leaves));
                lines.push(format!("  {} at {at} ms{ahead}, {ends} at {leaves} ms", part.permits));
            }
        }
        if shown < parts.len() {
            lines.push(format!("  … and {} later", parts.len() - shown));
        }
        if self.can_pass() {
            lines.push(format!("the request: {}", self.added(used, self.cost, self.limit)));
        }
        if let Some(part) = last.map(|last| &parts[last]) {
            lines.push(format!(
                "{over} must expire first; the last of them is the {what} of {} ms, which {ends} at {} ms",
                report::millis(part.at),
                report::millis(part.leaves)
            ));
        }
        lines
    }
}

/// An admission, a slice or a lease.
struct ListEntry {
    at: Timestamp,
    permits: u64,
    leaves: Timestamp,
}

fn permits(count: u64) -> String {
    if count == 1 { "1 permit".to_owned() } else { format!("{count} permits") }
}

fn ticks(count: u64) -> String {
    if count == 1 { "1 tick".to_owned() } else { format!("{count} ticks") }
}

/// Entries listed at each end of a long list.
const MAX_ENTRIES: usize = 8;
