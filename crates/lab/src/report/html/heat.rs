//! Heat map: cells over two axes, shaded by share.

use std::fmt::Write;

use super::axis::Axis;
use super::chart::{along, down, labels};
use super::markup::Markup;

/// Shades that are told apart; cells of one shade are one path.
const SHADES: usize = 10;

pub(super) struct Cell {
    pub(super) x: (f64, f64),
    pub(super) y: (f64, f64),
    /// Of its column.
    pub(super) share: f64,
}

pub(super) struct HeatMap {
    /// Unique on the page.
    pub(super) id: String,
    pub(super) title: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) cells: Vec<Cell>,
}

impl HeatMap {
    pub(super) fn write(&self, markup: &mut Markup) {
        let mut shades = vec![String::new(); SHADES];
        for cell in &self.cells {
            // The square root shows the few slow ones beside the many fast ones.
            let shade = (cell.share.sqrt() * SHADES as f64).ceil() as usize;
            let (x, y) = (&self.x.scale, &self.y.scale);
            let [left, right] = [x.place(cell.x.0), x.place(cell.x.1)].map(along);
            let [low, top] = [y.place(cell.y.0), y.place(cell.y.1)].map(down);
            let path = &mut shades[shade.clamp(1, SHADES) - 1];
            // Writing into a string does not fail.
            let _ = write!(path, "M{left} {low}H{right}V{top}H{left}Z");
        }
        markup.element("figure", &[("class", &"chart")], |markup| {
            markup.leaf("figcaption", &[], &self.title);
            markup.element("div", &[("class", &"plot")], |markup| {
                let title = format!("{}-t", self.id);
                let attributes: &[(&str, &dyn std::fmt::Display)] = &[
                    ("viewBox", &"0 0 1000 1000"),
                    ("preserveAspectRatio", &"none"),
                    ("role", &"img"),
                    ("aria-labelledby", &title),
                ];
                markup.element("svg", attributes, |markup| {
                    markup.leaf("title", &[("id", &title)], &self.title);
                    for (index, path) in
                        shades.iter().enumerate().filter(|(_, path)| !path.is_empty())
                    {
                        let style = format!("--a:{}", (index + 1) as f64 / SHADES as f64);
                        let attributes: &[(&str, &dyn std::fmt::Display)] =
                            &[("class", &"cells"), ("style", &style), ("d", path)];
                        markup.void("path", attributes);
                    }
                });
                labels(markup, &self.x, &self.y);
            });
        });
    }
}
