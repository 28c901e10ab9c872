// Table of cgroups as they are now.
const keepScroll = (place, change) => {
  const [before, isFocused] = [place.querySelector(".scroll"), place.contains(document.activeElement)];
  const left = before?.scrollLeft ?? 0;
  change();
  const after = place.querySelector(".scroll");
  if (after) after.scrollLeft = left;
  if (isFocused) after?.focus({ preventScroll: true });
};

const cgroups = {
  place: h("div"),
  make() {
    return section("cgroups", "Cgroups", "As they are now, each with all below it; the slower of reads and writes.", this.place);
  },
  draw({ list, device: name, rows }) {
    const newest = list.at(-1);
    const found = newest.byName.get(name);
    const all = found?.byPath.get("/");
    const line = (cgroup) => {
      const row = rows.find((row) => row.path === cgroup.cgroup);
      const cause = row && mainCause(row);
      const limits = Object.entries(cgroup.limits ?? {}).map(([key, value]) => `${key} ${/bps/.test(key) ? names.rate(value) : names.ios(value)}`);
      const times = cgroup.is_lifted ? " (lifted)" : cgroup.limit_multiplier ? ` × ${three(cgroup.limit_multiplier)}` : "";
      const [p50, p99] = ["p50_ns", "p99_ns"].map((key) => slower(cgroup, key));
      const number = (text) => h("td", { class: "number", text });
      return h("tr", {}, h("th", { scope: "row", class: colourOf(cgroup.cgroup) }, h("i"), cgroup.cgroup),
        number(names.rate(perSecond(cgroup.read_bytes, newest))), number(names.rate(perSecond(cgroup.write_bytes, newest))),
        number(names.ios(perSecond(ios(cgroup), newest))),
        number(all && work(all) ? `${Math.round((100 * work(cgroup)) / work(all))} %` : "–"),
        number(p50 ? names.latency(p50) : "–"), number(p99 ? names.latency(p99) : "–"),
        h("td", { class: "text", text: limits.length ? limits.join(", ") + times : "–" }),
        h("td", { class: "text", text: cause ? causeText(cgroup.cgroup, cause[0]) : "–" }));
    };
    const sorted = [...(found?.cgroups ?? [])].sort((a, b) => (a.cgroup < b.cgroup ? -1 : 1));
    const head = [["cgroup", ""], ["reads", "number"], ["writes", "number"], ["requests", "number"], ["work", "number"], ["p50", "number"], ["p99", "number"], ["limits", "text"], ["waits most for", "text"]];
    keepScroll(this.place, () => this.place.replaceChildren(table("Cgroups as they are now", head, sorted.map(line))));
  },
};
