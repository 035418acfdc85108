// The console's own script: times, preferences, live values, keyboard, selection, charts. No framework.
"use strict";
const root = document.documentElement;
const WORDS = JSON.parse(document.getElementById("words").textContent);
const say = (text) => WORDS[text] ?? text;
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

// ── times: relative, local or UTC, by the server's clock ─────────────────────────────────────────────────────────
const skew = Date.parse(root.dataset.now) - Date.now();
const now = () => Date.now() + skew;
const relative = new Intl.RelativeTimeFormat(root.lang, { style: "short" });
const local = new Intl.DateTimeFormat(root.lang, { dateStyle: "short", timeStyle: "medium" });
const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];

function ago(at) {
  const seconds = Math.round((at - now()) / 1000);
  if (Math.abs(seconds) < 2) return say("just now");
  const [unit, size] = UNITS.find(([, size]) => Math.abs(seconds) >= size);
  return relative.format(Math.trunc(seconds / size), unit);
}

function writeTimes(within = document) {
  for (const element of all("time[datetime]", within)) {
    const at = Date.parse(element.dateTime);
    const utc = new Date(at).toISOString().replace("T", " ").replace(/\.\d+Z/, " UTC");
    const inLog = element.closest(".log");
    const style = inLog && root.dataset.times === "relative" ? "local" : root.dataset.times;
    const text = style === "utc" ? utc : style === "local" ? local.format(at) : ago(at);
    if (element.textContent !== text) element.textContent = text;
    if (element.title !== utc) element.title = utc;
  }
  for (const element of all("[data-since]", within)) {
    const seconds = Math.max(0, Math.round((now() - Date.parse(element.dataset.since)) / 1000));
    element.textContent = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
  }
}

// ── preferences: remembered in cookies, so that the server knows them too ───────────────────────────────────────
document.addEventListener("change", (event) => {
  const name = event.target.dataset?.preference;
  if (!name) return;
  document.cookie = `vitrina_${name}=${event.target.value}; path=/console; max-age=31536000; samesite=lax`;
  if (name === "language") return location.reload();
  root.dataset[name] = event.target.value;
  writeTimes();
  drawCharts();
});

// ── saying things: toasts for what one did, a quiet region for what happened ────────────────────────────────────
function toast({ text, remedy, level }) {
  const item = document.createElement("div");
  item.className = `toast is-${level}`;
  item.append(text);
  if (remedy) {
    const more = document.createElement("div");
    more.className = "remedy";
    more.textContent = remedy;
    item.append(more);
  }
  document.getElementById("toasts").append(item);
  setTimeout(() => item.remove(), level === "error" ? 12000 : 5000);
}
document.addEventListener("toast", (event) => toast(event.detail));

function announce(text) {
  document.getElementById("announcer").textContent = text;
}

// ── live values: a stream while the tab is seen; at most four streams in a browser, the other tabs ask now and then ──
// (A browser opens six connections to a server over HTTP/1.1; eight streams would leave none for clicks.)
const STREAMS = 4, POLL = 3000;
const live = { url: document.body.dataset.liveUrl, source: null, newer: new Set(), timer: 0, wait: 1000, asking: false };
const me = `${Date.now()}-${Math.random()}`;
const others = "BroadcastChannel" in window ? new BroadcastChannel("vitrina-live") : null;

function have() {
  const parts = all("[data-live]").map((element) => `${element.id}:${element.dataset.live}`);
  const log = document.getElementById("log");
  if (log) parts.push(`log:${log.dataset.last}`);
  return encodeURIComponent(parts.join(","));
}

function stop() {
  live.source?.close();
  if (live.source) others?.postMessage({ closed: me });
  live.source = null;
  clearTimeout(live.timer);
}

function follow() {
  stop();
  if (!live.url || document.hidden) return;
  live.newer.clear();
  others?.postMessage({ opened: me });
  const source = (live.source = new EventSource(`${live.url}?have=${have()}`));
  source.addEventListener("frame", (event) => show(JSON.parse(event.data)));
  source.addEventListener("again", follow);
  source.addEventListener("error", () => {
    stop();
    live.timer = setTimeout(poll, live.wait);
    live.wait = Math.min(live.wait * 2, 15000);
  });
}

