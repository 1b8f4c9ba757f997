// Numbers, durations and times as text. Unknown values are "–", never zero.

export const UNKNOWN = "–";

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
const fine = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });
const coarse = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const clockFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const minuteFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });

/** A number with two decimals, large ones with one. */
export function number(value) {
  if (!isNumber(value)) return UNKNOWN;
  return (Math.abs(value) < 100 ? fine : coarse).format(value);
}

/** A part of 1 in percent. */
export function percent(value) {
  return isNumber(value) ? `${Math.round(100 * value)} %` : UNKNOWN;
}

/** Saved hours, rounded down to tenths. Those of requests are left out if both are 0: some pods have no known requests. */
export function savings(pods, cpus, memoryGib) {
  const hours = (value, unit) => `${coarse.format(Math.floor(value * 10) / 10)} ${unit}`;
  const ofRequests = cpus || memoryGib ? `, ${hours(cpus, "CPU-hours")}, ${hours(memoryGib, "GiB-hours")}` : "";
  return hours(pods, "pod-hours") + ofRequests;
}

/** A load with its unit: requests in flight, or requests per second. */
export function load(value, metric) {
  if (!isNumber(value)) return UNKNOWN;
  return metric === "requests-per-second" ? `${number(value)}/s` : number(value);
}

/** Milliseconds as a duration. */
export function duration(ms) {
  if (!isNumber(ms)) return UNKNOWN;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${fine.format(ms / 1000)} s`;
  return `${Math.floor(ms / 60000)} min ${Math.round((ms % 60000) / 1000)} s`;
}

/** The local time of Unix milliseconds, with seconds. */
export function clock(ms) {
  return clockFormat.format(new Date(ms));
}

/** The local time of Unix milliseconds, with minutes. */
export function minutes(ms) {
  return minuteFormat.format(new Date(ms));
}

/** How long ago Unix milliseconds were. */
export function age(ms, now) {
  const seconds = Math.max(0, Math.round((now - ms) / 1000));
  if (seconds < 120) return `${seconds} s ago`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h ago`;
  return `${Math.round(seconds / 86400)} days ago`;
}

/** A count with its noun. */
export function count(value, noun) {
  return `${coarse.format(value)} ${noun}${value === 1 ? "" : "s"}`;
}

/** The load of a ready pod as a part of its target; null if it is unknown. */
export function utilization(row) {
  if (!isNumber(row.load) || !row.ready || !row.target) return null;
  return row.load / row.ready / row.target;
}
