//! The run as a picture: what went and what was refused, and how full each rule's window was, policy beside policy.
//!
//! Every policy has a panel; in it one strip of bars, and one strip per rule with the content of its window against the
//! limit. All share the time axis, and strips that can be compared share the other one too.

use std::{fs, io, path::Path};

use plotters::{
    coord::Shift,
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};
use tollgate_core::Micros;

use super::{
    timeline::{Bin, Timeline},
    times::Times,
    watch::{Gauge, RuleWatch, Watch},
};
use crate::report::{self, Failure};

/// Draws the runs into an SVG file.
pub(crate) fn draw(file: &Path, watches: &[Watch]) -> Result<(), Failure> {
    let unwritable = |cause| Failure::Output { name: file.display().to_string(), cause };
    let picture = render(watches).map_err(|error| unwritable(io::Error::other(error.to_string())))?;
    fs::write(file, picture).map_err(unwritable)
}

/// Whether a plot could be written there: better said before a long run than after it.
pub(crate) fn check(file: &Path) -> Result<(), Failure> {
    let name = file.display().to_string();
    if file.extension().is_some_and(|extension| !extension.eq_ignore_ascii_case("svg")) {
        return Err(Failure::PlotName { file: name, better: file.with_extension("svg").display().to_string() });
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let cause = match folder {
        _ if file.is_dir() => "it is a folder; name a file".to_owned(),
        Some(folder) if !folder.is_dir() => format!("there is no folder {}; make it first", folder.display()),
        _ => return Ok(()),
    };
    Err(Failure::Output { name, cause: io::Error::other(cause) })
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

fn render(watches: &[Watch]) -> Result<String, Box<dyn std::error::Error>> {
    let columns = if watches.len() > 1 { 2 } else { 1 };
    let width = if columns > 1 { 620 } else { 940 };
    let heights: Vec<u32> = watches.chunks(columns).map(|row| row.iter().map(height).max().unwrap_or(0)).collect();
    let size = (width * u32::try_from(columns)? + 2 * EDGE, heights.iter().sum::<u32>() + 2 * EDGE);

    let mut picture = String::new();
    {
        let root = SVGBackend::with_string(&mut picture, size).into_drawing_area();
        root.fill(&WHITE)?;
        let axes = Axes::of(watches);
        let mut top = EDGE;
        for (row, height) in watches.chunks(columns).zip(&heights) {
            let mut left = EDGE;
            for watch in row {
                draw_panel(&root.clone().shrink((left, top), (width, *height)), watch, &axes)?;
                left += width;
            }
            top += height;
        }
        root.present()?;
    }
    Ok(picture)
}

/// What the panels have in common.
struct Axes {
    from: Micros,
    until: Micros,
    bars: u64,
    /// The height of all rules' strips, where there is one rule to each policy.
    windows: Option<u64>,
}

impl Axes {
    fn of(watches: &[Watch]) -> Self {
        let timelines = || watches.iter().filter_map(|watch| watch.timeline.as_ref());
        let from = timelines().map(Timeline::start).min().unwrap_or_default();
        let until = timelines().filter_map(|line| Some(line.last()? + line.width())).max().unwrap_or(Micros(1));
        let tallest = |line| bars(line).iter().map(|(_, bin)| bin.admitted + bin.refused).max();
        let single = watches.iter().all(|watch| watch.rules.len() == 1);
        let fullest = watches.iter().flat_map(|watch| &watch.rules).map(ceiling).max();
        Self {
            from,
            until,
            bars: timelines().filter_map(tallest).max().unwrap_or(1).max(1),
            windows: fullest.filter(|_| single),
        }
    }

    fn times(&self) -> Times {
        Times::new(self.from, self.until)
    }
}

fn draw_panel(area: &Area<'_>, watch: &Watch, axes: &Axes) -> Drawn {
    let totals = &watch.totals;
    let title = report::clipped(&watch.policy, 48);
    area.draw(&Text::new(title, (12, 6), ("sans-serif", 16).into_font().style(FontStyle::Bold)))?;
    let Some(timeline) = watch.timeline.as_ref().filter(|timeline| !timeline.bins().is_empty()) else {
        area.draw(&Text::new("no requests", (12, 34), font(12)))?;
        return Ok(());
    };
    let width = area.dim_in_pixel().0;
    let strip = |top: u32, height: u32| area.clone().shrink((0, top), (width, height));
    let spans = format!("every {}", told(bar_width(timeline)));
    let words = [
        (format!("{} permits went", totals.permits), WENT),
        (format!("{} permits refused", totals.refused), REFUSED),
        (spans, FAINT),
    ];
    draw_bars(&strip(TITLE, BARS), timeline, axes, &words)?;
    for (index, rule) in watch.rules.iter().enumerate() {
        let top = TITLE + BARS + u32::try_from(index)? * RULE;
        let most = if watch.is_short() { "at least" } else { "most" };
        let words = format!("{}; {most} {}, limit {}", gauged(rule), rule.worst, rule.limit);
        draw_rule(&strip(top, RULE), timeline, (index, rule), axes, words)?;
    }
    Ok(())
}

fn draw_bars(area: &Area<'_>, timeline: &Timeline, axes: &Axes, words: &[(String, RGBColor)]) -> Drawn {
    let mut left = 60;
    for (text, color) in words {
        area.draw(&Text::new(text.clone(), (left, 2), font(12).color(color)))?;
        // SVG knows no font metrics; seven pixels a letter is generous at this size.
        left += 7 * i32::try_from(text.chars().count())? + 10;
    }
    let mut chart = ChartBuilder::on(area)
        .margin_top(20)
        .margin_right(18)
        .set_label_area_size(LabelAreaPosition::Left, 56)
        .set_label_area_size(LabelAreaPosition::Bottom, 8)
        .build_cartesian_2d(axes.times(), 0..headroom(axes.bars))?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .x_labels(0)
        .y_labels(4)
        .y_label_formatter(&|permits| short(*permits))
        .label_style(font(11).color(&FAINT))
        .axis_style(GRID)
        .draw()?;
    let width = bar_width(timeline);
    chart.draw_series(bars(timeline).into_iter().flat_map(|(from, bin)| {
        // Bars of a sparse trace should not melt into hairlines, so each fills its whole span.
        let span = |low: u64, high: u64, color: RGBColor| {
            Rectangle::new([(from, low), ((from + width).min(axes.until), high)], color.filled())
        };
        let went = span(0, bin.admitted, WENT);
        let refused = span(bin.admitted, bin.admitted + bin.refused, REFUSED);
        [(bin.admitted > 0).then_some(went), (bin.refused > 0).then_some(refused)].into_iter().flatten()
    }))?;
    Ok(())
}

/// `hour: went within 1h`
fn gauged(rule: &RuleWatch) -> String {
    let name = report::clipped(&rule.name, 32);
    match rule.gauge {
        Gauge::Window(span) => format!("{name}: went within {span}"),
        Gauge::Held => format!("{name}: held"),
    }
}

fn draw_rule(
    area: &Area<'_>,
    timeline: &Timeline,
    (index, rule): (usize, &RuleWatch),
    axes: &Axes,
    words: String,
) -> Drawn {
    let over = rule.worst > rule.limit;
    area.draw(&Text::new(words, (60, 2), font(12).color(if over { &REFUSED } else { &WINDOW })))?;
    let mut chart = ChartBuilder::on(area)
        .margin_top(20)
        .margin_right(18)
        .set_label_area_size(LabelAreaPosition::Left, 56)
        .set_label_area_size(LabelAreaPosition::Bottom, 26)
        .build_cartesian_2d(axes.times(), 0..headroom(axes.windows.unwrap_or_else(|| ceiling(rule))))?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .y_labels(5)
        .y_label_formatter(&|permits| short(*permits))
        .label_style(font(11).color(&FAINT))
        .axis_style(GRID)
        .draw()?;
    chart.draw_series(LineSeries::new(steps(timeline, index), WINDOW.stroke_width(2)))?;
    let limit = [(axes.from, rule.limit), (axes.until, rule.limit)];
    chart.draw_series(DashedLineSeries::new(limit, 6, 4, REFUSED.stroke_width(1)))?;
    let label = font(11).color(&REFUSED).pos(Pos::new(HPos::Left, VPos::Bottom));
    chart.draw_series([Text::new(format!(" limit {}", short(rule.limit)), (axes.from, rule.limit), label)])?;
    Ok(())
}

/// Fullness over time as a line of steps.
fn steps(timeline: &Timeline, rule: usize) -> Vec<(Micros, u64)> {
    let width = timeline.width();
    let mut points: Vec<(Micros, u64)> = Vec::new();
    let mut from = timeline.start();
    for bin in timeline.bins() {
        let full = bin.fullness[rule];
        if points.last().is_none_or(|&(_, before)| before != full) {
            points.extend(points.last().map(|&(_, before)| (from, before)));
            points.push((from, full));
        }
        from = from + width;
    }
    points.extend(points.last().map(|&(_, before)| (from, before)));
    points
}

/// The bins put together until they are few enough to be seen.
fn bars(timeline: &Timeline) -> Vec<(Micros, Bin)> {
    let count = bins_per_bar(timeline);
    let bar = |(index, bins): (usize, &[Bin])| {
        let mut sum = Bin::default();
        bins.iter().for_each(|bin| sum.absorb(bin));
        (timeline.start() + Micros((index * count) as u64 * timeline.width().0), sum)
    };
    timeline.bins().chunks(count).enumerate().map(bar).collect()
}

fn bins_per_bar(timeline: &Timeline) -> usize {
    timeline.bins().len().div_ceil(MOST_BARS).max(1)
}

fn bar_width(timeline: &Timeline) -> Micros {
    Micros(timeline.width().0 * bins_per_bar(timeline) as u64)
}

fn height(watch: &Watch) -> u32 {
    TITLE + BARS + RULE * u32::try_from(watch.rules.len()).unwrap_or(1)
}

fn ceiling(rule: &RuleWatch) -> u64 {
    rule.worst.max(rule.limit).max(1)
}

fn headroom(most: u64) -> u64 {
    most + most.div_ceil(8)
}

fn font(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&BLACK)
}

/// A span to two digits or so, for a caption.
fn told(span: Micros) -> String {
    match span.0 {
        0..2_000 => format!("{} µs", span.0),
        2_000..2_000_000 => format!("{} ms", span.0 / 1_000),
        2_000_000..120_000_000 => format!("{} s", span.0 / 1_000_000),
        120_000_000..7_200_000_000 => format!("{} min", span.0 / 60_000_000),
        _ => format!("{} h", span.0 / 3_600_000_000),
    }
}

/// `1500`, `25k`, `3M`: an axis has little room.
fn short(number: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(1_000_000_000_000, "T"), (1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")];
    for (size, unit) in UNITS {
        if number >= 10 * size || (number >= size && number.is_multiple_of(size)) {
            return format!("{}{unit}", number / size);
        }
    }
    number.to_string()
}

const WENT: RGBColor = RGBColor(42, 157, 143);
const REFUSED: RGBColor = RGBColor(200, 60, 50);
const WINDOW: RGBColor = RGBColor(38, 70, 120);
const FAINT: RGBColor = RGBColor(95, 95, 95);
const GRID: RGBColor = RGBColor(220, 220, 220);

const EDGE: u32 = 8;
const TITLE: u32 = 30;
const BARS: u32 = 120;
const RULE: u32 = 180;
/// Bars narrower than a few pixels are hard to see.
const MOST_BARS: usize = 60;
