// Each wake as a waterfall: a table of its steps, with a bar from the beginning to the end of each.

import { element, svg } from "./dom.js";
import { clock, duration } from "./format.js";

/** [name, end of the step in milliseconds]; a step begins where the last known one ended. */
const STEPS = [
  ["Report sent", (wake) => wake.reported],
  ["Size written", (wake) => wake.written],
  ["Pod created", (wake) => wake.created],
  ["Pod scheduled", (wake) => wake.scheduled],
  ["Pod started", (wake) => wake.started],
  ["Probe answered", (wake) => wake.verified],
  ["Request sent", (wake) => wake.forwarded],
  ["Answered", (wake) => wake.answered],
];

/** The wakes, the newest first; the newest is open. */
export function wakeList(wakes) {
  if (wakes.length === 0) return element("p", {}, "No wake in the last hour.");
  return element("ol", { class: "wakes", reversed: "" }, ...wakes.map((wake, index) => element("li", {}, waterfall(wake, index === 0))));
}

function waterfall(wake, open) {
  const steps = stepsOf(wake);
  const title = `${clock(wake.received)}, held for ${duration(wake.forwarded)}`;
  const rows = steps.map(({ name, from, to }) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, name),
      element("td", { class: "number" }, duration(to)),
      element("td", { class: "number" }, duration(to - from)),
      element("td", { class: "bar" }, bar(from, to, wake)),
    ),
  );
  const head = (text, style) => element("th", { scope: "col", class: style }, text);
  return element(
    "details",
    { open: open ? "" : null },
    element("summary", {}, title),
    element(
      "table",
      { class: "waterfall" },
      element("caption", { class: "unseen" }, `Steps of the wake at ${title}`),
      element("thead", {}, element("tr", {}, head("Step"), head("After", "number"), head("Took", "number"), head("", "bar"))),
      element("tbody", {}, ...rows),
    ),
  );
}

/** The steps that were seen. One that had ended before the last takes no time. */
function stepsOf(wake) {
  let last = 0;
  const steps = [];
  for (const [name, end] of STEPS) {
    const at = end(wake);
    if (at === null || at === undefined) continue;
    const to = Math.max(last, at);
    steps.push({ name, from: last, to });
    last = to;
  }
  return steps;
}

function bar(from, to, wake) {
  const total = Math.max(1, wake.answered);
  const part = (ms) => `${((100 * ms) / total).toFixed(2)}%`;
  const width = Math.max(0.4, (100 * (to - from)) / total);
  const begin = Math.min((100 * from) / total, 100 - width);
  return svg(
    "svg",
    { class: "bar", "aria-hidden": "true", width: "100%", height: 14 },
    svg("rect", { class: from >= wake.forwarded ? "answer" : "step", x: `${begin.toFixed(2)}%`, y: 2, width: `${width.toFixed(2)}%`, height: 10 }),
    svg("path", { class: "grid", d: "M0 13.5H10000" }),
    part(from) === "0.00%" ? null : svg("line", { class: "grid", x1: part(from), x2: part(from), y1: 0, y2: 14 }),
  );
}