async function poll() {
  clearTimeout(live.timer);
  if (!live.url || document.hidden) return;
  const found = await look();
  if (found === "lost") {
    live.timer = setTimeout(poll, live.wait);
    live.wait = Math.min(live.wait * 2, 15000);
  } else if (found === "busy") live.timer = setTimeout(poll, 100);
  else if (live.newer.size < STREAMS) follow();
  else live.timer = setTimeout(poll, POLL);
}

async function look() {
  if (live.asking) return "busy";
  live.asking = true;
  try {
    const response = await fetch(`${live.url}?once=true&have=${have()}`, { redirect: "manual" });
    if (response.type === "opaqueredirect") return location.reload(); // signed out
    if (response.status === 404) return "gone";
    if (!response.ok) throw new Error(response.status);
    show(await response.json());
    return "seen";
  } catch {
    lost(true);
    return "lost";
  } finally {
    live.asking = false;
  }
}

function lost(yes) {
  const line = document.getElementById("lost");
  if (line.hidden === !yes) return;
  line.hidden = !yes;
}

others?.addEventListener("message", ({ data }) => {
  if (data.opened) live.newer.add(data.opened);
  if (data.closed) live.newer.delete(data.closed);
  if (live.source && live.newer.size >= STREAMS) {
    stop();
    live.timer = setTimeout(poll, POLL);
  }
});
document.addEventListener("visibilitychange", () => (document.hidden ? stop() : poll()));
window.addEventListener("pagehide", stop);
// One voice at a time: an answer beside the stream could be older than what the stream has said, and never be corrected.
document.addEventListener("look", () => (live.source ? follow() : poll()));

function show(frame) {
  lost(false);
  live.wait = 1000;
  for (const [id, html] of Object.entries(frame.swap ?? {})) {
    const element = document.getElementById(id);
    if (element) swap(element, html);
  }
  for (const html of Object.values(frame.append ?? {})) appendLog(html);
}

// Put new HTML in an element's place; focus, ticks and open menus stay as they are.
function swap(old, html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  const fresh = template.content.firstElementChild;
  const focusable = (element) => all("a, button, input, summary, select", element);
  const focused = focusable(old).indexOf(document.activeElement);
  const wanted = document.activeElement?.dataset?.do;
  const ticked = new Set(all("input:checked", old).map((input) => input.name + input.value));
  const open = all("details", old).map((details) => details.open);
  for (const input of all("input[type=checkbox]", fresh)) input.checked = ticked.has(input.name + input.value);
  all("details", fresh).forEach((details, index) => (details.open = open[index] ?? false));
  if (old.dataset.announce && fresh.dataset.announce && old.dataset.announce !== fresh.dataset.announce) {
    announce(fresh.dataset.announce);
  }
  old.replaceWith(fresh);
  htmx.process(fresh);
  writeTimes(fresh);
  if (focused >= 0) {
    const same = wanted && fresh.querySelector(`[data-do="${wanted}"]`);
    (same || focusable(fresh)[Math.min(focused, focusable(fresh).length - 1)])?.focus();
  }
}

function appendLog(html) {
  const log = document.getElementById("log");
  const searching = document.getElementById("filter")?.value;
  const template = document.createElement("template");
  template.innerHTML = html;
  const lines = all("[data-line]", template.content).filter((line) => Number(line.dataset.line) > Number(log.dataset.last));
  if (!lines.length) return;
  log.dataset.last = lines.at(-1).dataset.line;
  if (searching) return;
  all("[data-none]", log).forEach((line) => line.remove());
  log.append(...lines);
  writeTimes(log);
  if (document.getElementById("follow").checked) log.scrollTop = log.scrollHeight;
}

// ── keyboard ─────────────────────────────────────────────────────────────────────────────────────────────────────
const help = document.getElementById("help");
const keysOn = document.getElementById("keys-on");
keysOn.checked = localStorage.getItem("vitrina_keys") !== "off";
keysOn.addEventListener("change", () => localStorage.setItem("vitrina_keys", keysOn.checked ? "on" : "off"));
all("[data-help]").forEach((button) => button.addEventListener("click", () => help.showModal()));

function move(step) {
  const rows = all("[data-row]");
  const at = rows.indexOf(document.activeElement?.closest("tr")?.querySelector("[data-row]"));
  rows[Math.max(0, Math.min(rows.length - 1, at < 0 ? (step > 0 ? 0 : rows.length - 1) : at + step))]?.focus();
}

