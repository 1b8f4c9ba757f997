// Elements, and changes of them that leave focus, selection and scroll position alone.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element. Attributes whose value is null, undefined or false are left out. */
export function element(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** An SVG element. */
export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** Sets the text of a node if it differs. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Sets an attribute if it differs; null removes it. */
export function setAttribute(node, name, value) {
  if (value === null) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

/** Replaces the children of a node if `data` differs from that of the last call. */
export function replaceIfChanged(node, data, render) {
  const json = JSON.stringify(data) ?? "";
  if (node.renderedData === json) return;
  node.renderedData = json;
  node.replaceChildren(...[render()].flat().filter((child) => child !== null && child !== undefined));
}

/** A table with a caption. Each column is [heading, cell of a row, class]; the first is the row's heading. */
export function table(caption, columns, rows) {
  const cell = (row, [, content, style], index) =>
    element(index === 0 ? "th" : "td", { scope: index === 0 ? "row" : null, class: style }, content(row) ?? "");
  return element(
    "div",
    { class: "scroll", role: "region", tabindex: 0, "aria-label": caption },
    element(
      "table",
      {},
      element("caption", { class: "unseen" }, caption),
      element(
        "thead",
        {},
        element("tr", {}, ...columns.map(([heading, , style]) => element("th", { scope: "col", class: style }, heading))),
      ),
      element("tbody", {}, ...rows.map((row) => element("tr", {}, ...columns.map((column, index) => cell(row, column, index))))),
    ),
  );
}
