// The activator holds each retry until the application takes requests.
const status = document.querySelector("[role=status]");
for (;;) {
  let seconds = 2;
  try {
    const headers = { "rouse-waiting-page": "retry" };
    const response = await fetch(location.href, { headers, cache: "no-store", redirect: "manual" });
    if (response.headers.get("rouse-waiting-page") !== "retry") break;
    seconds = Number(response.headers.get("retry-after")) || 1;
  } catch {
    // The connection was lost; an activator may have stopped.
  }
  if (status?.dataset.delayed) status.textContent = status.dataset.delayed;
  await new Promise((done) => setTimeout(done, seconds * 1000));
}
location.reload();