function act(key) {
  const row = document.activeElement?.closest("tr");
  const scope = row?.querySelector("[data-do]") ? row : document.getElementById("head");
  scope?.querySelector(`[data-do="${key}"]`)?.click();
}

const KEYS = {
  "/": () => document.getElementById("filter")?.focus(),
  j: () => move(1),
  k: () => move(-1),
  x: () => document.activeElement?.closest("tr")?.querySelector("input[name=id]")?.click(),
  r: () => act("r"),
  p: () => act("p"),
  e: () => act("e"),
  "?": () => help.showModal(),
};
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") all("details.menu[open]").forEach((menu) => closeMenu(menu));
  if (event.ctrlKey || event.metaKey || event.altKey || help.open || !keysOn.checked) return;
  if (event.target.closest("input:not([type=checkbox]), select, textarea, [contenteditable=true]")) return;
  const does = KEYS[event.key];
  if (!does) return;
  event.preventDefault();
  does();
});

function closeMenu(menu) {
  const inside = menu.contains(document.activeElement);
  menu.open = false;
  if (inside) menu.querySelector("summary").focus();
}
document.addEventListener("click", (event) => {
  all("details.menu[open]").filter((menu) => !menu.contains(event.target)).forEach((menu) => (menu.open = false));
});

// ── selection ────────────────────────────────────────────────────────────────────────────────────────────────────
document.addEventListener("change", (event) => {
  if (event.target.matches("[data-all]")) all("input[name=id]").forEach((box) => (box.checked = event.target.checked));
  const bar = document.querySelector(".toolbar");
  if (!bar || !event.target.closest("#selection")) return;
  const count = all("input[name=id]:checked").length;
  bar.hidden = !count;
  bar.querySelector("[data-selected]").textContent = say("{n} selected").replace("{n}", count);
});

// ── charts ───────────────────────────────────────────────────────────────────────────────────────────────────────
function colour(name) {
  const probe = document.createElement("i");
  probe.className = "unseen";
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

const CHARTS = {
  // by name: the times, the unit, and label, values and colour of each line
  seconds: { at: "at", unit: "s", lines: [["duration", "seconds", "accent"]] },
  rows: { at: "at", lines: [["rows read", "read", "quiet"], ["rows changed", "changed", "accent"]] },
  latency: { at: "minutes", unit: "ms", lines: [["99 of 100", "p99", "quiet"], ["median", "p50", "accent"]] },
  backlog: { at: "minutes", lines: [["changes left", "backlog", "accent"]] },
};
const compact = new Intl.NumberFormat(root.lang, { notation: "compact", maximumFractionDigits: 1 });
// Ticks of time stand at whole seconds, minutes and hours.
const ROUND = [1, 2, 5, 10, 15, 30];
const STEPS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, ...ROUND, ...ROUND.map((n) => n * 60), ...[1, 2, 5, 10, 20, 50, 100].map((n) => n * 3600)];
const INCREMENTS = { s: STEPS, ms: [1, 2, 5, 10, 20, 50, 100, 200, 500, ...STEPS.filter((n) => n >= 1).map((n) => n * 1000)] };
const UP = { ms: [1000, "s"], s: [60, "min"], min: [60, "h"] };

// A value with the unit that reads best: 0.4 s, 12 min, 1.2K.
function measured(value, unit) {
  if (value == null) return "–";
  if (unit && UP[unit] && value >= UP[unit][0]) return measured(value / UP[unit][0], UP[unit][1]);
  return compact.format(value) + (unit ? ` ${say(unit)}` : "");
}

// Ticks as the reader's language writes times, in the zone that they chose; the day below the first tick of each.
function tickTimes(seconds, step) {
  const timeZone = root.dataset.times === "utc" ? "UTC" : undefined;
  const clock = { hour: "2-digit", minute: "2-digit", hourCycle: "h23", ...(step < 60 && { second: "2-digit" }) };
  const time = new Intl.DateTimeFormat(root.lang, { timeZone, ...clock });
  const day = new Intl.DateTimeFormat(root.lang, { timeZone, day: "numeric", month: "short" });
  let before = "";
  return seconds.map((second) => {
    const at = second * 1000, today = day.format(at);
    const text = step >= 86400 ? today : time.format(at) + (today === before ? "" : `\n${today}`);
    before = today;
    return text;
  });
}

