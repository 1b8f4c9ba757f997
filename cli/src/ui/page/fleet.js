// The list of all workloads: a summary, a filter, and a table that sorts.
//
// All rows are in the table, so that the browser's search and a screen reader find them. A poll changes only cells whose text
// differs, so a thousand workloads cost milliseconds.

import { element, setAttribute, setText } from "./dom.js";
import { UNKNOWN, count, load, number, percent, savings, utilization } from "./format.js";

const STATES = ["Active", "Waking", "AtZero", "Paused", "Degraded", "Pending"];
/** Changes of states that are announced one by one; more are counted. */
const MAX_ANNOUNCED = 3;

const whole = (value) => (value === null || value === undefined ? UNKNOWN : String(value));

/** [key, heading, text of a row, value to sort by, class] */
const COLUMNS = [
  ["workload", "Workload", (row) => row.name, (row) => `${row.namespace}/${row.name}`, "name"],
  ["state", "State", (row) => row.state ?? "Unknown", (row) => row.state ?? "", "state"],
  ["size", "Size", (row) => whole(row.size), (row) => row.size, "number"],
  ["ready", "Ready", (row) => whole(row.ready), (row) => row.ready, "number"],
  ["load", "Load", (row) => load(row.load, row.metric), (row) => row.load, "number"],
  ["target", "Target", (row) => number(row.target), (row) => row.target, "number"],
  ["used", "Used", (row) => percent(utilization(row)), utilization, "number"],
  ["decided", "Decided", (row) => whole(row.decided) + (row.panicking ? " panic" : ""), (row) => row.decided, "number"],
  ["reason", "Reason", (row) => row.reason ?? "", (row) => row.reason ?? "", "reason"],
];

/** The view of the list. `announce` is called with changes of states. It keeps its filter while another view is shown. */
export function fleetView(announce) {
  const rows = new Map();
  const sort = { key: "workload", descending: false };
  let newest = null;
  let order = "";

  const heading = element("h1", { tabindex: -1 }, "Workloads");
  const summary = element("ul", { class: "summary" });
  const saved = element("p", { class: "note saved", hidden: "" });
  const filter = element("input", { type: "search", id: "filter", autocomplete: "off", oninput: arrange });
  const state = element(
    "select",
    { id: "state", onchange: arrange },
    element("option", { value: "" }, "all"),
    ...STATES.map((name) => element("option", { value: name }, name)),
    element("option", { value: "problems" }, "with problems"),
  );
  const shown = element("p", { class: "shown", role: "status" });
  const body = element("tbody");
  const headings = COLUMNS.map(([key, title, , , style]) =>
    element("th", { scope: "col", class: style }, element("button", { type: "button", onclick: () => sortBy(key) }, title)),
  );
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
      element("label", { for: "state" }, "State"),
      state,
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
  );

  function sortBy(key) {
    sort.descending = sort.key === key ? !sort.descending : isNumeric(key);
    sort.key = key;
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
    const known = { row, cells, badge, line: element("tr", {}, ...cells), search: key.toLowerCase() };
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
    const facts = [
      [workloads.length, "workloads"],
      [total((row) => row.state === "AtZero"), "at zero"],
      [total((row) => row.state === "Waking"), "waking"],
      [total((row) => row.size), "pods"],
      [total((row) => row.panicking), "in panic"],
      [total((row) => row.problems > 0), "with problems"],
    ];
    facts.forEach(([value, label], index) => {
      const fact =
        summary.children[index] ?? summary.appendChild(element("li", {}, element("strong"), document.createTextNode(` ${label}`)));
      setText(fact.firstChild, whole(Number(value)));
      setAttribute(fact, "class", label === "with problems" && value > 0 ? "problem" : null);
    });
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
    const passes = ({ row, search }) =>
      search.includes(wanted) &&
      (state.value === "" || (state.value === "problems" ? row.problems > 0 : row.state === state.value));
    const arranged = [...rows.values()].filter(passes).sort((a, b) => compare(column[3], a.row, b.row, sort.descending));
    const now = arranged.map(({ search }) => search).join();
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
