// Charts of the last hour: lines and steps over time, with panics, wakes and a cursor that all charts share.
//
// Each chart has a text that sums it up, and the values are also in a table. The cursor is a slider, so that the keyboard moves
// it and a screen reader reads the values at it.

import { element, setAttribute, setText, svg, table } from "./dom.js";
import { UNKNOWN, clock, count, minutes, number } from "./format.js";

const HOUR = 3600000;
const TICK = 600000;
const HEIGHT = 150;
const MARGIN = { top: 12, right: 12, bottom: 22, left: 46 };

const known = (value) => typeof value === "number" && Number.isFinite(value);
const capacity = ({ ready, target }) => (ready > 0 && known(target) ? ready * target : 0);

/** [title, is shown, series]; a series is [class, label, value of a sample, is a step, has an area]. */
const CHARTS = [
  [
    "Load",
    () => true,
    [
      ["capacity", "capacity: ready pods × target", capacity, true],
      ["load", "load", (sample) => sample.load, false],
    ],
  ],
  [
    "Pods",
    () => true,
    [
      ["ready", "ready", (sample) => sample.ready, true, true],
      ["decided", "decided", (sample) => sample.decided, true],
    ],
  ],
  [
    "Target",
    (samples) => samples.some((sample) => known(sample.learned)),
    [
      ["target", "in force", (sample) => sample.target, true],
      ["learned", "learned", (sample) => sample.learned, true],
    ],
  ],
];

/** The charts of one workload. */
export function hourCharts() {
  let data = null;
  let cursor = null;
  const readout = element("p", { class: "readout", id: "readout" });
  const slider = element("input", {
    type: "range",
    class: "cursor",
    min: 0,
    max: 0,
    "aria-label": "Moment of the values",
    oninput: () => moveTo(Number(slider.value)),
  });
  const charts = CHARTS.map(([title, isShown, series], index) => chart(title, isShown, series, index));
  const values = element("details", { class: "values", ontoggle: showValues }, element("summary", {}, "Values as a table"));
  const marks = element("p", { class: "marks" }, "Shaded: panic. Dotted lines with a mark: wakes.");
  const node = element("div", { class: "charts" }, marks, ...charts.map(({ figure }) => figure), slider, readout, values);
  new ResizeObserver(() => data && draw()).observe(node);

  function chart(title, isShown, series, index) {
    const summary = element("p", { class: "unseen", id: `chart-${index}-summary` });
    const plot = svg("svg", { role: "img", "aria-label": `${title} of the last hour`, "aria-describedby": summary.id, height: HEIGHT });
    plot.addEventListener("pointermove", (event) => moveToPointer(plot, event));
    const key = ([style, label]) =>
      element("li", {}, svg("svg", { width: 18, height: 10, "aria-hidden": "true" }, svg("path", { class: style, d: "M1 5H17" })), label);
    const figure = element(
      "figure",
      {},
      element("figcaption", {}, element("h3", {}, title), element("ul", { class: "legend" }, ...series.map(key))),
      plot,
      summary,
    );
    return { figure, plot, summary, title, isShown, series };
  }

  function update(history) {
    const followsNewest = cursor === null || cursor === data?.samples.length - 1;
    data = history;
    cursor = followsNewest ? data.samples.length - 1 : Math.min(cursor, data.samples.length - 1);
    setAttribute(slider, "max", Math.max(0, data.samples.length - 1));
    draw();
    showValues();
  }

  function draw() {
    const width = Math.max(280, node.clientWidth);
    for (const { figure, plot, summary, title, isShown, series } of charts) {
      figure.hidden = !isShown(data.samples);
      if (figure.hidden) continue;
      setAttribute(plot, "width", width);
      plot.replaceChildren(...drawing(data, series, width, data.samples[cursor]));
      setText(summary, describe(title, data, series));
    }
    slider.value = String(cursor);
    const text = valuesAt(data.samples[cursor], data.interval);
    setAttribute(slider, "aria-valuetext", text);
    setText(readout, text);
  }

  function moveTo(index) {
    cursor = Math.max(0, Math.min(data.samples.length - 1, index));
    draw();
  }

  function moveToPointer(plot, event) {
    if (!data || data.samples.length === 0) return;
    const box = plot.getBoundingClientRect();
    const at = scaleOf(data, box.width).timeAt(event.clientX - box.left);
    const distance = (sample) => Math.abs(sample.at + data.interval / 2 - at);
    let nearest = 0;
    data.samples.forEach((sample, index) => {
      if (distance(sample) < distance(data.samples[nearest])) nearest = index;
    });
    moveTo(nearest);
  }

  function showValues() {
    if (!values.open || !data) return;
    const columns = [
      ["Time", (sample) => clock(sample.at)],
      ["Load", (sample) => number(sample.load), "number"],
      ["Ready", (sample) => number(sample.ready), "number"],
      ["Decided", (sample) => number(sample.decided), "number"],
      ["Target", (sample) => number(sample.target), "number"],
      ["Learned", (sample) => number(sample.learned), "number"],
      ["Panic", (sample) => (sample.panicking ? "yes" : "")],
    ];
    const shown = table("Values of the last hour, the newest first", columns, [...data.samples].reverse());
    if (values.children.length > 1) values.lastChild.replaceWith(shown);
    else values.append(shown);
  }

  return { node, update };
}

function scaleOf({ now }, width) {
  const [from, span] = [now - HOUR, width - MARGIN.left - MARGIN.right];
  return {
    x: (at) => MARGIN.left + ((Math.max(at, from) - from) / HOUR) * span,
    timeAt: (x) => from + ((x - MARGIN.left) / span) * HOUR,
  };
}

