// One workload: its state, last hour, wakes, conditions, decisions and events.

import { hourCharts } from "./charts.js";
import { element, replaceIfChanged, setAttribute, setText, table } from "./dom.js";
import { UNKNOWN, age, clock, load, number, percent, savings, utilization } from "./format.js";
import { basisOf } from "./learned.js";
import { wakeList } from "./wakes.js";

/** Characters from which on a fact takes the width of three. */
const LONG_FACT = 40;

/** The view of the workload. `announce` is called with changes of its state. */
export function workloadView(namespace, name, announce) {
  const charts = hourCharts();
  let state;

  const heading = element("h1", { tabindex: -1 }, element("span", { class: "namespace" }, `${namespace}/`), name);
  const badge = element("span", { class: "badge" });
  const message = element("p", { class: "message" });
  const facts = element("dl", { class: "facts" });
  const chartNote = element("p", { class: "note" });
  const wakes = element("div");
  const advice = element("ul", { class: "advice" });
  const problems = element("div");
  const learned = element("div");
  const conditions = element("div");
  const decisions = element("div");
  const events = element("div");
  const section = (title, ...children) => element("section", {}, element("h2", {}, title), ...children);
  const learnedSection = section("What the learned target rests on", learned);
  const node = element(
    "div",
    { class: "workload" },
    element("nav", { "aria-label": "Breadcrumb" }, element("a", { href: "#/" }, "Workloads")),
    element("div", { class: "title" }, heading, badge),
    message,
    problems,
    facts,
    commandLine(`kubectl get podautoscaler ${name} --namespace ${namespace} --output yaml`),
    section("Last hour", chartNote, charts.node),
    section("Wakes", advice, wakes),
    learnedSection,
    section("Conditions", conditions),
    section("Last decisions", decisions),
    section("Events", events),
  );

  function update(view) {
    const { row } = view;
    if (state !== undefined && state !== row.state) announce(`${namespace}/${name}: ${row.state}`);
    state = row.state;
    setText(badge, row.state ?? "Unknown");
    setAttribute(badge, "data-state", row.state ?? "Unknown");
    setText(message, row.message ?? "");
    message.hidden = !row.message || view.conditions.some((condition) => condition.fix && condition.message === row.message);
    replaceIfChanged(facts, [row, view], () => factsOf(view));
    showHistory(view);
    replaceIfChanged(problems, view.conditions, () => problemsOf(view.conditions));
    replaceIfChanged(advice, view.advice, () => view.advice.map((text) => element("li", {}, text)));
    const basis = view.why.value?.learning?.learned?.basis ?? null;
    learnedSection.hidden = basis === null;
    replaceIfChanged(learned, basis, () => basisOf(basis));
    replaceIfChanged(conditions, view.conditions, () => conditionsOf(view.conditions));
    replaceIfChanged(decisions, view.why, () => orError(view.why, decisionsOf));
    replaceIfChanged(events, view.events, () => orError(view.events, eventsOf));
  }

  function showHistory({ history, wakes: shown }) {
    const value = history.value;
    charts.node.hidden = !value;
    chartNote.hidden = Boolean(value) && value.samples.length > 0;
    setText(chartNote, value ? "No data yet." : `Not readable: ${history.error}`);
    if (value) {
      charts.update({ samples: value.samples, wakes: value.wakes, now: value.now, interval: value.intervalMs });
      setAttribute(charts.node, "data-samples", value.samples.length);
    }
    replaceIfChanged(wakes, [shown, history.error], () =>
      value ? wakeList(shown) : element("p", {}, `Not readable: ${history.error}`),
    );
  }

  return { node, heading, title: `${namespace}/${name}`, path: `api/workloads/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`, update };
}

/** A command, and a button that copies it. */
function commandLine(command) {
  const code = element("code", {}, command);
  const done = element("span", { role: "status" });
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(command);
      setText(done, "Copied");
    } catch {
      // Without the permission it is selected, for the keys of the system.
      getSelection().selectAllChildren(code);
    }
  };
  return element("p", { class: "command" }, code, element("button", { type: "button", onclick: copy }, "Copy"), done);
}

