// Latency of one cgroup as percentiles over time and as a heat map, and p99 of all of them.
const PERCENTILES = [["p50", "p50_ns", "c0"], ["p99", "p99_ns", "c1"], ["p99.9", "p999_ns", "c3"], ["max", "max_ns", "rest-line"]];
const BINS_FROM = 2 ** 10;

class HeatMap {
  constructor() {
    this.canvas = h("canvas", { role: "img" });
    this.plot = h("div", { class: "plot heat" }, this.canvas);
    this.rows = h("div");
    this.details = h("details", {}, h("summary", { text: "Heat map as a table" }), this.rows);
    this.details.addEventListener("toggle", () => this.tabulate());
    this.caption = h("figcaption", { text: "How many requests took how long" });
    this.figure = h("figure", { class: "heat-map", id: "heat" }, this.caption, this.plot, this.details);
  }

  draw({ list, device, x, path }) {
    const columns = list.map((sample) => ({ sample, bins: sample.byName.get(device)?.byPath.get(path)?.latency_bins ?? [] }));
    this.columns = columns;
    const starts = columns.flatMap(({ bins }) => bins.map(([start]) => start));
    const y = logarithmic(starts.length ? [Math.max(Math.min(...starts), BINS_FROM), 2 * Math.max(...starts)] : []);
    // A dot for each pixel that the page has, so that cells have sharp edges.
    const { width, height } = this.plot.getBoundingClientRect();
    const dots = Math.max(1, window.devicePixelRatio);
    const [wide, high] = [Math.max(1, Math.round(width * dots)), Math.max(1, Math.round(height * dots))];
    Object.assign(this.canvas, { width: wide, height: high });
    const context = this.canvas.getContext("2d");
    const heat = getComputedStyle(this.canvas).getPropertyValue("--heat").trim().replaceAll(" ", ",");
    for (const { sample, bins } of columns) {
      const all = sum(bins.map(([, count]) => count));
      const [from, to] = [sample.at_ms - sample.span_ms, sample.at_ms].map((time) => Math.round(wide * Math.max(0, x.at(time))));
      for (const [start, count] of bins) {
        // A bin begins at a power of two, or in the middle to the next one.
        const end = Number.isInteger(Math.log2(start)) ? start * 1.5 : (start * 4) / 3;
        const [low, top] = [start, end].map((time) => Math.round(high * (1 - Math.min(1, y.at(time)))));
        // The square root shows the few slow ones beside the many fast ones.
        context.fillStyle = `rgba(${heat},${(0.12 + 0.88 * Math.sqrt(count / all)).toFixed(3)})`;
        context.fillRect(from, top, Math.max(1, to - from), Math.max(1, low - top));
      }
    }
    for (const label of this.plot.querySelectorAll("span, .none")) label.remove();
    for (const [at, text] of y.ticks) append(this.plot, "span", "y", text).style.top = place(1 - at) / 10 + "%";
    for (const [at, text] of x.ticks) append(this.plot, "span", "x", text).style.left = place(at) / 10 + "%";
    if (!starts.length) append(this.plot, "p", "none", "no requests in this time");
    this.caption.textContent = `How many requests took how long, of ${path}`;
    this.canvas.setAttribute("aria-label", `Heat map: ${this.caption.textContent}. The table below has the numbers.`);
    this.tabulate();
  }

  tabulate() {
    if (!this.details.open || !this.columns) return;
    const totals = new Map();
    for (const { bins } of this.columns) for (const [start, count] of bins) totals.set(start, (totals.get(start) ?? 0) + count);
    const rows = [...totals].sort(([a], [b]) => a - b).map(([start, count]) =>
      h("tr", {}, h("th", { scope: "row", text: `from ${names.latency(start)}` }), h("td", { class: "number", text: String(count) })));
    this.rows.replaceChildren(table("Requests by latency, in the time shown", [["latency", ""], ["requests", "number"]], rows));
  }
}

const latency = {
  path: "/",
  direction: "read",
  charts: { percentiles: new Chart("percentiles", "Percentiles"), all: new Chart("p99", "p99 of each cgroup") },
  heat: new HeatMap(),
  make(redraw) {
    this.choosePath = select("Cgroup", [["/", "/"]], "/", (path) => { this.path = path; redraw(); });
    const chooseDirection = select("Requests", [["read", "reads"], ["write", "writes and others"]], "read", (direction) => {
      this.direction = direction;
      redraw();
    });
    return section("latency", "Latency", "Time inside Weir: from the arrival of a request to its completion by the device. At p99, 99 of 100 requests took no longer.",
      h("div", { class: "tools" }, this.choosePath, chooseDirection),
      h("div", { class: "charts" }, this.charts.percentiles.figure, this.heat.figure, this.charts.all.figure));
  },
  draw({ list, device, x, marks }) {
    const paths = pathsOf(list, device);
    const options = paths.map(({ path }) => [path, path]);
    // One that has gone stays chosen as long as there is something of it to see.
    if (!paths.some(({ path }) => path === this.path)) this.path = "/";
    fill(this.choosePath.querySelector("select"), options.length ? options : [["/", "/"]], this.path);
    const cgroupIn = (sample, path) => sample.byName.get(device)?.byPath.get(path);
    const key = `${this.direction}_latency`;
    const points = (path, of) => pointsOf(list, (sample) => cgroupIn(sample, path)?.[key]?.[of] || null);
    const lines = PERCENTILES.map(([name, of, colour]) => {
      const found = points(this.path, of);
      const last = found.filter(Boolean).at(-1);
      return { name, colour, points: found, more: last ? names.latency(last[1]) : "none" };
    });
    const kind = this.direction === "read" ? "reads" : "writes and others";
    this.charts.percentiles.caption.textContent = `Percentiles of ${this.path}, ${kind}`;
    this.charts.percentiles.draw({ lines, x, marks, y: logarithmic(valuesOf(lines)) });
    this.heat.draw({ list, device, x, path: this.path });
    const each = paths.filter(({ isSum }) => !isSum).map(({ path }) => {
      const found = points(path, "p99_ns");
      const last = found.filter(Boolean).at(-1);
      return { name: path, colour: colourOf(path), points: found, more: last ? names.latency(last[1]) : "" };
    }).filter(({ points }) => points.some(Boolean));
    this.charts.all.caption.textContent = `p99 of each cgroup, ${kind}`;
    this.charts.all.draw({ lines: each, x, marks, y: logarithmic(valuesOf(each)) });
  },
};
