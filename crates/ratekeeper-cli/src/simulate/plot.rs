//! SVG plot of a run: permits granted and refused, and the content of each rule's window, one panel per policy.
//!
//! A panel has one chart of bars, and one chart per rule with the content of its window and the limit. All charts share the
//! time axis; charts that can be compared share the other axis too.

use std::{fs, io, path::Path};

use plotters::{
    coord::Shift,
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};
use ratekeeper_core::{Span, Timestamp};

use super::{
    stats::{Gauge, RuleStats, RunStats},
    time_axis::TimeAxis,
    timeline::{Bin, Timeline},
};
use crate::report::{self, Failure};

/// Draws the runs into an SVG file.
pub(crate) fn draw(file: &Path, runs: &[RunStats]) -> Result<(), Failure> {
    let unwritable = |cause| Failure::Output { name: file.display().to_string(), cause };
    let svg = render(runs).map_err(|error| unwritable(io::Error::other(error.to_string())))?;
    fs::write(file, svg).map_err(unwritable)
}

/// Checks that the plot can be written, before a long run rather than after it.
pub(crate) fn check(file: &Path) -> Result<(), Failure> {
    let name = file.display().to_string();
    if file.extension().is_some_and(|extension| !extension.eq_ignore_ascii_case("svg")) {
        return Err(Failure::PlotName { file: name, better: file.with_extension("svg").display().to_string() });
    }
    let directory = file.parent().filter(|directory| !directory.as_os_str().is_empty());
    let cause = match directory {
        _ if file.is_dir() => "it is a directory; name a file".to_owned(),
        Some(directory) if !directory.is_dir() => {
            format!("there is no directory {}; create it first", directory.display())
        }
        _ => return Ok(()),
    };
    Err(Failure::Output { name, cause: io::Error::other(cause) })
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type DrawResult = Result<(), Box<dyn std::error::Error>>;

fn render(runs: &[RunStats]) -> Result<String, Box<dyn std::error::Error>> {
    let columns = if runs.len() > 1 { 2 } else { 1 };
    let width = if columns > 1 { 620 } else { 940 };
    let heights: Vec<u32> = runs.chunks(columns).map(|row| row.iter().map(height).max().unwrap_or(0)).collect();
    let size = (width * u32::try_from(columns)? + 2 * EDGE, heights.iter().sum::<u32>() + 2 * EDGE);

    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&WHITE)?;
        let axes = Axes::of(runs);
        let mut top = EDGE;
        for (row, height) in runs.chunks(columns).zip(&heights) {
            let mut left = EDGE;
            for stats in row {
                draw_panel(&root.clone().shrink((left, top), (width, *height)), stats, &axes)?;
                left += width;
            }
            top += height;
        }
        root.present()?;
    }
    Ok(svg)
}

/// The axes that all panels share.
struct Axes {
    from: Timestamp,
    until: Timestamp,
    bars: u64,
    /// The maximum of all rule charts, if each policy has one rule.
    windows: Option<u64>,
}

impl Axes {
    fn of(runs: &[RunStats]) -> Self {
        let timelines = || runs.iter().filter_map(|stats| stats.timeline.as_ref());
        let from = timelines().map(Timeline::start).min().unwrap_or_default();
        let until =
            timelines().filter_map(|line| Some(line.last()? + line.width())).max().unwrap_or(Timestamp::from_micros(1));
        let tallest = |line| bars(line).iter().map(|(_, bin)| bin.admitted + bin.refused).max();
        let single = runs.iter().all(|stats| stats.rules.len() == 1);
        let fullest = runs.iter().flat_map(|stats| &stats.rules).map(ceiling).max();
        Self {
            from,
            until,
            bars: timelines().filter_map(tallest).max().unwrap_or(1).max(1),
            windows: fullest.filter(|_| single),
        }
    }

    fn times(&self) -> TimeAxis {
        TimeAxis::new(self.from, self.until)
    }
}

fn draw_panel(area: &Area<'_>, stats: &RunStats, axes: &Axes) -> DrawResult {
    let totals = &stats.totals;
    let title = report::clipped(&stats.policy, 48);
    area.draw(&Text::new(title, (12, 6), ("sans-serif", 16).into_font().style(FontStyle::Bold)))?;
    let Some(timeline) = stats.timeline.as_ref().filter(|timeline| !timeline.bins().is_empty()) else {
        area.draw(&Text::new("no requests", (12, 34), font(12)))?;
        return Ok(());
    };
    let width = area.dim_in_pixel().0;
    let chart = |top: u32, height: u32| area.clone().shrink((0, top), (width, height));
    let spans = format!("every {}", short_span(bar_width(timeline)));
    let captions = [
        (format!("{} permits granted", totals.permits), GRANTED),
        (format!("{} permits refused", totals.refused), REFUSED),
        (spans, FAINT),
    ];
    draw_bars(&chart(TITLE, BARS), timeline, axes, &captions)?;
    for (index, rule) in stats.rules.iter().enumerate() {
        let top = TITLE + BARS + u32::try_from(index)? * RULE;
        let most = if stats.is_short() { "at least" } else { "most" };
        let caption = format!("{}; {most} {}, limit {}", caption(rule), rule.peak, rule.limit);
        draw_rule(&chart(top, RULE), timeline, (index, rule), axes, caption)?;
    }
    Ok(())
}

