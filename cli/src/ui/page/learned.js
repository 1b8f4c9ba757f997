// What the learned target rests on: its bounds, what is not known yet, and the load curve.

import { element, table } from "./dom.js";
import { duration, number } from "./format.js";

/** The bounds in the order of the report, each with its name and value. */
const BOUNDS = [
  ["room", "Room of a full pod"],
  ["memory", "Memory allows"],
  ["cpu", "CPU allows"],
  ["tooMuch", "Was too much"],
  ["containerConcurrency", "Container concurrency allows"],
  ["factor", "learn-target-factor allows"],
];

/** What a learned target rests on; null without a report. */
export function basisOf(basis) {
  if (!basis) return null;
  const entries = [
    ["A request without load", basis.unloadedMilliseconds === null ? null : duration(basis.unloadedMilliseconds)],
    ["A full pod ends", basis.fullPodRequestsPerSecond === null ? null : `${number(basis.fullPodRequestsPerSecond)}/s`],
    ...BOUNDS.map(([name, term]) => [
      term,
      (basis[name] ?? null) === null ? null : `${number(basis[name])} at a time${basis.boundBy === name ? ", which binds" : ""}`,
    ]),
  ];
  const known = entries.filter(([, value]) => value !== null);
  return [
    element("dl", { class: "facts" }, ...known.map(([term, value]) => element("div", {}, element("dt", {}, term), element("dd", {}, value)))),
    ...basis.missing.map((missing) => element("p", { class: "note" }, `Not known: ${missing}.`)),
    basis.curve.length > 0 ? curveOf(basis.curve) : null,
  ];
}

function curveOf(points) {
  return table(
    "Time of a request at each load of a pod",
    [
      ["Load of a pod", ({ load }) => number(load), "number"],
      ["Time of a request", ({ milliseconds }) => duration(milliseconds), "number"],
      ["Requests of a pod", ({ requestsPerSecond }) => `${number(requestsPerSecond)}/s`, "number"],
    ],
    points,
  );
}
