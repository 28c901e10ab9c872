// Values under the pointer. Everything is read back from the drawing, whose axes are told by data-x and data-y.

// "UNIT KIND FROM TO" to a function of the place from 0 to 1.
const axis = (text) => {
  const [unit, kind, from, to] = text.split(" ").map((word, index) => (index < 2 ? word : Number(word)));
  const value = {
    linear: (at) => from + at * (to - from),
    log: (at) => from * (to / from) ** at,
    nines: (at) => 1 - 10 ** (-at * to),
  }[kind];
  return (at) => names[unit](value(at));
};
// The pieces of a line, each a list of points.
const readPath = (path) =>
  path.getAttribute("d").replace(/h0/g, "").split("M").slice(1)
    .map((piece) => piece.split("L").map((pair) => pair.split(" ").map(Number)));
const heightAt = (pieces, x) => {
  const points = pieces.find((piece) => x >= piece[0][0] - 5 && x <= piece[piece.length - 1][0] + 5);
  if (!points) return null;
  const next = points.findIndex((point) => point[0] >= x);
  if (next <= 0) return next === 0 ? points[0][1] : points[points.length - 1][1];
  const [[x0, y0], [x1, y1]] = [points[next - 1], points[next]];
  return x1 > x0 ? y0 + ((x - x0) / (x1 - x0)) * (y1 - y0) : y1;
};
const append = (parent, tag, name, text) => {
  const element = document.createElement(tag);
  element.className = name;
  if (text !== undefined) element.textContent = text;
  return parent.appendChild(element);
};

const showValues = (chart) => {
  const plot = chart.querySelector(".plot");
  const svg = plot.querySelector("svg");
  let lines = null;
  let read = null;
  let hair = null;
  let box = null;
  const leave = () => { hair?.remove(); box?.remove(); hair = box = null; };
  plot.addEventListener("pointerleave", leave);
  const show = (event) => {
    const [x, y] = [axis(chart.dataset.x), axis(chart.dataset.y)];
    // A drawing that changes counts its changes.
    if (lines === null || read !== svg.dataset.drawn) {
      read = svg.dataset.drawn;
      lines = [...svg.querySelectorAll("g")].map((g) => ({
        name: g.dataset.name, colour: g.getAttribute("class"), points: readPath(g.querySelector(".line")),
      }));
    }
    const bounds = plot.getBoundingClientRect();
    const at = Math.min(1, Math.max(0, (event.clientX - bounds.left) / bounds.width));
    const near = lines
      .map((line) => ({ ...line, at: heightAt(line.points, at * 1000) }))
      .filter((line) => line.at !== null)
      .sort((one, other) => one.at - other.at);
    hair ??= append(plot, "div", "hair");
    hair.style.left = `${at * 100}%`;
    box ??= append(plot, "div", "values");
    box.replaceChildren();
    append(box, "div", "", x(at));
    for (const line of near.slice(0, 12)) {
      const row = append(box, "div", line.colour);
      append(row, "i", "");
      row.append(`${line.name} ${y(1 - line.at / 1000)}`);
    }
    if (near.length > 12) append(box, "div", "", `and ${near.length - 12} more`);
    box.style.left = at < 0.5 ? `calc(${at * 100}% + 12px)` : "auto";
    box.style.right = at < 0.5 ? "auto" : `calc(${(1 - at) * 100}% + 12px)`;
  };
  plot.addEventListener("pointermove", show);
  plot.addEventListener("pointerdown", show);
  const entryOf = (event) => event.target.closest(".legend li");
  chart.addEventListener("pointerover", (event) => {
    const entry = entryOf(event);
    if (!entry) return;
    svg.classList.add("faded");
    for (const g of svg.querySelectorAll("g")) {
      const isRest = entry.className === "rest" && g.classList.contains("rest");
      g.classList.toggle("near", g.dataset.name === entry.dataset.name || isRest);
    }
  });
  chart.addEventListener("pointerout", (event) => {
    if (entryOf(event)) svg.classList.remove("faded");
  });
};
