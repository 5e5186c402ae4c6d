// What the console adds to pages that work without it: keys, times, theme, copying, and live parts.
const root = document.body.dataset.root;
const $$ = (selector, from = document) => [...from.querySelectorAll(selector)];
const $ = (selector, from = document) => from.querySelector(selector);

// -- kept choices; a browser that keeps nothing goes without

const kept = {
  get(name) { try { return localStorage.getItem(`mainspring.${name}`); } catch { return null; } },
  set(name, value) { try { localStorage.setItem(`mainspring.${name}`, value); } catch { /* not kept */ } },
};

// -- times: relative, local, UTC

const SHOWN = ["relative", "local", "UTC"];
let shown = SHOWN.includes(kept.get("times")) ? kept.get("times") : "relative";

function span(seconds) {
  const units = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];
  let left = Math.round(Math.abs(seconds));
  const parts = [];
  for (const [unit, size] of units) {
    if (left >= size || parts.length) {
      const number = Math.floor(left / size);
      if (number) parts.push(`${number} ${unit}`);
      left %= size;
      if (parts.length === 2) break;
    }
  }
  return parts.join(" ") || "0 s";
}

function drawTimes(from = document) {
  for (const each of $$("time", from)) {
    const at = new Date(each.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    const seconds = (Date.now() - at) / 1000;
    if (shown === "local") each.textContent = at.toLocaleString();
    else if (shown === "UTC") each.textContent = `${at.toISOString().slice(0, 19).replace("T", " ")}Z`;
    else if (Math.abs(seconds) < 1) each.textContent = "now";
    else each.textContent = seconds > 0 ? `${span(seconds)} ago` : `in ${span(seconds)}`;
  }
}

function nextTimes() {
  shown = SHOWN[(SHOWN.indexOf(shown) + 1) % SHOWN.length];
  kept.set("times", shown);
  drawTimes();
}

// -- theme

function setTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
}
setTheme(kept.get("theme"));

function nextTheme() {
  const isDark = getComputedStyle(document.documentElement).colorScheme === "dark"
    || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  setTheme(isDark ? "light" : "dark");
  kept.set("theme", document.documentElement.dataset.theme);
}

// -- copying; a page without TLS has no clipboard

async function copy(button) {
  const text = $("code", button.parentElement).textContent;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const field = Object.assign(document.createElement("textarea"), { value: text });
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
  button.textContent = "copied";
}

// -- keys

let row = -1;
let waitsForGo = false;

function toRow(step) {
  const rows = $$("tr[data-row]");
  if (!rows.length) return;
  row = Math.max(0, Math.min(rows.length - 1, row + step));
  rows.forEach((each, n) => each.toggleAttribute("data-here", n === row));
  rows[row].scrollIntoView({ block: "nearest" });
}

const KEYS = {
  "/": () => $("#jump")?.focus(),
  "?": () => $("#help")?.showModal(),
  t: nextTimes,
  j: () => toRow(1),
  k: () => toRow(-1),
  r: () => ($(".head .acts .primary") ?? $(".why .btn") ?? $(".head .acts .btn"))?.focus(),
  Enter: () => $("tr[data-here] a")?.click(),
  g: () => { waitsForGo = true; setTimeout(() => { waitsForGo = false; }, 1500); },
};

document.addEventListener("keydown", (event) => {
  if (event.key === "k" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    KEYS["/"]();
    return;
  }
  const isTyping = event.target.closest("input, select, textarea, dialog");
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (waitsForGo) {
    waitsForGo = false;
    const link = $(`[data-go="${CSS.escape(event.key)}"]`);
    if (link) { location.assign(link.href); return; }
  }
  if (event.key === "Enter" && event.target !== document.body) return;
  const act = KEYS[event.key];
  if (act) { event.preventDefault(); act(); }
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if ("copy" in button.dataset) copy(button);
  else if ("close" in button.dataset) button.closest("dialog").close();
  else if ("times" in button.dataset) nextTimes();
  else if ("themeSwitch" in button.dataset) nextTheme();
});