fn draw_bars(area: &Area<'_>, timeline: &Timeline, axes: &Axes, captions: &[(String, RGBColor)]) -> DrawResult {
    let mut left = 60;
    for (text, color) in captions {
        area.draw(&Text::new(text.clone(), (left, 2), font(12).color(color)))?;
        // There are no font metrics; seven pixels per character are enough at this size.
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
        // A bar fills its whole span, so that the bars of sparse requests stay visible.
        let span = |low: u64, high: u64, color: RGBColor| {
            Rectangle::new([(from, low), ((from + width).min(axes.until), high)], color.filled())
        };
        let granted = span(0, bin.admitted, GRANTED);
        let refused = span(bin.admitted, bin.admitted + bin.refused, REFUSED);
        [(bin.admitted > 0).then_some(granted), (bin.refused > 0).then_some(refused)].into_iter().flatten()
    }))?;
    Ok(())
}

/// `hour: granted within 1h`
fn caption(rule: &RuleStats) -> String {
    let name = report::clipped(&rule.name, 32);
    match rule.gauge {
        Gauge::Window(span) => format!("{name}: granted within {span}"),
        Gauge::Held => format!("{name}: held"),
    }
}

fn draw_rule(
    area: &Area<'_>,
    timeline: &Timeline,
    (index, rule): (usize, &RuleStats),
    axes: &Axes,
    caption: String,
) -> DrawResult {
    let over = rule.peak > rule.limit;
    area.draw(&Text::new(caption, (60, 2), font(12).color(if over { &REFUSED } else { &WINDOW })))?;
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

/// The content of a window over time, as a step line.
fn steps(timeline: &Timeline, rule: usize) -> Vec<(Timestamp, u64)> {
    let width = timeline.width();
    let mut points: Vec<(Timestamp, u64)> = Vec::new();
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

/// Bins merged into at most `MAX_BARS` bars.
fn bars(timeline: &Timeline) -> Vec<(Timestamp, Bin)> {
    let count = bins_per_bar(timeline);
    let bar = |(index, bins): (usize, &[Bin])| {
        let mut sum = Bin::default();
        bins.iter().for_each(|bin| sum.merge(bin));
        (timeline.start() + Span::from_micros((index * count) as u64 * timeline.width().as_micros()), sum)
    };
    timeline.bins().chunks(count).enumerate().map(bar).collect()
}

fn bins_per_bar(timeline: &Timeline) -> usize {
    timeline.bins().len().div_ceil(MAX_BARS).max(1)
}

fn bar_width(timeline: &Timeline) -> Span {
    Span::from_micros(timeline.width().as_micros() * bins_per_bar(timeline) as u64)
}

fn height(stats: &RunStats) -> u32 {
    TITLE + BARS + RULE * u32::try_from(stats.rules.len()).unwrap_or(1)
}

fn ceiling(rule: &RuleStats) -> u64 {
    rule.peak.max(rule.limit).max(1)
}

fn headroom(max: u64) -> u64 {
    max + max.div_ceil(8)
}

fn font(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&BLACK)
}

/// A span rounded for a caption.
fn short_span(span: Span) -> String {
    match span.as_micros() {
        0..2_000 => format!("{} µs", span.as_micros()),
        2_000..2_000_000 => format!("{} ms", span.as_micros() / 1_000),
        2_000_000..120_000_000 => format!("{} s", span.as_micros() / 1_000_000),
        120_000_000..7_200_000_000 => format!("{} min", span.as_micros() / 60_000_000),
        _ => format!("{} h", span.as_micros() / 3_600_000_000),
    }
}

/// A number for an axis: `1500`, `25k`, `3M`.
fn short(number: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(1_000_000_000_000, "T"), (1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")];
    for (size, unit) in UNITS {
        if number >= 10 * size || (number >= size && number.is_multiple_of(size)) {
            return format!("{}{unit}", number / size);
        }
    }
    number.to_string()
}

const GRANTED: RGBColor = RGBColor(42, 157, 143);
const REFUSED: RGBColor = RGBColor(200, 60, 50);
const WINDOW: RGBColor = RGBColor(38, 70, 120);
const FAINT: RGBColor = RGBColor(95, 95, 95);
const GRID: RGBColor = RGBColor(220, 220, 220);

const EDGE: u32 = 8;
const TITLE: u32 = 30;
const BARS: u32 = 120;
const RULE: u32 = 180;
/// Bars narrower than a few pixels are hard to see.
const MAX_BARS: usize = 60;
