// The list of all workloads: facts that filter, and a table that sorts, at first by what needs attention.
//
// All rows are in the table, so that the browser's search and a screen reader find them. A poll changes only cells whose text
// differs, so a thousand workloads cost milliseconds.

import { element, setAttribute, setText } from "./dom.js";
import { UNKNOWN, count, load, number, percent, savings, utilization } from "./format.js";

/** The order of states by what needs attention; a workload with problems precedes all of them. */
const URGENCY = ["Degraded", "Waking", "Active", "Pending", "Paused", "AtZero", "Unknown"];
/** Changes of states that are announced one by one; more are counted. */
const MAX_ANNOUNCED = 3;

const whole = (value) => (value === null || value === undefined ? UNKNOWN : String(value));
const urgency = (row) => (row.problems > 0 ? -1 : URGENCY.indexOf(row.state ?? "Unknown"));

/** [label, what a row adds to the number]; pressed, only rows that add to it are shown. */
const FACTS = [
  ["workloads", () => 1],
  ["with problems", (row) => row.problems > 0],
  ["waking", (row) => row.state === "Waking"],
  ["in panic", (row) => row.panicking],
  ["pods", (row) => row.size],
  ["at zero", (row) => row.state === "AtZero"],
];

/** [key, heading, text of a row, value to sort by, class, meaning] */
const COLUMNS = [
  ["workload", "Workload", (row) => row.name, (row) => `${row.namespace}/${row.name}`, "name", "its HPA or PodAutoscaler"],
  ["state", "State", (row) => row.state ?? "Unknown", urgency, "state", "sorts by what needs attention: problems, waking, active"],
  ["size", "Size", (row) => whole(row.size), (row) => row.size, "number", "pods that its scale asks for"],
  ["ready", "Ready", (row) => whole(row.ready), (row) => row.ready, "number", "pods that take requests"],
  ["load", "Load", (row) => load(row.load, row.metric), (row) => row.load, "number", "of all pods: requests at a time, or per second (/s)"],
  ["target", "Target", (row) => load(row.target, row.metric), (row) => row.target, "number", "load that one pod should carry, in the same unit"],
  ["used", "Used", (row) => percent(utilization(row)), utilization, "number", "load / (ready pods × target)"],
  [
    "decided",
    "Decided",
    (row) => whole(row.decided) + (row.panicking ? " panic" : ""),
    (row) => row.decided,
    "number",
    "pods that the load needs now; in a panic no fewer than before",
  ],
  ["reason", "Reason", (row) => row.reason ?? "", (row) => row.reason ?? "", "reason", "of the state"],
];

