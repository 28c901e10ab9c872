
// Values under the pointer. Everything is read back from the drawings, whose axes are told by data-x and data-y.
(() => {
  const three = (value) => {
    if (value >= 100) return value.toFixed(0);
    return value >= 10 ? value.toFixed(1) : value.toFixed(2);
  };
  const scaled = (value, base, names) => {
    let unit = 0;
    while (unit + 1 < names.length && value >= base) { value /= base; unit += 1; }
    return `${three(value)} ${names[unit]}`;
  };
  const names = {
    rate: (value) => scaled(value, 1024, ["B/s", "KiB/s", "MiB/s", "GiB/s", "TiB/s"]),
    ios: (value) => scaled(value, 1000, ["/s", "k/s", "M/s"]).replace(" ", ""),
    latency: (value) => scaled(value, 1000, ["ns", "us", "ms", "s"]),
    time: (value) => scaled(value, 1000, ["ns", "us", "ms", "s"]),
    size: (value) => scaled(value, 1024, ["B", "KiB", "MiB"]),
    count: (value) => `${three(value)} at once`,
    percent: (value) => `${three(value)} %`,
    percentile: (value) => `p${Number((100 * value).toFixed(value < 0.99 ? 0 : 3))}`,
  };
  // "UNIT KIND FROM TO" to a function of the place from 0 to 1.
  const axis = (text) => {
    const [unit, kind, from, to] = text.split(" ");
    const value = {
      linear: (at) => at * to,
      log: (at) => from * (to / from) ** at,
      nines: (at) => 1 - 10 ** (-at * to),
    }[kind];
    return (at) => names[unit](value(at));
  };
  const read = (path) =>
    path.getAttribute("d").replace(/h0$/, "").slice(1).split("L").map((pair) => pair.split(" ").map(Number));
  const height = (points, x) => {
    const last = points[points.length - 1];
    if (x < points[0][0] - 5 || x > last[0] + 5) return null;
    const next = points.findIndex((point) => point[0] >= x);
    if (next <= 0) return next === 0 ? points[0][1] : last[1];
    const [[x0, y0], [x1, y1]] = [points[next - 1], points[next]];
    return x1 > x0 ? y0 + ((x - x0) / (x1 - x0)) * (y1 - y0) : y1;
  };
  const add = (parent, tag, name, text) => {
    const element = document.createElement(tag);
    element.className = name;
    if (text !== undefined) element.textContent = text;
    return parent.appendChild(element);
  };

  for (const chart of document.querySelectorAll(".chart")) {
    const plot = chart.querySelector(".plot");
    const svg = plot.querySelector("svg");
    const [x, y] = [axis(chart.dataset.x), axis(chart.dataset.y)];
    let lines = null;
    let hair = null;
    let box = null;
    const leave = () => { hair?.remove(); box?.remove(); hair = box = null; };
    plot.addEventListener("pointerleave", leave);
    const show = (event) => {
      lines ??= [...svg.querySelectorAll("g")].map((g) => ({
        name: g.dataset.name, colour: g.getAttribute("class"), points: read(g.querySelector(".line")),
      }));
      const bounds = plot.getBoundingClientRect();
      const at = Math.min(1, Math.max(0, (event.clientX - bounds.left) / bounds.width));
      const near = lines
        .map((line) => ({ ...line, at: height(line.points, at * 1000) }))
        .filter((line) => line.at !== null)
        .sort((one, other) => one.at - other.at);
      hair ??= add(plot, "div", "hair");
      hair.style.left = `${at * 100}%`;
      box ??= add(plot, "div", "values");
      box.replaceChildren();
      add(box, "div", "", x(at));
      for (const line of near.slice(0, 12)) {
        const row = add(box, "div", line.colour);
        add(row, "i", "");
        row.append(`${line.name} ${y(1 - line.at / 1000)}`);
      }
      if (near.length > 12) add(box, "div", "", `and ${near.length - 12} more`);
      box.style.left = at < 0.5 ? `calc(${at * 100}% + 12px)` : "auto";
      box.style.right = at < 0.5 ? "auto" : `calc(${(1 - at) * 100}% + 12px)`;
    };
    plot.addEventListener("pointermove", show);
    plot.addEventListener("pointerdown", show);
    for (const entry of chart.querySelectorAll(".legend li")) {
      const name = entry.dataset.name;
      entry.addEventListener("pointerenter", () => {
        svg.classList.add("faded");
        for (const g of svg.querySelectorAll("g")) {
          g.classList.toggle("near", g.dataset.name === name || (entry.className === "rest" && g.classList.contains("rest")));
        }
      });
      entry.addEventListener("pointerleave", () => svg.classList.remove("faded"));
    }
  }
})();
