//! Style and scripts that the lab's pages and the live page share, and the live page itself.
//!
//! A script is files joined inside of one function, so that it adds no name to a page. Nothing here is loaded from
//! elsewhere, and no framework or build step is behind it.

/// Style of all pages: colours, light and dark, charts and tables.
pub const STYLE: &str = concat!(
    include_str!("light.css"),
    // Dark where the system is, unless the page says otherwise.
    "@media (prefers-color-scheme: dark) { :root:not([data-theme=light]) {\n",
    include_str!("dark.css"),
    "} }\n:root[data-theme=dark] {\n",
    include_str!("dark.css"),
    "}\n",
    include_str!("style.css")
);

/// Script of a page with drawn charts: values under the pointer.
pub const SCRIPT: &str = concat!(
    "\"use strict\";(() => {\n",
    include_str!("units.js"),
    include_str!("values.js"),
    include_str!("drawn.js"),
    "})();\n"
);

/// Style of the live page, besides [`STYLE`].
pub const LIVE_STYLE: &str = include_str!("live.css");

/// Script of the live page.
pub const LIVE_SCRIPT: &str = concat!(
    "\"use strict\";(() => {\n",
    include_str!("units.js"),
    include_str!("values.js"),
    include_str!("live/samples.js"),
    include_str!("live/elements.js"),
    include_str!("live/chart.js"),
    include_str!("live/rates.js"),
    include_str!("live/latency.js"),
    include_str!("live/device.js"),
    include_str!("live/waits.js"),
    include_str!("live/cgroups.js"),
    include_str!("live/main.js"),
    "})();\n"
);

/// The live page with its `style` and script inside, which its server allows by their digests. Everything else in it is
/// made by the script.
pub fn live(style: &str) -> String {
    include_str!("live.html").replace("{style}", style).replace("{script}", LIVE_SCRIPT)
}
