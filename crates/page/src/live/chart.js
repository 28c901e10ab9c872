// Chart of lines over time: a drawing that is stretched, names beside it, and the same as a table.
const STEPS = [1, 2, 2.5, 5, 10];

// An axis from 0 to a round number above `largest`.
const linear = (unit, largest, least = 1) => {
  const base = unit === "rate" || unit === "size" ? 1024 : 1000;
  const end = Math.max(largest, least);
  const scale = base ** Math.floor(Math.log(end) / Math.log(base) + 1e-9);
  const size = 10 ** Math.floor(Math.log10(end / scale / 2));
  const step = STEPS.map((step) => step * size * scale).find((step) => end / step <= 4) ?? end;
  const to = step * Math.ceil(end / step - 1e-9);
  const ticks = [];
  for (let value = 0; value <= to + step / 2; value += step) ticks.push(value);
  const short = (value) => (value === 0 ? "0" : names[unit](value).replace(/\.0*(?= |$|\/|[kM])|(\.\d*?)0+(?= |$|\/|[kM])/, "$1"));
  return { kind: "linear", unit, from: 0, to, at: (value) => value / to, ticks: ticks.map((value) => [value / to, short(value)]) };
};
const percents = () => ({ ...linear("percent", 100), ticks: [0, 25, 50, 75, 100].map((value) => [value / 100, `${value} %`]) });

// A logarithmic axis of times, by powers of ten around all of `values`.
const logarithmic = (values) => {
  const some = values.filter((value) => value > 0);
  const from = 10 ** Math.floor(Math.log10(some.length ? Math.min(...some) : 1e5));
  const to = Math.max(10 ** Math.ceil(Math.log10(some.length ? Math.max(...some) : 1e7)), 10 * from);
  const at = (value) => Math.log(Math.max(value, from) / from) / Math.log(to / from);
  const ticks = [];
  for (let value = from; value <= to * 1.01; value *= 10) ticks.push([at(value), names.latency(value).replace(/\.0+/, "")]);
  return { kind: "log", unit: "latency", from, to, at, ticks };
};

// Time from `from` to `to`, in milliseconds since 1970.
const timeAxis = (from, to) => {
  const step = 60e3 * (to - from > RECENT ? 15 : 1);
  const at = (value) => (value - from) / (to - from);
  const ticks = [];
  for (let value = Math.ceil(from / step) * step; value <= to; value += step) {
    // At the right edge there is no room for a label.
    if (at(value) < 0.96) ticks.push([at(value), names.clock(value).slice(0, 5)]);
  }
  return { kind: "linear", unit: "clock", from, to, at, ticks };
};

const place = (at) => (1000 * Math.min(1, Math.max(0, at))).toFixed(1).replace(/\.0$/, "");

// Points [time, value] with null where nothing is known, as a path.
const pathOf = (points, x, y) => {
  let path = "";
  let isAlone = false;
  let isDown = false;
  for (const point of points) {
    if (point === null) {
      if (isAlone) path += "h0";
      isDown = isAlone = false;
      continue;
    }
    path += `${isDown ? "L" : "M"}${place(x.at(point[0]))} ${place(1 - y.at(point[1]))}`;
    isAlone = !isDown;
    isDown = true;
  }
  return isAlone ? `${path}h0` : path;
};

// Samples become points: `value` of each, and a gap where a sample is missing or has none.
const pointsOf = (list, value) => {
  const points = [];
  let last = null;
  for (const sample of list) {
    const found = value(sample);
    // Between the last kept sample and the first live one may be most of a span.
    if (last !== null && sample.at_ms - sample.span_ms > last.at_ms + last.span_ms + 1500) points.push(null);
    points.push(found === null || found === undefined ? null : [sample.at_ms, found]);
    last = sample;
  }
  return points;
};
const valuesOf = (lines) => lines.flatMap((line) => line.points.filter((point) => point !== null).map((point) => point[1]));

class Chart {
  constructor(id, title) {
    this.svg = s("svg", { viewBox: "0 0 1000 1000", preserveAspectRatio: "none", role: "img", "aria-label": title });
    this.plot = h("div", { class: "plot" }, this.svg);
    this.legend = h("ul", { class: "legend" });
    this.caption = h("figcaption", { text: title });
    this.rows = h("div");
    this.details = h("details", {}, h("summary", { text: `${title} as a table` }), this.rows);
    this.details.addEventListener("toggle", () => this.tabulate());
    this.figure = h("figure", { class: "chart", id }, this.caption, this.plot, this.legend, this.details);
    this.title = title;
    showValues(this.figure);
  }

