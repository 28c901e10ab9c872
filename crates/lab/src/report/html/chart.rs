//! Chart: lines and limits as SVG that is stretched to the available width, names beside it as text that is not.

use super::axis::{Axis, Scale};
use super::markup::Markup;
use super::palette::Colour;

/// Width and height of the drawing in its own unit, which is well below a pixel.
const SIDE: f64 = 1000.0;

/// Grey lines that a chart draws: enough to show their range.
pub(super) const GREY_MAX: usize = 100;

pub(super) struct Line {
    pub(super) name: String,
    pub(super) colour: Colour,
    /// In the units of the axes, by ascending x.
    pub(super) points: Vec<(f64, f64)>,
}

/// A limit: a dashed line across.
pub(super) struct Limit {
    pub(super) colour: Colour,
    pub(super) value: f64,
    /// The value is only near the limit, because the limit is on something else.
    pub(super) is_about: bool,
}

/// An event: a line from top to bottom.
#[derive(Clone)]
pub(super) struct Mark {
    /// In the unit of the horizontal axis.
    pub(super) at: f64,
    /// A short label, and what it stands for.
    pub(super) name: String,
    pub(super) text: String,
}

pub(super) struct Legend {
    pub(super) name: String,
    pub(super) colour: Colour,
    pub(super) more: String,
}

pub(super) fn rest(count: usize) -> Option<Legend> {
    let more = match count.checked_sub(GREY_MAX) {
        Some(1..) => format!("{GREY_MAX} of them drawn"),
        _ => String::new(),
    };
    (count > 0).then(|| Legend { name: format!("{count} others"), colour: Colour::Rest, more })
}

pub(super) struct Chart {
    /// Unique on the page; makes the ids of title and description.
    pub(super) id: String,
    pub(super) title: String,
    /// For a screen reader.
    pub(super) description: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) lines: Vec<Line>,
    pub(super) limits: Vec<Limit>,
    pub(super) marks: Vec<Mark>,
    pub(super) legend: Vec<Legend>,
    /// Whether the first line is filled below.
    pub(super) is_area: bool,
    /// Whether it has a row of the page for itself.
    pub(super) is_wide: bool,
}

impl Chart {
    pub(super) fn write(&self, markup: &mut Markup) {
        let scale = |axis: &Axis| match axis.scale {
            Scale::Linear(end) => format!("linear 0 {end}"),
            Scale::Log(from, to) => format!("log {from} {to}"),
            Scale::Nines(end) => format!("nines 0 {end}"),
        };
        let attributes: &[(&str, &dyn std::fmt::Display)] = &[
            ("class", if self.is_wide { &"chart wide" } else { &"chart" }),
            ("data-x", &format!("{} {}", self.x.unit.name(), scale(&self.x))),
            ("data-y", &format!("{} {}", self.y.unit.name(), scale(&self.y))),
        ];
        markup.element("figure", attributes, |markup| {
            markup.leaf("figcaption", &[], &self.title);
            markup.element("div", &[("class", &"plot")], |markup| self.plot(markup));
            self.write_legend(markup);
        });
    }

    fn plot(&self, markup: &mut Markup) {
        let (title, desc) = (format!("{}-t", self.id), format!("{}-d", self.id));
        let labelled = format!("{title} {desc}");
        let attributes: &[(&str, &dyn std::fmt::Display)] = &[
            ("viewBox", &"0 0 1000 1000"),
            ("preserveAspectRatio", &"none"),
            ("role", &"img"),
            ("aria-labelledby", &labelled),
        ];
        markup.element("svg", attributes, |markup| {
            markup.leaf("title", &[("id", &title)], &self.title);
            markup.leaf("desc", &[("id", &desc)], &self.description);
            markup.void("path", &[("class", &"grid"), ("d", &self.grid())]);
            // Grey lines first, below the others.
            for line in self.lines.iter().filter(|line| line.colour == Colour::Rest) {
                self.line(markup, line, false);
            }
            for (index, line) in
                self.lines.iter().enumerate().filter(|(_, line)| line.colour != Colour::Rest)
            {
                self.line(markup, line, self.is_area && index == 0);
            }
            self.write_limits(markup);
            self.write_marks(markup);
        });
        for mark in &self.marks {
            let style = format!("left:{}%", percent(self.x.scale.place(mark.at)));
            let attributes: &[(&str, &dyn std::fmt::Display)] =
                &[("class", &"mark"), ("style", &style), ("title", &mark.text)];
            markup.leaf("span", attributes, &mark.name);
        }
        labels(markup, &self.x, &self.y);
        if self.lines.iter().all(|line| line.points.is_empty()) {
            markup.leaf("p", &[("class", &"none")], "nothing to show");
        }
    }

