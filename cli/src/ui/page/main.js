// Routes of the page, and the poll that keeps the shown view up to date.

import { setText } from "./dom.js";
import { clock } from "./format.js";
import { fleetView } from "./fleet.js";
import { workloadView } from "./workload.js";

/** The decider decides every two seconds. */
const INTERVAL = 2000;
/** A response that takes longer is given up, and requested again. */
const TIMEOUT = 15000;

const main = document.getElementById("main");
const alert = document.getElementById("alert");
const announcer = document.getElementById("announcer");
const scope = document.getElementById("scope");
const freshness = document.getElementById("freshness");

const announce = (text) => setText(announcer, text);
const fleet = fleetView(announce);
let shown = null;
let timer = null;

/** `#/` is the list, `#/NAMESPACE/NAME` a workload. Other fragments are places in the page. */
function route() {
  const hash = location.hash || "#/";
  if (!hash.startsWith("#/")) return;
  const [namespace, name] = hash.slice(2).split("/").map(decodeURIComponent);
  const first = shown === null;
  shown = namespace && name ? workloadView(namespace, name, announce) : fleet;
  document.title = `${shown.title} · Rouse`;
  main.replaceChildren(shown.node);
  main.setAttribute("aria-busy", "true");
  if (!first) {
    shown.heading.focus();
    window.scrollTo(0, 0);
  }
  poll();
}

async function poll() {
  clearTimeout(timer);
  const view = shown;
  try {
    const response = await fetch(view.path, { signal: AbortSignal.timeout(TIMEOUT) });
    const body = await response.json();
    if (view !== shown) return;
    if (response.ok) {
      view.update(body);
      if (body.workloads) setText(scope, body.namespace ? `Namespace ${body.namespace}` : "All namespaces");
      setText(freshness, `Updated ${clock(Date.now())}`);
    }
    report(response.ok ? (body.error ?? loadError(body)) : body.error);
  } catch (error) {
    if (view !== shown) return;
    report(`No answer of kubectl rouse ui (${error.message}); retrying. If it has ended, start it again and open its new address.`);
  }
  main.removeAttribute("aria-busy");
  clearTimeout(timer);
  if (!document.hidden) timer = setTimeout(poll, INTERVAL);
}

function loadError(body) {
  return body.loadError ? `Loads are not readable: ${body.loadError}` : null;
}

function report(error) {
  setText(alert, error ?? "");
}

window.addEventListener("hashchange", route);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) poll();
});
route();
