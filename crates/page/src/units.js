// Numbers as text.
const three = (value) => {
  if (value >= 100 || value === 0) return value.toFixed(0);
  return value >= 10 ? value.toFixed(1) : value.toFixed(2);
};
const scaled = (value, base, units) => {
  let unit = 0;
  while (unit + 1 < units.length && value >= base) { value /= base; unit += 1; }
  return `${three(value)} ${units[unit]}`;
};
const names = {
  rate: (value) => scaled(value, 1024, ["B/s", "KiB/s", "MiB/s", "GiB/s", "TiB/s"]),
  ios: (value) => scaled(value, 1000, ["/s", "k/s", "M/s"]).replace(" ", ""),
  latency: (value) => scaled(value, 1000, ["ns", "us", "ms", "s"]),
  time: (value) => scaled(value, 1000, ["ns", "us", "ms", "s"]),
  size: (value) => scaled(value, 1024, ["B", "KiB", "MiB"]),
  count: (value) => `${three(value)} at once`,
  number: (value) => (Number.isInteger(value) ? String(value) : three(value)),
  percent: (value) => `${three(value)} %`,
  percentile: (value) => `p${Number((100 * value).toFixed(value < 0.99 ? 0 : 3))}`,
  clock: (value) => new Date(value).toTimeString().slice(0, 8),
};
