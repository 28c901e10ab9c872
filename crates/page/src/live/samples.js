// Samples that have come: one every five seconds for an hour, and one a second for five minutes.
const HOUR = 3600e3;
const RECENT = 300e3;

const indexed = (sample) => {
  sample.byName = new Map();
  for (const device of sample.devices) {
    device.byPath = new Map(device.cgroups.map((cgroup) => [cgroup.cgroup, cgroup]));
    sample.byName.set(device.device, device);
  }
  return sample;
};

const samples = {
  kept: [],
  live: [],
  // Adds a sample to its list; false for one that was there.
  add(name, sample) {
    const list = this[name];
    const last = list[list.length - 1];
    if (last && sample.at_ms <= last.at_ms) return false;
    list.push(indexed(sample));
    const from = sample.at_ms - (name === "kept" ? HOUR : RECENT) - sample.span_ms;
    while (list[0].at_ms < from) list.shift();
    return true;
  },
  newest() {
    const [kept, live] = [this.kept.at(-1), this.live.at(-1)];
    return kept && (!live || kept.at_ms > live.at_ms + kept.span_ms) ? kept : live ?? kept;
  },
  // Those of the last `range` milliseconds, the oldest first: live ones where there are any, kept ones before.
  since(range) {
    const newest = this.newest();
    if (!newest) return [];
    const from = newest.at_ms - range;
    const inside = (sample) => sample.at_ms > from;
    if (range > RECENT) return this.kept.filter(inside);
    // Of what was missed while the page was not connected there are kept samples only.
    const all = this.live.filter(inside);
    const covered = (kept) => all.some((live) => live.at_ms > kept.at_ms - kept.span_ms && live.at_ms <= kept.at_ms);
    return [...all, ...this.kept.filter((kept) => inside(kept) && !covered(kept))].sort((a, b) => a.at_ms - b.at_ms);
  },
};

const perSecond = (amount, sample) => (1000 * (amount ?? 0)) / Math.max(sample.span_ms, 1);
const ios = (cgroup) => (cgroup.read_ios ?? 0) + (cgroup.write_ios ?? 0);
const bytes = (cgroup) => (cgroup.read_bytes ?? 0) + (cgroup.write_bytes ?? 0);
const sum = (numbers) => numbers.reduce((one, other) => one + other, 0);

// What a device did for a cgroup: by its model where there is one, else in bytes.
const work = (cgroup) => (cgroup.modelled_ns ?? 0) || bytes(cgroup);

// The slower of reads and writes.
const slower = (cgroup, key) => Math.max(cgroup.read_latency?.[key] ?? 0, cgroup.write_latency?.[key] ?? 0);

// Paths of a device in `list`: each with its requests, and whether others are below it.
const pathsOf = (list, device) => {
  const totals = new Map();
  for (const sample of list) {
    for (const cgroup of sample.byName.get(device)?.cgroups ?? []) {
      totals.set(cgroup.cgroup, (totals.get(cgroup.cgroup) ?? 0) + ios(cgroup));
    }
  }
  const paths = [...totals.keys()].sort();
  const hasBelow = (path) => paths.some((other) => other !== path && other.startsWith(path === "/" ? "/" : `${path}/`));
  return paths.map((path) => ({ path, ios: totals.get(path), isSum: hasBelow(path) }));
};
