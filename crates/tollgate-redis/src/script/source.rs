//! The Lua files, read into their parts.
//!
//! An algorithm's file says which numbers and which state it works on, and holds its steps as named sections. Lines
//! that begin with `--@` are for us; what they say is explained in [`assemble`](super::assemble).

use std::{collections::HashMap, sync::LazyLock};

use super::piece::Kind;

pub(super) const TAKE: &str = include_str!("../../lua/take.lua");
pub(super) const AMEND: &str = include_str!("../../lua/amend.lua");
pub(super) const CHARGE: &str = include_str!("../../lua/charge.lua");
const COUNT: &str = include_str!("../../lua/count.lua");
const WEIGH: &str = include_str!("../../lua/weigh.lua");
const CLOCK: &str = include_str!("../../lua/clock.lua");
const LONE_LOG: &str = include_str!("../../lua/lone_log.lua");
const READ: &str = include_str!("../../lua/read.lua");
const WRITE: &str = include_str!("../../lua/write.lua");

/// The parts of one algorithm's file.
#[derive(Debug, Default)]
pub(super) struct Source {
    /// The numbers a call brings.
    pub(super) numbers: Vec<&'static str>,
    /// What is kept while the script runs, beside the numbers.
    pub(super) works: Vec<&'static str>,
    /// For a list, the fewest bytes its state can have.
    pub(super) smallest_list: usize,
    /// For a list, what it is stored as.
    pub(super) packed: &'static str,
    /// When a cost can never pass.
    pub(super) outweighs: &'static str,
    sections: HashMap<&'static str, Vec<&'static str>>,
}

impl Source {
    pub(super) fn of(kind: Kind) -> &'static Self {
        match kind {
            Kind::Bucket | Kind::Shaped => &BUCKET,
            Kind::Stepwise => &STEPWISE,
            Kind::Window => &WINDOW,
            Kind::Calendar => &CALENDAR,
            Kind::Log => &LOG,
            Kind::Counter => &COUNTER,
            Kind::Leases => &LEASES,
        }
    }

    /// The lines of a section, in the variant of this kind if there is one; none if the file has no such section.
    pub(super) fn section(kind: Kind, name: &str) -> &'static [&'static str] {
        let source = Self::of(kind);
        let variant = if kind == Kind::Shaped { source.sections.get(format!("{name} shaped").as_str()) } else { None };
        variant.or_else(|| source.sections.get(name)).map_or(&[], Vec::as_slice)
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

/// A file that frames share.
pub(super) fn shared(name: &str) -> &'static str {
    match name {
        "clock" => CLOCK,
        "read" => READ,
        "lone_log" => LONE_LOG,
        "count" => COUNT,
        "weigh" => WEIGH,
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
    STEPWISE = "stepwise.lua";
    WINDOW = "window.lua";
    CALENDAR = "calendar.lua";
    LOG = "log.lua";
    COUNTER = "counter.lua";
    LEASES = "leases.lua";
}
