//! Charts as SVG: a value over a size, a line for each series; bars if there is only one size. PURE.
//!
//! Series differ by mark and dashes as well as by colour, and each chart has its values as a table.

use maud::{Markup, html};

/// Width and height of a chart, in units of the drawing.
const SIZE: (f64, f64) = (440.0, 230.0);
/// Space for labels: left, right, top, bottom.
const MARGIN: (f64, f64, f64, f64) = (70.0, 16.0, 14.0, 40.0);
/// Number of styles; further series repeat them.
const STYLES: usize = 5;
/// Sizes of which the largest is so many times the smallest are drawn on a logarithmic axis.
const LOGARITHMIC: f64 = 8.0;

/// A series of values.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// Pairs of size and value, ordered by size.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// Makes a series of pairs of size and value, in any order. Of several values of one size, the first counts.
    #[must_use]
    pub fn new(name: &str, mut points: Vec<(f64, f64)>) -> Self {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points.dedup_by(|a, b| a.0.total_cmp(&b.0).is_eq());
        Self { name: name.to_owned(), points }
    }
}

/// Returns names in the order of their first place, each once.
#[must_use]
pub fn distinct<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut distinct: Vec<String> = Vec::new();
    for name in names {
        if !distinct.contains(name) {
            distinct.push(name.clone());
        }
    }
    distinct
}

/// A chart.
#[derive(Clone, Debug)]
pub struct Chart {
    /// The heading.
    pub title: String,
    /// The unit of sizes: `pods`.
    pub size: &'static str,
    /// The series, in the order of the legend; some may be empty.
    pub series: Vec<Series>,
    /// A value that is drawn as a limit, with its name.
    pub limit: Option<(String, f64)>,
    /// Formats a value.
    pub tell: fn(f64) -> String,
}

/// Returns the legend of charts with these series.
#[must_use]
pub fn legend(names: &[String]) -> Markup {
    html! {
        ul.chart-legend aria-label="Series" {
            @for (index, name) in names.iter().enumerate() {
                li {
                    svg.curves width="46" height="14" viewBox="0 0 46 14" aria-hidden="true" {
                        g.(style(index)) { line.curve x1="2" y1="7" x2="44" y2="7" {} (mark(index, 23.0, 7.0)) }
                    }
                    " " (name)
                }
            }
        }
    }
}

/// Returns charts side by side.
#[must_use]
pub fn charts(charts: &[Chart]) -> Markup {
    html! { div.charts { @for chart in charts.iter().filter(|chart| !chart.sizes().is_empty()) { (chart.render()) } } }
}

fn style(index: usize) -> String {
    format!("series-{}", index % STYLES)
}

/// Formats a count with commas.
fn count(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Removes zeros at the end of the decimals: `40 s` for `40.00 s`.
fn short(amount: &str) -> String {
    match amount.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => amount.to_owned(),
    }
}

/// The mark of a series at a point.
fn mark(index: usize, x: f64, y: f64) -> Markup {
    let at = format!("translate({x:.1} {y:.1})");
    let path = match index % STYLES {
        0 => "M-4 0A4 4 0 1 1 4 0A4 4 0 1 1-4 0Z",
        1 => "M-4-4H4V4H-4Z",
        2 => "M0-5 5 4H-5Z",
        3 => "M0-5.5 5.5 0 0 5.5-5.5 0Z",
        _ => "M-5-4H5L0 5Z",
    };
    html! { path.point d=(path) transform=(at) {} }
}

/// Returns a round number that is at least `value`, and the step between ticks.
fn ticks(value: f64) -> (f64, f64) {
    if value <= 0.0 {
        return (1.0, 1.0);
    }
    let rough = value / 4.0;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(rough);
    ((value / step).ceil() * step, step)
}

/// The places of values in a drawing.
struct Axes {
    sizes: Vec<f64>,
    top: f64,
    step: f64,
}

impl Axes {
    fn x(&self, size: f64) -> f64 {
        let first = self.sizes[0];
        let last = self.sizes[self.sizes.len() - 1];
        let place = |size: f64| if first > 0.0 && last / first >= LOGARITHMIC { size.ln() } else { size };
        let part = (place(size) - place(first)) / (place(last) - place(first)).max(f64::MIN_POSITIVE);
        let inset = 14.0;
        MARGIN.0 + inset + part * (SIZE.0 - MARGIN.0 - MARGIN.1 - 2.0 * inset)
    }

    fn y(&self, value: f64) -> f64 {
        SIZE.1 - MARGIN.3 - value / self.top * (SIZE.1 - MARGIN.2 - MARGIN.3)
    }

    fn ticks(&self) -> Vec<f64> {
        let mut ticks = vec![0.0];
        while let Some(next) = ticks.last().map(|last| last + self.step).filter(|next| *next <= self.top * 1.001) {
            ticks.push(next);
        }
        ticks
    }
}

