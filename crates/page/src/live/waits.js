// Matrix of waits: what each cgroup's requests waited for in the last half minute, by cause and by whose limit.
const WAITS_OVER = 30e3;
const OWNERS_MAX = 8;
const INSIDE = [["other_clients", "others' turns"], ["lifted_limit", "lifted limits"], ["window", "room at the device"], ["device", "the device"]];
const OUTSIDE = ["connection", "memory", "queue", "unsent", "turn", "payload", "sending"];
const CAUSES = {
  ...Object.fromEntries(INSIDE), connection: "its connection's quota", memory: "buffer memory", queue: "a place in the queue",
  unsent: "its client to take replies", turn: "other connections' turns", payload: "its payload to arrive", sending: "its reply to be taken",
};

// Waits of each cgroup in the last half minute: nanoseconds by column, and the amount of the device's work.
const waitsOf = (list, name) => {
  const newest = list.at(-1);
  const rows = new Map();
  const recent = list.filter((sample) => sample.at_ms > newest.at_ms - WAITS_OVER);
  for (const sample of recent) {
    for (const cgroup of sample.byName.get(name)?.cgroups ?? []) {
      const row = rows.get(cgroup.cgroup) ?? { path: cgroup.cgroup, waits: new Map(), completed: 0, work: 0, ios: 0 };
      rows.set(cgroup.cgroup, row);
      row.completed += cgroup.completed_ios ?? 0;
      row.work += work(cgroup);
      row.ios += ios(cgroup);
      const add = (cause, ns) => ns && row.waits.set(cause, (row.waits.get(cause) ?? 0) + ns);
      for (const [cause, ns] of Object.entries(cgroup.wait_ns ?? {})) add(cause, ns);
      for (const { cgroup: owner, wait_ns } of cgroup.limit_waits ?? []) add(`limit:${owner ?? ""}`, sum(Object.values(wait_ns)));
    }
  }
  const seconds = sum(recent.map((sample) => sample.span_ms)) / 1000;
  for (const row of rows.values()) Object.assign(row, { whole: sum([...row.waits.values()]), seconds });
  return [...rows.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
};
const limitText = (path, owner) => (owner === path ? "its own limit" : owner ? `the limit of ${owner}` : "a limit that is removed");
const causeText = (path, cause) => (cause.startsWith("limit:") ? limitText(path, cause.slice(6)) : CAUSES[cause]);
const mainCause = (row) => [...row.waits].sort((a, b) => b[1] - a[1])[0];

const waits = {
  place: h("div"),
  make() {
    return section("waits", "What each cgroup waits for",
      "Each row is the time that a cgroup's requests were inside in the last half minute, cut by what they waited for: whose limit, others' turns at that limit, or the device. Which neighbour had the device is not counted for each wait; the first column says whose work the device did meanwhile.",
      this.place);
  },
  draw({ list, device: name, rows }) {
    const shown = rows.filter((row) => row.whole > 0);
    if (!shown.length) {
      this.place.replaceChildren(h("p", { class: "note", text: "No request was completed in the last half minute." }));
      return;
    }
    const totals = new Map();
    for (const row of shown) for (const [cause, ns] of row.waits) totals.set(cause, (totals.get(cause) ?? 0) + ns);
    const owners = [...totals.keys()].filter((cause) => cause.startsWith("limit:")).sort((a, b) => totals.get(b) - totals.get(a));
    const own = owners.slice(0, OWNERS_MAX).sort();
    const rest = owners.slice(OWNERS_MAX);
    const columns = own.map((cause) => [`limit of ${cause.slice(6) || "a removed cgroup"}`, [cause]]);
    if (rest.length) columns.push(["other limits", rest]);
    for (const [cause, text] of INSIDE) if (totals.has(cause) || cause !== "lifted_limit") columns.push([text, [cause]]);
    if (OUTSIDE.some((cause) => totals.has(cause))) columns.push(["its client and connection", OUTSIDE]);
    const all = rows.find((row) => row.path === "/")?.work || sum(rows.map((row) => row.work));
    const cell = (share, title) => {
      const text = share === 0 ? "0" : share < 0.005 ? "< 1 %" : `${Math.round(100 * share)} %`;
      const td = h("td", { text, class: share === 0 ? "zero" : undefined, title });
      td.style.setProperty("--a", share.toFixed(2));
      return td;
    };
    const line = (row) => h("tr", {},
      h("th", { scope: "row", class: colourOf(row.path) }, h("i"), row.path),
      h("td", { class: "share number", text: all ? `${Math.round((100 * row.work) / all)} %` : "–" }),
      ...columns.map(([, causes]) => {
        const found = causes.filter((cause) => row.waits.has(cause));
        const title = found.map((cause) => `${causeText(row.path, cause)}: ${names.latency(row.waits.get(cause) / Math.max(row.completed, 1))} a request`);
        return cell(sum(found.map((cause) => row.waits.get(cause))) / row.whole, title.join(", "));
      }),
      h("td", { class: "number", text: names.latency(row.whole / Math.max(row.completed, 1)) }));
    const head = [["cgroup", ""], ["device's work", "number"], ...columns.map(([text]) => [text, ""]), ["mean wait", "number"]];
    keepScroll(this.place, () => this.place.replaceChildren(table("What each cgroup waited for", head, shown.map(line), "blame")));
  },
};

// What stands out in the last half minute, in sentences.
const findings = {
  place: h("ul", { class: "findings", id: "findings" }),
  draw({ rows, device: name, list }) {
    const items = [];
    const found = list.at(-1).byName.get(name);
    if (!found) items.push(h("li", { text: `The device ${name} is not served any more.` }));
    else if (!found.is_up) items.push(h("li", { class: "worse", text: `The device ${name} does not answer: it may hang in its storage.` }));
    const leaves = rows.filter((row) => row.path !== "/" && !rows.some((other) => other.path.startsWith(`${row.path}/`)));
    const all = sum(leaves.map((row) => row.work));
    const busiest = [...leaves].sort((a, b) => b.work - a.work)[0];
    if (busiest?.work && all) {
      const rest = busiest.work === all ? "No other has done anything." : "";
      items.push(h("li", {}, h("b", { text: busiest.path }), ` had ${Math.round((100 * busiest.work) / all)} % of the work of ${name}, with ${names.ios(busiest.ios / busiest.seconds)}. ${rest}`));
    } else if (found?.is_up) {
      items.push(h("li", { text: `No cgroup had any requests on ${name} in the last half minute.` }));
    }
    // What a request waits for besides the device itself is what can be changed.
    const held = leaves.map((row) => {
      const waits = [...row.waits].filter(([cause]) => cause !== "device").sort((a, b) => b[1] - a[1]);
      return { row, cause: waits[0], mean: sum(waits.map(([, ns]) => ns)) / Math.max(row.completed, 1) };
    }).filter(({ cause, row }) => cause && row.completed && cause[1] > 0.2 * row.whole).sort((a, b) => b.mean - a.mean);
    for (const { row, cause, mean } of held.slice(0, 3)) {
      items.push(h("li", {}, h("b", { text: row.path }), ` waited ${names.latency(mean)} a request before the device, most of it for ${causeText(row.path, cause[0])}.`));
    }
    const omitted = found?.cgroups_omitted;
    if (omitted) items.push(h("li", { text: `${omitted} cgroups with fewer requests are not shown.` }));
    this.place.replaceChildren(...items);
  },
};