/** The view of the list. `announce` is called with changes of states. It keeps its filter while another view is shown. */
export function fleetView(announce) {
  const rows = new Map();
  const sort = { key: "state", descending: false };
  let pressed = FACTS[0];
  let newest = null;
  let order = "";

  const heading = element("h1", { tabindex: -1 }, "Workloads");
  const summary = element("ul", { class: "summary" });
  const saved = element("p", { class: "note saved", hidden: "" });
  const filter = element("input", { type: "search", id: "filter", autocomplete: "off", oninput: arrange });
  const shown = element("p", { class: "shown", role: "status" });
  const body = element("tbody");
  const headings = COLUMNS.map(([key, title, , , style, meaning]) =>
    element("th", { scope: "col", class: style }, element("button", { type: "button", title: meaning, onclick: () => sortBy(key) }, title)),
  );
  const facts = FACTS.map((fact) => {
    const number = element("strong");
    const button = element("button", { type: "button", onclick: () => press(fact) }, number, ` ${fact[0]}`);
    summary.append(element("li", {}, button));
    return { fact, number, button };
  });
  const meanings = COLUMNS.map(([, title, , , , meaning]) => element("div", {}, element("dt", {}, title), element("dd", {}, meaning)));
  const node = element(
    "div",
    {},
    heading,
    summary,
    saved,
    element(
      "form",
      { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() },
      element("label", { for: "filter" }, "Filter"),
      filter,
      shown,
    ),
    element(
      "div",
      { class: "scroll fleet", role: "region", tabindex: 0, "aria-label": "All workloads" },
      element(
        "table",
        {},
        element("caption", { class: "unseen" }, "All workloads. The buttons of the heading sort."),
        element("thead", {}, element("tr", {}, ...headings)),
        body,
      ),
    ),
    element("details", { class: "meanings" }, element("summary", {}, "What the columns mean"), element("dl", { class: "facts" }, ...meanings)),
  );

  function sortBy(key) {
    sort.descending = sort.key === key ? !sort.descending : isNumeric(key);
    sort.key = key;
    arrange();
  }

  /** Shows what a fact counts; pressed again, all. */
  function press(fact) {
    pressed = pressed === fact ? FACTS[0] : fact;
    arrange();
  }

  function update(view) {
    const first = newest === null;
    newest = view;
    const present = new Set();
    const changes = [];
    for (const row of view.workloads) {
      const key = `${row.namespace}/${row.name}`;
      present.add(key);
      const known = rows.get(key) ?? addRow(key, row);
      if (known.row.state !== row.state && known.row.state !== undefined) changes.push(`${key}: ${row.state}`);
      known.row = row;
      known.search = `${key} ${row.state} ${row.reason}`.toLowerCase();
      fillRow(known);
    }
    for (const key of rows.keys()) {
      if (!present.has(key)) rows.delete(key);
    }
    if (!first && changes.length > 0) {
      announce(changes.length <= MAX_ANNOUNCED ? changes.join(", ") : `${changes.length} workloads changed their state`);
    }
    showSummary(view);
    arrange();
  }

  function addRow(key, row) {
    const link = element("a", { href: `#/${encodeURIComponent(row.namespace)}/${encodeURIComponent(row.name)}` }, row.name);
    const cells = COLUMNS.map(([, , , , style], index) =>
      index === 0
        ? element("th", { scope: "row", class: style }, element("span", { class: "namespace" }, `${row.namespace}/`), link)
        : element("td", { class: style }),
    );
    const badge = element("span", { class: "badge" });
    cells[1].append(badge);
    const known = { row, cells, badge, line: element("tr", {}, ...cells), key, search: "" };
    rows.set(key, known);
    return known;
  }

  function fillRow({ row, cells, badge }) {
    COLUMNS.forEach(([, , text], index) => {
      if (index === 0) return;
      setText(index === 1 ? badge : cells[index], text(row));
    });
    setAttribute(badge, "data-state", row.state ?? "Unknown");
    setAttribute(cells[4], "title", row.load === null ? (row.missing ?? null) : (row.metric ?? null));
    setAttribute(cells[7], "class", row.panicking ? "number panic" : "number");
    setAttribute(cells[8], "class", row.problems > 0 ? "reason problem" : "reason");
    setAttribute(cells[8], "title", row.message || null);
  }

  function showSummary({ workloads }) {
    const total = (value) => workloads.reduce((sum, row) => sum + (value(row) ?? 0), 0);
    for (const { fact, number, button } of facts) {
      const value = Number(total(fact[1]));
      setText(number, String(value));
      setAttribute(button, "class", fact[0] === "with problems" && value > 0 ? "problem" : null);
    }
    saved.hidden = workloads.every((row) => row.savedPodHours === undefined);
    const hours = savings(
      total((row) => row.savedPodHours),
      total((row) => row.savedCpuHours),
      total((row) => row.savedMemoryGibHours),
    );
    setText(saved, `Saved at zero, against one pod of each workload at all times: ${hours}`);
  }

  /** Shows the rows that pass the filter, in order. Moves no row if neither has changed. */
  function arrange() {
    const column = COLUMNS.find(([key]) => key === sort.key);
    COLUMNS.forEach(([key], index) => {
      setAttribute(headings[index], "aria-sort", key !== sort.key ? null : sort.descending ? "descending" : "ascending");
    });
    const wanted = filter.value.trim().toLowerCase();
    for (const { fact, button } of facts) setAttribute(button, "aria-pressed", String(fact === pressed));
    const passes = ({ row, search }) => search.includes(wanted) && Number(pressed[1](row) ?? 0) > 0;
    const arranged = [...rows.values()].filter(passes).sort((a, b) => compare(column[3], a.row, b.row, sort.descending));
    const now = arranged.map(({ key }) => key).join();
    if (now !== order || body.children.length !== arranged.length) {
      order = now;
      const focused = document.activeElement;
      body.replaceChildren(...arranged.map(({ line }) => line));
      if (body.contains(focused)) focused.focus({ preventScroll: true });
    }
    const all = rows.size === 0 && newest?.listed ? "No workloads. kubectl rouse init prints what a first one needs." : null;
    setText(shown, all ?? (arranged.length === rows.size ? "" : `${count(arranged.length, "workload")} of ${rows.size}`));
  }

  return { node, heading, title: "Workloads", path: "api/workloads", update };
}

function isNumeric(key) {
  return COLUMNS.find(([other]) => other === key)[4] === "number";
}

/** Unknown values come last in both directions; equal ones by name. */
function compare(value, a, b, descending) {
  const [one, other] = [value(a) ?? null, value(b) ?? null];
  if ((one === null) !== (other === null)) return one === null ? 1 : -1;
  const direction = descending ? -1 : 1;
  if (one !== other) return direction * (typeof one === "number" ? one - other : one < other ? -1 : 1);
  return `${a.namespace}/${a.name}` < `${b.namespace}/${b.name}` ? -1 : 1;
}