function drawCharts() {
  const data = document.getElementById("chart-data");
  if (!data || !window.uPlot) return;
  const series = JSON.parse(data.textContent);
  for (const place of all("[data-chart]")) {
    place.replaceChildren();
    const { at, unit, lines } = CHARTS[place.dataset.chart];
    const times = series[at];
    const axis = { stroke: colour("quiet"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line") } };
    new uPlot(
      {
        width: place.clientWidth,
        height: 160,
        axes: [
          { ...axis, space: 64, values: (_, splits, axisIndex, space, step) => tickTimes(splits, step) },
          { ...axis, size: 64, ...(INCREMENTS[unit] && { incrs: INCREMENTS[unit] }), values: (_, splits) => splits.map((value) => measured(value, unit)) },
        ],
        scales: { x: { range: (_, first, last) => (first < last ? [first, last] : [first - 60, last + 60]) }, y: { range: (_, low, high) => [0, high || 1] } },
        series: [
          { label: say("time"), value: (_, second) => (second == null ? "–" : tickTimes([second], 0)[0].replace("\n", ", ")) },
          ...lines.map(([label, , name]) => ({
            label: say(label),
            stroke: colour(name),
            width: 1.5,
            points: { show: times.length < 40 },
            value: (_, value) => measured(value, unit),
          })),
        ],
      },
      [times, ...lines.map(([, key]) => series[key])],
      place,
    );
  }
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawCharts);
let resizing = 0;
window.addEventListener("resize", () => {
  clearTimeout(resizing);
  resizing = setTimeout(drawCharts, 150);
});

// ── lineage: what belongs to the node that is pointed at ────────────────────────────────────────────────────────
function trace(key) {
  const graph = document.querySelector(".graph");
  if (!graph) return;
  const edges = all("path[data-from]", graph);
  const lit = new Set(key ? [key] : []);
  for (const [from, to] of [["from", "to"], ["to", "from"]]) {
    const reached = new Set(lit.has(key) ? [key] : []);
    for (let size = -1; size !== reached.size; ) {
      size = reached.size;
      edges.filter((edge) => reached.has(edge.dataset[from])).forEach((edge) => reached.add(edge.dataset[to]));
    }
    reached.forEach((node) => lit.add(node));
  }
  for (const node of all("[data-node]", graph)) node.classList.toggle("dim", Boolean(key) && !lit.has(node.dataset.node));
  for (const edge of edges) {
    const on = lit.has(edge.dataset.from) && lit.has(edge.dataset.to);
    edge.classList.toggle("lit", Boolean(key) && on);
    edge.classList.toggle("dim", Boolean(key) && !on);
  }
}
for (const kind of ["pointerover", "focusin"]) {
  document.addEventListener(kind, (event) => {
    const node = event.target.closest?.("[data-node]");
    if (node || document.querySelector(".graph .dim")) trace(node?.dataset.node);
  });
}

// A node leads to its columns, below; with Ctrl or another button, to its page, as any link.
document.addEventListener("click", async (event) => {
  const node = event.target.closest?.("a[data-columns]");
  if (!node || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  await htmx.ajax("GET", node.dataset.columns, { target: "#columns-of", swap: "innerHTML" });
  document.getElementById("t-columns-of")?.focus();
});

// ── the door: a link brings its secret after the # ──────────────────────────────────────────────────────────────
const door = document.querySelector("[data-door]");
if (door && location.hash.length > 20) {
  door.elements.link.value = location.hash.slice(1);
  history.replaceState(null, "", location.pathname + location.search);
  door.elements.token.required = false;
  door.requestSubmit();
}
document.querySelector("[data-onward]")?.requestSubmit(); // back from a provider: no GET signs anybody in

// ── and go ───────────────────────────────────────────────────────────────────────────────────────────────────────
document.addEventListener("htmx:afterSettle", (event) => {
  writeTimes(event.target);
  if (event.target.id === "list") follow();
});
setInterval(() => document.hidden || writeTimes(), 1000);
setInterval(() => document.hidden || all("[data-refresh]").forEach((element) => htmx.trigger(element, "refresh")), 15000);
writeTimes();
drawCharts();
const log = document.getElementById("log");
if (log) log.scrollTop = log.scrollHeight;
follow();
