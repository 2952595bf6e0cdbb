//! Lua sources, parsed into headers and sections.
//!
//! An algorithm's file declares its numbers and state, and has named sections. A section that it does not have is taken
//! from its base, if it names one with `--@ base`. The other directives are those of [`assemble`](super::assemble).

use std::{collections::HashMap, sync::LazyLock};

use super::piece::Kind;

pub(super) const TAKE: &str = include_str!("../../lua/take.lua");
pub(super) const AMEND: &str = include_str!("../../lua/amend.lua");
pub(super) const MERGE: &str = include_str!("../../lua/merge.lua");
pub(super) const CHARGE: &str = include_str!("../../lua/charge.lua");
pub(super) const ALLOT: &str = include_str!("../../lua/allot.lua");
const COUNT: &str = include_str!("../../lua/count.lua");
const DECIDE: &str = include_str!("../../lua/decide.lua");
const ENDED: &str = include_str!("../../lua/ended.lua");
const WEIGH: &str = include_str!("../../lua/weigh.lua");
const CLOCK: &str = include_str!("../../lua/clock.lua");
const LONE_LOG: &str = include_str!("../../lua/lone_log.lua");
const LOOK: &str = include_str!("../../lua/look.lua");
const FINISH: &str = include_str!("../../lua/finish.lua");
const PARTIAL: &str = include_str!("../../lua/partial.lua");
const RECORD: &str = include_str!("../../lua/record.lua");
const REPEAT: &str = include_str!("../../lua/repeat.lua");
const PAST: &str = include_str!("../../lua/past.lua");
const RUNS: &str = include_str!("../../lua/runs.lua");
const SETTLE: &str = include_str!("../../lua/settle.lua");
const REPORT: &str = include_str!("../../lua/report.lua");
const READ: &str = include_str!("../../lua/read.lua");
const WRITE: &str = include_str!("../../lua/write.lua");

/// The parts of one algorithm's file.
#[derive(Debug, Default)]
pub(super) struct Source {
    /// The rule's numbers in a call.
    pub(super) numbers: Vec<&'static str>,
    /// Variables of the running script, in addition to the numbers.
    pub(super) works: Vec<&'static str>,
    /// For a list, the least size of its state in bytes.
    pub(super) smallest_list: usize,
    /// For a list, the expression of its stored form.
    pub(super) packed: &'static str,
    /// The condition under which a cost can never pass.
    pub(super) outweighs: &'static str,
    /// The file with the sections that this one does not have.
    base: Option<&'static str>,
    sections: HashMap<&'static str, Vec<&'static str>>,
}

impl Source {
    pub(super) fn of(kind: Kind) -> &'static Self {
        match kind {
            Kind::Bucket | Kind::Shaped => &BUCKET,
            Kind::Rounded | Kind::RoundedShaped => &ROUNDED,
            Kind::Stepwise => &STEPWISE,
            Kind::Window => &WINDOW,
            Kind::Calendar => &CALENDAR,
            Kind::Local => &LOCAL,
            Kind::Log => &LOG,
            Kind::Counter => &COUNTER,
            Kind::Leases => &LEASES,
            Kind::AutoBlock => &AUTO_BLOCK,
        }
    }

    /// The lines of a section, in the variant of this kind if there is one; empty if neither the file nor its bases have it.
    pub(super) fn section(kind: Kind, name: &str) -> &'static [&'static str] {
        let shaped = format!("{name} shaped");
        let mut next = Some(Self::of(kind));
        while let Some(source) = next {
            let variant = if kind.is_shaped() { source.sections.get(shaped.as_str()) } else { None };
            if let Some(lines) = variant.or_else(|| source.sections.get(name)) {
                return lines;
            }
            next = source.base.map(|base| match base {
                "window" => &*WINDOW,
                "bucket" => &*BUCKET,
                _ => &*METER,
            });
        }
        &[]
    }

    fn read(text: &'static str) -> Self {
        let mut source = Self::default();
        let mut section = None;
        for line in text.lines() {
            match line.strip_prefix("--@ ").map(|order| order.split_once(' ').unwrap_or((order, ""))) {
                Some(("numbers", names)) => source.numbers = names.split(' ').collect(),
                Some(("meter", names)) => source.works.extend(names.split(' ')),
                Some(("list", bytes)) => source.smallest_list = bytes.parse().unwrap_or_default(),
                Some(("works", names)) => source.works.extend(names.split(' ')),
                Some(("packed", expression)) => source.packed = expression,
                Some(("base", name)) => source.base = Some(name),
                Some(("outweighs", condition)) => source.outweighs = condition,
                Some(("section", name)) => section = Some(name),
                _ => {
                    if let Some(name) = section {
                        source.sections.entry(name).or_default().push(line);
                    }
                }
            }
        }
        source.works.extend(["free", "go"]);
        source
    }
}

/// A file that templates include.
pub(super) fn shared(name: &str) -> &'static str {
    match name {
        "clock" => CLOCK,
        "read" => READ,
        "lone_log" => LONE_LOG,
        "count" => COUNT,
        "decide" => DECIDE,
        "ended" => ENDED,
        "weigh" => WEIGH,
        "look" => LOOK,
        "finish" => FINISH,
        "partial" => PARTIAL,
        "record" => RECORD,
        "repeat" => REPEAT,
        "past" => PAST,
        "runs" => RUNS,
        "settle" => SETTLE,
        "report" => REPORT,
        _ => WRITE,
    }
}

macro_rules! sources {
    ($($name:ident = $file:literal;)*) => {$(
        static $name: LazyLock<Source> = LazyLock::new(|| Source::read(include_str!(concat!("../../lua/", $file))));
    )*};
}

sources! {
    BUCKET = "bucket.lua";
    ROUNDED = "rounded.lua";
    STEPWISE = "stepwise.lua";
    WINDOW = "window.lua";
    CALENDAR = "calendar.lua";
    LOCAL = "local.lua";
    METER = "meter.lua";
    LOG = "log.lua";
    COUNTER = "counter.lua";
    LEASES = "leases.lua";
    AUTO_BLOCK = "auto_block.lua";
}
