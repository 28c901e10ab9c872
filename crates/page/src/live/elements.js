// Elements, and the colours of cgroups.
const SVG = "http://www.w3.org/2000/svg";

// An element with these attributes; `text` and `on…` are no attributes. Style goes by properties, which the policy allows.
const set = (element, attributes, children) => {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") element.textContent = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
};
const h = (tag, attributes = {}, ...children) => set(document.createElement(tag), attributes, children);
const s = (tag, attributes = {}, ...children) => set(document.createElementNS(SVG, tag), attributes, children);

const section = (id, title, note, ...children) =>
  h("section", { "aria-labelledby": `${id}-h`, id },
    h("h2", { id: `${id}-h`, text: title }), h("p", { class: "note", text: note }), ...children);

// A table in a region that scrolls by itself, with the keyboard too.
const table = (label, head, rows, classes = "") =>
  h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label },
    h("table", { class: classes },
      h("thead", {}, h("tr", {}, ...head.map(([text, name]) => h("th", { scope: "col", class: name, text })))),
      h("tbody", {}, ...rows)));

const select = (label, options, value, change) => {
  const box = h("select", { onchange: () => change(box.value) });
  fill(box, options, value);
  return h("label", {}, `${label} `, box);
};
// Gives a select other options, and leaves it alone if they are the same: it may be open.
const fill = (box, options, value) => {
  const key = JSON.stringify(options);
  if (box.dataset.options !== key) {
    box.dataset.options = key;
    box.replaceChildren(...options.map(([value, text]) => h("option", { value, text })));
  }
  if (box.value !== value) box.value = value;
};

// Colours that people with any colour vision can tell apart, for the busiest cgroups; a cgroup keeps its own.
const COLOURS = 8;
const palette = new Map();
const colourOf = (path) => (path === "/" ? "all" : palette.has(path) ? `c${palette.get(path)}` : "rest");
const colour = (paths) => {
  const ranked = paths.filter(({ path, isSum }) => path !== "/" && !isSum).sort((a, b) => b.ios - a.ios);
  const chosen = new Set(ranked.slice(0, COLOURS).map(({ path }) => path));
  for (const path of [...palette.keys()]) if (!chosen.has(path)) palette.delete(path);
  for (const { path } of paths) {
    if (!chosen.has(path) || palette.has(path)) continue;
    const taken = new Set(palette.values());
    palette.set(path, [...Array(COLOURS).keys()].find((index) => !taken.has(index)));
  }
};