impl Chart {
    /// Returns the sizes, ordered.
    fn sizes(&self) -> Vec<f64> {
        let points = self.series.iter().flat_map(|series| &series.points);
        let mut sizes: Vec<f64> = points.map(|(size, _)| *size).collect();
        sizes.sort_by(f64::total_cmp);
        sizes.dedup_by(|a, b| a.total_cmp(b).is_eq());
        sizes
    }

    fn axes(&self) -> Axes {
        let values = self.series.iter().flat_map(|series| &series.points).map(|(_, value)| *value);
        let highest = values.chain(self.limit.iter().map(|(_, limit)| *limit)).fold(0.0, f64::max);
        let (top, step) = ticks(highest);
        Axes { sizes: self.sizes(), top, step }
    }

    fn render(&self) -> Markup {
        let axes = self.axes();
        let view = format!("0 0 {} {}", SIZE.0, SIZE.1);
        html! {
            figure.chart-box {
                figcaption { (self.title) }
                svg.curves viewBox=(view) role="img" aria-label=(self.summary()) {
                    (self.grid(&axes))
                    @if let Some((name, limit)) = &self.limit { (self.limit_line(&axes, name, *limit)) }
                    @for (index, series) in self.series.iter().enumerate() {
                        g.(style(index)) {
                            @if axes.sizes.len() == 1 { (self.bar(&axes, index, series)) }
                            @else { (self.curve(&axes, index, series)) }
                        }
                    }
                }
                (self.table(&axes.sizes))
            }
        }
    }

    fn grid(&self, axes: &Axes) -> Markup {
        let left = MARGIN.0;
        let right = SIZE.0 - MARGIN.1;
        let bottom = SIZE.1 - MARGIN.3;
        let number = |value: f64| format!("{value:.1}");
        html! {
            @for tick in axes.ticks() {
                line.tick x1=(number(left)) x2=(number(right)) y1=(number(axes.y(tick))) y2=(number(axes.y(tick))) {}
                text.value x=(number(left - 6.0)) y=(number(axes.y(tick) + 4.0)) { (short(&self.amount(tick))) }
            }
            @if axes.sizes.len() > 1 {
                @for size in &axes.sizes {
                    line.tick x1=(number(axes.x(*size))) x2=(number(axes.x(*size))) y1=(number(bottom))
                        y2=(number(bottom + 4.0)) {}
                    text.size x=(number(axes.x(*size))) y=(number(bottom + 16.0)) { (count(*size)) }
                }
            }
            text.size x=(number(f64::midpoint(left, right))) y=(number(SIZE.1 - 6.0)) {
                @if axes.sizes.len() == 1 { (count(axes.sizes[0])) " " }
                (self.size)
            }
        }
    }

    fn amount(&self, value: f64) -> String {
        if value == 0.0 { "0".to_owned() } else { (self.tell)(value) }
    }

    fn limit_line(&self, axes: &Axes, name: &str, limit: f64) -> Markup {
        let y = format!("{:.1}", axes.y(limit));
        let above = format!("{:.1}", axes.y(limit) - 4.0);
        html! {
            line.limit x1=(MARGIN.0) x2=(SIZE.0 - MARGIN.1) y1=(y) y2=(y) {}
            text.limit-name x=(SIZE.0 - MARGIN.1 - 2.0) y=(above) { (name) " " (self.amount(limit)) }
        }
    }

    fn curve(&self, axes: &Axes, index: usize, series: &Series) -> Markup {
        let places: Vec<(f64, f64)> =
            series.points.iter().map(|(size, value)| (axes.x(*size), axes.y(*value))).collect();
        let line: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        html! {
            @if line.len() > 1 { polyline.curve points=(line.join(" ")) {} }
            @for ((x, y), (size, value)) in places.iter().zip(&series.points) {
                g {
                    title { (series.name) ", " (count(*size)) " " (self.size) ": " (self.amount(*value)) }
                    (mark(index, *x, *y))
                }
            }
        }
    }

    /// The bar of a series with one size.
    fn bar(&self, axes: &Axes, index: usize, series: &Series) -> Markup {
        let slot = (SIZE.0 - MARGIN.0 - MARGIN.1) / self.series.len() as f64;
        let width = (slot * 0.5).min(60.0);
        let middle = MARGIN.0 + slot * (index as f64 + 0.5);
        html! {
            @for (_, value) in &series.points {
                @let y = axes.y(*value);
                rect.bar x=(format!("{:.1}", middle - width / 2.0)) y=(format!("{y:.1}"))
                    width=(format!("{width:.1}")) height=(format!("{:.1}", (SIZE.1 - MARGIN.3 - y).max(0.5))) {
                    title { (series.name) ": " (self.amount(*value)) }
                }
                (mark(index, middle, SIZE.1 - MARGIN.3 + 10.0))
                text.size x=(format!("{middle:.1}")) y=(format!("{:.1}", y - 4.0)) { (self.amount(*value)) }
            }
        }
    }