    fn grid(&self) -> String {
        let across = self.y.ticks.iter().map(|tick| format!("M0 {}H1000", down(tick.at)));
        let along = self.x.ticks.iter().map(|tick| format!("M{} 0V1000", along(tick.at)));
        across.chain(along).collect()
    }

    fn line(&self, markup: &mut Markup, line: &Line, is_area: bool) {
        let places: Vec<(f64, f64)> = line
            .points
            .iter()
            .map(|&(x, y)| (self.x.scale.place(x), self.y.scale.place(y)))
            .collect();
        let Some(&(first, _)) = places.first() else { return };
        let mut path = String::new();
        for (index, &(x, y)) in places.iter().enumerate() {
            let command = if index == 0 { 'M' } else { 'L' };
            path.push_str(&format!("{command}{} {}", along(x), down(y)));
        }
        if places.len() == 1 {
            // A line without length has round ends: a dot.
            path.push_str("h0");
        }
        let class = line.colour.class();
        markup.element("g", &[("class", &class), ("data-name", &line.name)], |markup| {
            if is_area && places.len() > 1 {
                let last = places[places.len() - 1].0;
                let area = format!("{path}L{} 1000L{} 1000Z", along(last), along(first));
                markup.void("path", &[("class", &"area"), ("d", &area)]);
            }
            let class = if places.len() == 1 { "line dot" } else { "line" };
            markup.void("path", &[("class", &class), ("d", &path)]);
        });
    }

    /// Dashes of equal limits take turns, so that each colour is seen.
    fn write_limits(&self, markup: &mut Markup) {
        const DASH: usize = 7;
        for (index, limit) in self.limits.iter().enumerate() {
            let is_same = |other: &&Limit| other.value == limit.value;
            let shared = self.limits.iter().filter(is_same).count();
            let before = self.limits[..index].iter().filter(is_same).count();
            let (dash, gap) = match limit.is_about {
                true => (2, 5),
                false => (DASH, DASH * (shared - 1) + 5),
            };
            let style =
                format!("stroke-dasharray:{dash} {gap};stroke-dashoffset:-{}", DASH * before);
            let path = format!("M0 {}H1000", down(self.y.scale.place(limit.value)));
            let class = format!("limit {}", limit.colour.class());
            markup.void("path", &[("class", &class), ("d", &path), ("style", &style)]);
        }
    }

    fn write_marks(&self, markup: &mut Markup) {
        for mark in &self.marks {
            let path = format!("M{} 0V1000", along(self.x.scale.place(mark.at)));
            markup.void("path", &[("class", &"mark"), ("d", &path)]);
        }
    }

    fn write_legend(&self, markup: &mut Markup) {
        if self.legend.is_empty() {
            return;
        }
        markup.element("ul", &[("class", &"legend")], |markup| {
            for entry in &self.legend {
                let class = entry.colour.class();
                markup.element("li", &[("class", &class), ("data-name", &entry.name)], |markup| {
                    markup.leaf("i", &[], "");
                    markup.leaf("b", &[], &entry.name);
                    if !entry.more.is_empty() {
                        markup.text(" ");
                        markup.leaf("small", &[], &entry.more);
                    }
                });
            }
        });
    }
}

/// Names of the ticks of both axes, beside the drawing.
pub(super) fn labels(markup: &mut Markup, x: &Axis, y: &Axis) {
    for tick in &y.ticks {
        let style = format!("top:{}%", percent(1.0 - tick.at));
        markup.leaf("span", &[("class", &"y"), ("style", &style)], &tick.name);
    }
    for tick in &x.ticks {
        let style = format!("left:{}%", percent(tick.at));
        // The outermost labels end with the plot, so that they stay on the page.
        let class = match tick.at {
            at if at > 0.97 => "x last",
            _ => "x",
        };
        markup.leaf("span", &[("class", &class), ("style", &style)], &tick.name);
    }
}

/// A horizontal place, to a tenth of the unit.
pub(super) fn along(at: f64) -> String {
    tenth((at.clamp(0.0, 1.0) * SIDE * 10.0).round() as i64)
}

/// A vertical place; the origin is at the top. Values above the axis end at its end.
pub(super) fn down(at: f64) -> String {
    tenth(((1.0 - at.clamp(0.0, 1.0)) * SIDE * 10.0).round() as i64)
}

fn tenth(tenths: i64) -> String {
    match tenths % 10 {
        0 => format!("{}", tenths / 10),
        rest => format!("{}.{rest}", tenths / 10),
    }
}

fn percent(at: f64) -> String {
    tenth((at.clamp(0.0, 1.0) * 1000.0).round() as i64)
}
