// Bandwidth and requests of each cgroup over time, with its limits as they hold.
const limitsOn = (isWrite, isBytes) => (isBytes ? ["bps"] : ["iops"]).flatMap((of) => [`${isWrite ? "w" : "r"}${of}`, `rw${of}`]);

// The lowest limit of a cgroup, as it holds: of this quantity, or else of the other one by the mean size of a request.
const limitOf = (cgroup, isWrite, isBytes) => {
  if (!cgroup?.limits || cgroup.is_lifted) return null;
  const least = (keys) => {
    const set = keys.filter((key) => cgroup.limits[key] !== undefined).sort((a, b) => cgroup.limits[a] - cgroup.limits[b]);
    return set.length ? { key: set[0], value: cgroup.limits[set[0]] * (cgroup.limit_multiplier ?? 1) } : null;
  };
  const own = least(limitsOn(isWrite, isBytes));
  if (own) return { ...own, isAbout: false };
  const other = least(limitsOn(isWrite, !isBytes));
  const [moved, count] = isWrite ? [cgroup.write_bytes, cgroup.write_ios] : [cgroup.read_bytes, cgroup.read_ios];
  if (!other || !count || !moved) return null;
  return { key: other.key, value: isBytes ? (other.value * moved) / count : (other.value * count) / moved, isAbout: true };
};

const rates = {
  unit: "bytes",
  charts: [false, true].map((isWrite) => new Chart(isWrite ? "writes" : "reads", isWrite ? "Writes" : "Reads")),
  make(redraw) {
    const choose = select("Unit", [["bytes", "bytes a second"], ["requests", "requests a second"]], this.unit, (unit) => {
      this.unit = unit;
      redraw();
    });
    return section("bandwidth", "Bandwidth",
      "Dashed lines are limits, times what a watermark multiplies them by; dotted ones limits on the other unit, by the mean size of a request.",
      h("div", { class: "tools" }, choose), h("div", { class: "charts" }, ...this.charts.map((chart) => chart.figure)));
  },
  draw({ list, device, x, marks }) {
    const isBytes = this.unit === "bytes";
    const all = pathsOf(list, device);
    this.charts.forEach((chart, index) => {
      const isWrite = index === 1;
      const key = `${isWrite ? "write" : "read"}_${isBytes ? "bytes" : "ios"}`;
      const cgroupIn = (sample, path) => sample.byName.get(device)?.byPath.get(path);
      const lines = [];
      for (const { path, isSum } of all) {
        const limitIn = (sample) => limitOf(cgroupIn(sample, path), isWrite, isBytes)?.value;
        const limit = { points: pointsOf(list, limitIn), isAbout: false };
        const hasLimit = limit.points.some(Boolean);
        // The sum of others has a line only where there is a limit to see.
        if (path === "/" || (isSum && !hasLimit)) continue;
        const points = pointsOf(list, (sample) => {
          const cgroup = cgroupIn(sample, path);
          return cgroup ? perSecond(cgroup[key], sample) : null;
        });
        const newest = cgroupIn(list.at(-1), path);
        const now = limitOf(newest, isWrite, isBytes);
        limit.isAbout = now?.isAbout ?? false;
        const unit = isBytes ? "rate" : "ios";
        const text = (value) => names[unit](value);
        const rate = newest ? text(perSecond(newest[key], list.at(-1))) : "gone";
        const limited = now ? `, limit ${now.isAbout ? "about " : ""}${text(now.value)} (${now.key})` : newest?.is_lifted ? ", limits lifted" : "";
        lines.push({ name: path, colour: isSum ? "sum" : colourOf(path), points, limit, more: `${rate}${limited}` });
      }
      const largest = Math.max(0, ...valuesOf(lines));
      for (const line of lines) {
        const highest = Math.max(0, ...line.limit.points.filter(Boolean).map((point) => point[1]));
        if (line.colour === "rest" || highest > 2 * largest) {
          if (highest > 2 * largest && line.colour !== "rest") line.more += ", above this";
          line.limit = null;
        }
      }
      const limits = lines.flatMap((line) => line.limit?.points.filter(Boolean).map((point) => point[1]) ?? []);
      const used = lines.filter((line) => line.limit?.points.some(Boolean) || line.points.some((point) => point && point[1] > 0));
      chart.draw({ lines: used, x, marks, y: linear(isBytes ? "rate" : "ios", 1.05 * Math.max(largest, ...limits), isBytes ? 4096 : 4) });
    });
  },
};
