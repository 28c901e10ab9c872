// The page: its parts, the stream of events, and what is said about the connection.
const SILENT_AFTER = 4000;
const RETRY_MAX = 5000;

const chosen = { range: RECENT, device: null, isFrozen: false };
const parts = [findings, rates, latency, device, waits, cgroups];

const theme = {
  value: "auto",
  set(value) {
    this.value = value;
    if (value === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = value;
    try { localStorage.setItem("weir-theme", value); } catch { /* It is not kept then. */ }
    redraw();
  },
  read() {
    try { return localStorage.getItem("weir-theme") ?? "auto"; } catch { return "auto"; }
  },
};

let pending = false;
const redraw = () => {
  if (pending) return;
  pending = true;
  requestAnimationFrame(() => {
    pending = false;
    draw();
  });
};

const state = h("p", { role: "status", "aria-live": "polite", id: "state", class: "state", text: "connecting" });
const say = (kind, text) => {
  if (state.textContent !== text) state.textContent = text;
  state.className = `state ${kind}`;
};

const chooseDevice = select("Device", [], "", (name) => { chosen.device = name; redraw(); });
const freeze = h("button", { type: "button", "aria-pressed": "false", text: "Freeze", onclick: () => {
  chosen.isFrozen = !chosen.isFrozen;
  freeze.setAttribute("aria-pressed", String(chosen.isFrozen));
  redraw();
} });

let frozen = null;
const draw = () => {
  if (!samples.newest()) return;
  const isNew = !chosen.isFrozen || frozen === null || frozen.range !== chosen.range;
  if (isNew) frozen = { range: chosen.range, list: samples.since(chosen.range) };
  const { list } = frozen;
  // An hour is seen with the first sample that is kept.
  if (!list.length) return;
  const newest = list.at(-1);
  const known = [...new Set(list.flatMap((sample) => sample.devices.map((device) => device.device)))];
  if (!known.includes(chosen.device)) chosen.device = newest.devices[0]?.device ?? known[0];
  fill(chooseDevice.querySelector("select"), known.map((name) => [name, name]), chosen.device);
  chooseDevice.hidden = known.length < 2;
  const name = chosen.device;
  colour(pathsOf(list, name));
  const x = timeAxis(newest.at_ms - chosen.range, newest.at_ms);
  const view = { list, device: name, x, rows: waitsOf(list, name), marks: restarts(list) };
  for (const part of parts) part.draw(view);
  document.getElementById("about").textContent = `Weir ${newest.version}, up since ${new Date(newest.started_at_ms).toLocaleString()}`;
  document.body.dataset.samples = list.length;
};

let lastEvent = Date.now();
let retry = 500;
let isEnding = false;
const connect = () => {
  // Beside the page, so that it is found below any path.
  const source = new EventSource("v1/live");
  const take = (name) => (event) => {
    lastEvent = Date.now();
    isEnding = false;
    retry = 500;
    // An hour has kept samples alone.
    if (samples.add(name, JSON.parse(event.data)) && (name === "kept" || chosen.range === RECENT)) redraw();
    look();
  };
  source.addEventListener("sample", take("kept"));
  source.addEventListener("live", take("live"));
  source.addEventListener("end", () => { isEnding = true; look(); });
  source.addEventListener("error", () => {
    // A browser comes back by itself after a stream that ended, and not after an answer that is none.
    if (source.readyState !== EventSource.CLOSED) return;
    setTimeout(connect, retry);
    retry = Math.min(2 * retry, RETRY_MAX);
  });
};

// Says how the connection is. Announced only when it changes.
const look = () => {
  const silent = Date.now() - lastEvent;
  if (isEnding) say("worse", "The server is ending. What is shown is what was; the page comes back when a server does.");
  else if (silent > SILENT_AFTER) say("worse", "The server does not answer. What is shown is what was; the page tries again.");
  else if (samples.newest()) say("fine", chosen.isFrozen ? "frozen" : "live");
  else say("", "waiting for the first sample");
};

document.body.append(
  h("a", { class: "skip", href: "#main", text: "To the charts" }),
  h("header", {},
    h("div", { class: "bar" }, h("h1", { text: "Weir" }), state,
      h("div", { class: "tools" }, chooseDevice,
        select("Time", [[String(RECENT), "5 minutes"], [String(HOUR), "1 hour"]], String(RECENT), (range) => { chosen.range = Number(range); redraw(); }),
        select("Colours", [["auto", "as the system"], ["light", "light"], ["dark", "dark"]], theme.read(), (value) => theme.set(value)),
        freeze)),
    h("p", { class: "setting", id: "about", text: "" })),
  h("main", { id: "main", tabindex: -1 },
    section("stands-out", "What stands out", "In the last half minute.", findings.place),
    ...parts.filter((part) => part.make).map((part) => part.make(redraw))));
theme.set(theme.read());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
addEventListener("resize", redraw);
setInterval(look, 1000);
connect();
