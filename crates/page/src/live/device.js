// The device: utilisation with its watermarks, what these multiply limits by, requests at it, merges and splits.
const device = {
  charts: {
    busy: new Chart("utilisation", "Utilisation"),
    lambda: new Chart("lambda", "Limits are multiplied by (λ)"),
    requests: new Chart("requests", "Requests inside"),
    merges: new Chart("merges", "Merges and splits of flows"),
  },
  make() {
    return section("device", "Device", "Dashed: the watermark, above which limits bind. λ is what limits are multiplied by: 1 where they hold as set, nothing where they are lifted. Without a watermark they always hold as set.",
      h("div", { class: "charts" }, ...Object.values(this.charts).map((chart) => chart.figure)));
  },
  draw({ list, device: name, x, marks }) {
    const inSample = (value) => pointsOf(list, (sample) => {
      const found = sample.byName.get(name);
      return found?.is_up ? value(found, sample) : null;
    });
    const last = list.at(-1).byName.get(name);
    const watermarks = [...new Set(list.flatMap((sample) => sample.byName.get(name)?.watermarks?.map((mark) => mark.watermark) ?? []))];
    const markOf = (found, watermark) => found.watermarks?.find((mark) => mark.watermark === watermark);

    const lines = [{ name: "busy", colour: "all", points: inSample((found) => found.busy_percent), more: `${three(last?.busy_percent ?? 0)} % of the time` }];
    const used = inSample((found) => found.utilisation_percent_500ms ?? null);
    if (used.some(Boolean)) {
      lines.push({ name: "used", colour: "c0", points: used, more: `${three(last?.utilisation_percent_500ms ?? 0)} %, as the watermark sees it` });
    }
    watermarks.forEach((watermark, index) => lines.push({
      name: `watermark ${watermark}`, colour: `c${1 + (index % 7)}`, points: [], more: "",
      limit: { points: inSample((found) => markOf(found, watermark)?.watermark_percent ?? null), isAbout: false },
    }));
    this.charts.busy.draw({ lines, x, marks, y: percents() });

    const multipliers = watermarks.map((watermark, index) => {
      const mark = last && markOf(last, watermark);
      const points = inSample((found) => {
        const mark = markOf(found, watermark);
        return mark && !mark.lifted ? mark.multiplier : null;
      });
      const now = !mark ? "not in use" : mark.lifted ? "lifted" : `${three(mark.multiplier)} for ${mark.cgroups} cgroups`;
      return { name: `watermark ${watermark}`, colour: `c${1 + (index % 7)}`, points, more: now };
    });
    const { lambda, merges } = this.charts;
    lambda.figure.hidden = !watermarks.length;
    if (watermarks.length) {
      lambda.draw({ lines: multipliers, x, marks, y: linear("number", Math.max(2, ...valuesOf(multipliers))) });
    }

    const requests = [
      { name: "at the device", colour: "c0", points: inSample((found) => found.in_flight), more: `${last?.in_flight ?? 0} of ${last?.depth ?? 0}` },
      { name: "waiting for the device", colour: "c1", points: inSample((found) => found.ready), more: String(last?.ready ?? 0) },
      { name: "waiting for a limit", colour: "c3", points: inSample((found) => found.throttled), more: String(last?.throttled ?? 0) },
    ];
    this.charts.requests.draw({ lines: requests, x, marks, y: linear("number", 1.05 * Math.max(...valuesOf(requests), 0), 4) });

    const ofBfq = [["merges", "c2"], ["splits", "c3"]].map(([key, colour]) => {
      const points = inSample((found, sample) => (found.scheduler === "bfq" ? perSecond(found[key], sample) : null));
      const total = sum(list.map((sample) => sample.byName.get(name)?.[key] ?? 0));
      return { name: key, colour, points, more: `${total} in this time` };
    });
    merges.figure.hidden = !valuesOf(ofBfq).length;
    if (valuesOf(ofBfq).length) merges.draw({ lines: ofBfq, x, marks, y: linear("ios", Math.max(...valuesOf(ofBfq)), 4) });
  },
};