// -- live: a page that is drawn from the shared snapshot draws its parts anew when the figures change

async function drawParts() {
  const parts = $$("[data-part]");
  if (!parts.length || $("dialog[open]")) return;
  const answer = await fetch(location.href, { headers: { accept: "text/html" } });
  if (!answer.ok) throw new Error(answer.statusText);
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of parts) {
    const fresh = $(`[data-part="${part.dataset.part}"]`, page);
    if (!fresh || fresh.innerHTML === part.innerHTML || part.contains(document.activeElement)) continue;
    part.replaceChildren(...fresh.childNodes);
    drawTimes(part);
  }
  if (row >= 0) toRow(0);
}

let stream = null;
let drawing = false;
const mark = $("#live");

function say(text, isStale) {
  if (!mark) return;
  mark.textContent = text;
  mark.classList.toggle("stale", isStale);
}

async function draw() {
  if (drawing) return;
  drawing = true;
  try {
    await drawParts();
    say("live", false);
  } catch {
    say("no answer, looks again", true);
  } finally {
    setTimeout(() => { drawing = false; }, 1000);
  }
}

// A page of one object, which the shared figures say nothing of, asks for itself while it is looked at.
function poll() {
  if (document.body.dataset.live === "poll" && !document.hidden) draw();
}

function told({ name, figures }) {
  if (document.hidden) return;
  if (name === "stale") say("the database does not answer, looks again", true);
  else if (name === "lost") say("no answer, looks again", true);
  else {
    for (const [figure, text] of Object.entries(figures)) {
      for (const place of $$(`[data-live-figure="${figure}"]`)) place.textContent = text;
    }
    draw();
  }
}

// Of all the tabs of a browser one has the stream and tells the others: a browser opens six connections to a
// server at most, and a seventh stream would be the end of its pages.
const tabs = "BroadcastChannel" in window ? new BroadcastChannel(`mainspring ${root}`) : null;
if (tabs) tabs.onmessage = (event) => told(event.data);
let turn = null;

function listen() {
  const tell = (message) => { told(message); tabs?.postMessage(message); };
  stream = new EventSource(`${root}/live`);
  stream.addEventListener("glance", (event) => tell({ name: "glance", figures: JSON.parse(event.data) }));
  stream.addEventListener("stale", () => tell({ name: "stale" }));
  stream.onerror = () => {
    tell({ name: "lost" });  // a stream that was refused is over, and asked for again
    if (stream?.readyState === EventSource.CLOSED) setTimeout(() => { rest(); watch(); }, 3000);
  };
}

function watch() {
  if (document.body.dataset.live !== "glance" || document.hidden || turn) return;
  turn = new AbortController();
  if (!tabs || !navigator.locks) { listen(); return; }
  const { signal } = turn;
  navigator.locks.request(`mainspring ${root}`, { signal }, () => new Promise((end) => {
    if (signal.aborted) { end(); return; }
    signal.addEventListener("abort", end);
    listen();
  })).catch(() => { /* the tab was hidden before its turn came */ });
}

function rest() {
  turn?.abort();
  turn = null;
  stream?.close();
  stream = null;
}

document.addEventListener("visibilitychange", () => (document.hidden ? rest() : watch()));
setInterval(poll, 2000);
addEventListener("pagehide", rest);

// A page that could not be drawn, and one of something under way, look again by themselves.
if ($("[data-again]")) setTimeout(() => location.reload(), 2000);
if ($("[data-reload]")) setTimeout(() => { if (!document.hidden && document.activeElement === document.body) location.reload(); }, 2000);

$(".rail [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
for (const each of $$("[data-copy], [data-times], [data-theme-switch]")) each.hidden = false;
drawTimes();
setInterval(() => { if (shown === "relative" && !document.hidden) drawTimes(); }, 5000);
watch();