function drawing(data, series, width, selected) {
  const { x } = scaleOf(data, width);
  const top = niceMaximum(Math.max(0, ...series.flatMap(([, , value]) => data.samples.map(value).filter(known))));
  const floor = HEIGHT - MARGIN.bottom;
  const y = (value) => floor - (value / top) * (floor - MARGIN.top);
  const parts = panics(data).map(([from, to]) =>
    svg("rect", { class: "panic", x: x(from), y: MARGIN.top, width: Math.max(0.5, x(to) - x(from)), height: floor - MARGIN.top }),
  );
  const isWhole = ([, , value]) => data.samples.every((sample) => Number.isInteger(value(sample) ?? 0));
  const ticks = [0, top / 2, top].filter((value) => Number.isInteger(value) || !series.every(isWhole));
  for (const value of ticks) {
    parts.push(svg("path", { class: "grid", d: `M${MARGIN.left} ${y(value)}H${width - MARGIN.right}` }));
    parts.push(svg("text", { class: "label", x: MARGIN.left - 6, y: y(value) + 4, "text-anchor": "end" }, number(value)));
  }
  for (let at = Math.ceil((data.now - HOUR) / TICK) * TICK; at <= data.now; at += TICK) {
    if (x(at) < MARGIN.left + 16 || x(at) > width - MARGIN.right - 16) continue;
    parts.push(svg("text", { class: "label", x: x(at), y: HEIGHT - 6, "text-anchor": "middle" }, minutes(at)));
  }
  for (const [style, , value, isStep, hasArea] of series) {
    // A line may lie under the next one; its area is seen below that.
    if (hasArea) parts.push(svg("path", { class: "area", d: area(data, value, x, y, floor) }));
    parts.push(svg("path", { class: style, d: line(data, value, isStep, x, y) }));
  }
  for (const wake of data.wakes) {
    const at = x(wake.received);
    parts.push(svg("path", { class: "wake", d: `M${at} ${floor}V${MARGIN.top}` }));
    parts.push(svg("path", { class: "wake-mark", d: `M${at - 4} ${MARGIN.top - 8}h8l-4 7z` }));
  }
  if (selected) {
    const at = x(Math.min(selected.at + data.interval / 2, data.now));
    parts.push(svg("path", { class: "selected", d: `M${at} ${MARGIN.top}V${floor}` }));
  }
  return parts;
}

/** A path that is interrupted where there are no data. */
function line({ samples, interval, now }, value, isStep, x, y) {
  let path = "";
  let end = null;
  for (const sample of samples) {
    const amount = value(sample);
    if (!known(amount)) {
      end = null;
      continue;
    }
    const joined = end === sample.at;
    const [from, to] = [sample.at, Math.min(sample.at + interval, now)];
    if (isStep) path += `${joined ? "L" : "M"}${x(from).toFixed(1)} ${y(amount).toFixed(1)}H${x(to).toFixed(1)}`;
    else path += `${joined ? "L" : "M"}${x((from + to) / 2).toFixed(1)} ${y(amount).toFixed(1)}${joined ? "" : "h0.1"}`;
    end = sample.at + interval;
  }
  return path;
}

/** The area below the steps of a series, interrupted where there are no data. */
function area({ samples, interval, now }, value, x, y, floor) {
  let path = "";
  let end = null;
  const close = () => (end === null ? "" : `V${floor}Z`);
  for (const sample of samples) {
    const amount = value(sample);
    if (!known(amount) || end !== sample.at) {
      path += close();
      end = null;
    }
    if (!known(amount)) continue;
    if (end === null) path += `M${x(sample.at).toFixed(1)} ${floor}`;
    path += `V${y(amount).toFixed(1)}H${x(Math.min(sample.at + interval, now)).toFixed(1)}`;
    end = sample.at + interval;
  }
  return path + close();
}

/** The beginnings and ends of the times in panic. */
function panics({ samples, interval, now }) {
  const spans = [];
  for (const { at } of samples.filter((sample) => sample.panicking)) {
    const end = Math.min(at + interval, now);
    if (spans.length > 0 && spans.at(-1)[1] === at) spans.at(-1)[1] = end;
    else spans.push([at, end]);
  }
  return spans;
}

/** The next of 1, 2, 4, 6, 8, 10, 20, … above a value. */
function niceMaximum(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 6, 8, 10].map((step) => step * power).find((step) => step >= value) ?? value;
}

function describe(title, { samples, wakes, interval }, series) {
  if (samples.length === 0) return `${title}: no data yet.`;
  const parts = series.map(([, label, value]) => {
    const values = samples.map(value).filter(known);
    if (values.length === 0) return `${label}: no data`;
    return `${label}: from ${number(Math.min(...values))} to ${number(Math.max(...values))}, now ${number(value(samples.at(-1)))}`;
  });
  const panic = samples.filter((sample) => sample.panicking).length * (interval / 60000);
  return `${parts.join("; ")}; ${count(wakes.length, "wake")}, ${count(panic, "minute")} in panic.`;
}

function valuesAt(sample, interval) {
  if (!sample) return "No data yet.";
  const learned = known(sample.learned) ? `, learned ${number(sample.learned)}` : "";
  const panic = sample.panicking ? ", in panic" : "";
  const decided = known(sample.decided) ? number(sample.decided) : UNKNOWN;
  return (
    `${clock(sample.at)} to ${clock(sample.at + interval)}: load ${number(sample.load)}, ready ${number(sample.ready)}, ` +
    `decided ${decided}, target ${number(sample.target)}${learned}${panic}`
  );
}