    fn value(&self, series: &Series, size: f64) -> Option<String> {
        series.points.iter().find(|(at, _)| at.total_cmp(&size).is_eq()).map(|(_, value)| self.amount(*value))
    }

    /// Describes the chart in a sentence, for those who do not see it.
    fn summary(&self) -> String {
        let of = |series: &Series| {
            let points: Vec<String> = series
                .points
                .iter()
                .map(|(size, value)| format!("{} at {} {}", self.amount(*value), count(*size), self.size))
                .collect();
            format!("{}: {}", series.name, points.join(", "))
        };
        let shown = self.series.iter().filter(|series| !series.points.is_empty());
        format!("{}. {}", self.title, shown.map(of).collect::<Vec<_>>().join("; "))
    }

    fn table(&self, sizes: &[f64]) -> Markup {
        html! {
            details {
                summary { "Values" }
                div.scroll tabindex="0" role="region" aria-label=(format!("{}, values", self.title)) {
                    table {
                        thead {
                            tr {
                                th.number scope="col" { (self.size) }
                                @for series in &self.series { th.number scope="col" { (series.name) } }
                            }
                        }
                        tbody {
                            @for size in sizes {
                                tr {
                                    td.number { (count(*size)) }
                                    @for series in &self.series {
                                        td.number { (self.value(series, *size).unwrap_or_else(|| "–".to_owned())) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn chart(points: &[&[(f64, f64)]]) -> Chart {
        let series = |(index, points): (usize, &&[(f64, f64)])| Series {
            name: format!("<b>{index}</b>"),
            points: points.to_vec(),
        };
        Chart {
            title: "start: time".to_owned(),
            size: "pods",
            series: points.iter().enumerate().map(series).collect(),
            limit: Some(("target".to_owned(), 2.0)),
            tell: |value| format!("{value} s"),
        }
    }

    #[rstest]
    #[case(0.0, (1.0, 1.0))]
    #[case(4.0, (4.0, 1.0))]
    #[case(9.3, (10.0, 2.5))]
    #[case(0.000_9, (0.001, 0.000_25))]
    #[case(2.11e9, (3e9, 1e9))]
    fn ticks_are_round(#[case] value: f64, #[case] expected: (f64, f64)) {
        let (top, step) = ticks(value);
        let near = |a: f64, b: f64| (a - b).abs() <= b * 1e-9;
        assert!(near(step, expected.1) && near(top, expected.0), "{top} {step}");
    }

    #[rstest]
    #[case("40.00 s", "40 s")]
    #[case("2.50 GB", "2.5 GB")]
    #[case("600 MB", "600 MB")]
    #[case("3000", "3000")]
    fn ticks_are_short(#[case] amount: &str, #[case] expected: &str) {
        assert_eq!(short(amount), expected);
    }

    #[test]
    fn larger_sizes_are_to_the_right_and_larger_values_above() {
        let chart = chart(&[&[(1000.0, 1.0), (10_000.0, 3.0)], &[(10_000.0, 4.0)]]);
        let axes = chart.axes();
        assert_eq!((axes.sizes.as_slice(), axes.top), ([1000.0, 10_000.0].as_slice(), 4.0));
        assert!(axes.x(1000.0) < axes.x(10_000.0) && axes.y(3.0) < axes.y(1.0));
        assert!((axes.x(1000.0_f64 * 10_f64.sqrt()) - f64::midpoint(axes.x(1000.0), axes.x(10_000.0))).abs() < 0.1);
        let text = chart.render().into_string();
        assert_eq!(text.matches("class=\"point\"").count(), 3);
        assert_eq!(text.matches("<polyline").count(), 1, "one point is no line");
        assert!(text.contains("&lt;b&gt;0") && !text.contains("<b>"), "names are escaped");
        assert!(text.contains("<td class=\"number\">10,000</td><td class=\"number\">3 s</td>"), "{text}");
        assert!(text.contains("<td class=\"number\">1 s</td><td class=\"number\">–</td>"), "{text}");
    }

    #[test]
    fn one_size_is_drawn_as_bars() {
        let text = chart(&[&[(150_000.0, 1.0)], &[(150_000.0, 3.0)]]).render().into_string();
        assert_eq!((text.matches("<rect").count(), text.matches("<polyline").count()), (2, 0));
        assert!(text.contains(">150,000 pods</text>"), "{text}");
        assert_eq!(charts(&[chart(&[&[]])]).into_string(), "<div class=\"charts\"></div>", "nothing was measured");
    }
}