function orError(part, render) {
  return part.error === undefined ? render(part.value) : element("p", {}, `Not readable: ${part.error}`);
}

function factsOf(view) {
  const { row, learning } = view;
  const text = (value) => (value === null || value === undefined ? UNKNOWN : String(value));
  const bounds = `${text(view.minReplicas)} to ${view.maxReplicas ?? "any"}${view.scaleToZero ? ", or zero" : ""}`;
  const entries = [
    ["Size", text(row.size)],
    ["Ready", text(row.ready)],
    ["Load", load(row.load, row.metric)],
    ["Target of a pod", load(row.target, row.metric)],
    ["Used, of ready pods × target", percent(utilization(row))],
    ["Decided, pods for the load", text(row.decided) + (row.panicking ? ", in panic" : "")],
    ["Metric", row.metric ?? UNKNOWN],
    ["Bounds", bounds],
    ["Requests go to", view.route ?? UNKNOWN],
    ["Scales", text(view.target)],
    ["Service", text(view.service)],
  ];
  if (row.savedPodHours !== undefined) {
    entries.push(["Saved at zero, against one pod", savings(row.savedPodHours, row.savedCpuHours, row.savedMemoryGibHours)]);
  }
  if (row.load === null && row.missing) entries.push(["No load", row.missing]);
  if (learning) {
    const learned = learning.target === null ? "none yet" : number(learning.target);
    entries.push([`Learned target (${learning.mode})`, `${learned}${learning.phase ? `, ${learning.phase}` : ""}`]);
    if (learning.message) entries.push(["Evidence", learning.message]);
  }
  const style = (value) => (value.length > LONG_FACT ? "long" : null);
  return entries.map(([term, value]) => element("div", { class: style(value) }, element("dt", {}, term), element("dd", {}, value)));
}

function problemsOf(conditions) {
  const broken = conditions.filter(({ fix }) => fix);
  if (broken.length === 0) return [];
  const reasons = new Map(broken.map((condition) => [condition.reason, condition]));
  return element(
    "ul",
    { class: "problems" },
    ...[...reasons.values()].map(({ reason, message, fix }) =>
      element("li", {}, element("strong", {}, reason), element("p", {}, message), element("p", {}, element("em", {}, "Fix: "), fix)),
    ),
  );
}

function conditionsOf(conditions) {
  if (conditions.length === 0) return element("p", {}, "No conditions yet.");
  const now = Date.now();
  const since = ({ since }) => element("time", { datetime: since, title: since }, age(Date.parse(since), now));
  return table(
    "Conditions",
    [
      ["Type", (condition) => condition.type],
      ["Status", (condition) => condition.status],
      ["Reason", (condition) => condition.reason],
      ["Message", (condition) => condition.message, "wide"],
      ["Fix", (condition) => condition.fix ?? "", "wide"],
      ["Since", since],
    ],
    conditions,
  );
}

function decisionsOf(why) {
  const decisions = why.decisions ?? [];
  if (decisions.length === 0) return element("p", {}, "No decision yet.");
  return table(
    "Decisions of the last half minute, the newest first",
    [
      ["Time", ({ at }) => element("time", { datetime: at }, clock(Date.parse(at)))],
      ["Decided", ({ desired }) => number(desired), "number"],
      ["Ready", ({ ready }) => number(ready), "number"],
      ["Load", ({ stable }) => number(stable), "number"],
      ["Panic load", ({ panic }) => number(panic), "number"],
      ["Why", ({ why }) => why, "wide"],
    ],
    decisions,
  );
}

function eventsOf(events) {
  if (events.length === 0) return element("p", {}, "No events in the last hour.");
  return table(
    "Events, the newest first",
    [
      ["Time", ({ at }) => (at ? element("time", { datetime: at }, clock(Date.parse(at))) : UNKNOWN)],
      ["Reason", ({ reason, warning }) => (warning ? `${reason} (warning)` : reason)],
      ["Note", ({ note }) => note, "wide"],
    ],
    events,
  );
}