  // `lines`: name, colour, points, more (text), and limit (points, isAbout). The axes are of `timeAxis` and the others here.
  draw({ lines, x, y, marks = [] }) {
    this.drawn = { lines, x, y };
    for (const [name, { unit, kind, from, to }] of [["x", x], ["y", y]]) {
      this.figure.dataset[name] = `${unit} ${kind} ${from} ${to}`;
    }
    const grid = y.ticks.map(([at]) => `M0 ${place(1 - at)}H1000`).join("") + x.ticks.map(([at]) => `M${place(at)} 0V1000`).join("");
    const [grey, own] = [true, false].map((isGrey) => lines.filter((line) => (line.colour === "rest") === isGrey));
    const drawn = [...grey, ...own].filter((line) => line.points.some((point) => point !== null));
    const limits = lines.filter((line) => line.limit?.points.some((point) => point !== null));
    this.svg.replaceChildren(
      s("path", { class: "grid", d: grid }),
      ...marks.map((at) => s("path", { class: "mark", d: `M${place(x.at(at))} 0V1000` })),
      ...drawn.map((line) => s("g", { class: line.colour, "data-name": line.name },
        s("path", { class: "line", d: pathOf(line.points, x, y) }))),
      ...limits.map((line) => s("path", {
        class: `limit ${line.limit.isAbout ? "about" : "dashed"} ${line.colour}`, d: pathOf(line.limit.points, x, y),
      })));
    this.svg.dataset.drawn = Number(this.svg.dataset.drawn ?? 0) + 1;
    const told = own.map((line) => `${line.name} ${line.more ?? ""}`);
    this.svg.setAttribute("aria-label", `${this.caption.textContent}. ${told.join("; ")}`);
    for (const label of this.plot.querySelectorAll("span, .none")) label.remove();
    for (const [at, text] of y.ticks) append(this.plot, "span", "y", text).style.top = place(1 - at) / 10 + "%";
    for (const [at, text] of x.ticks) {
      append(this.plot, "span", "x", text).style.left = place(at) / 10 + "%";
    }
    if (!drawn.length) append(this.plot, "p", "none", "nothing in this time");
    const entries = own.map((line) => h("li", { class: line.colour, "data-name": line.name },
      h("i"), h("b", { text: line.name }), " ", h("small", { text: line.more ?? "" })));
    if (grey.length) entries.push(h("li", { class: "rest" }, h("i"), h("b", { text: `${grey.length} others` })));
    this.legend.replaceChildren(...entries);
    this.tabulate();
  }

  // The last points as a table, while it is open.
  tabulate() {
    if (!this.details.open || !this.drawn) return;
    const { y } = this.drawn;
    // A limit is a column of its own; a line without points is nothing but one.
    const lines = this.drawn.lines.flatMap(({ name, points, limit }) => [
      ...(points.length ? [{ name, points }] : []),
      ...(limit?.points.some(Boolean) ? [{ name: points.length ? `limit of ${name}` : name, points: limit.points }] : []),
    ]);
    const all = [...new Set(lines.flatMap((line) => line.points.filter(Boolean).map((point) => point[0])))].sort((a, b) => b - a);
    const every = Math.max(1, Math.ceil(all.length / 30));
    const times = all.filter((_, index) => index % every === 0);
    const cells = lines.map((line) => new Map(line.points.filter(Boolean)));
    const rows = times.map((time) => h("tr", {}, h("th", { scope: "row", text: names.clock(time) }),
      ...cells.map((cell) => h("td", { class: "number", text: cell.has(time) ? names[y.unit](cell.get(time)) : "–" }))));
    const head = [["time", ""], ...lines.map((line) => [line.name, "number"])];
    this.rows.replaceChildren(table(`${this.title}, the newest first`, head, rows));
  }
}

// Times at which the server has begun anew.
const restarts = (list) => list.filter((sample, index) => index > 0 && sample.started_at_ms !== list[index - 1].started_at_ms)
  .map((sample) => sample.started_at_ms);
