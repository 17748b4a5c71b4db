// Connects to the router and shows what it says.

import { age, count } from "./format.js";
import { History } from "./history.js";
import { Pool } from "./pool.js";

const silence = 5000; // ms without an event after which a connection is taken for lost
const retries = [1000, 2000, 5000, 10000]; // ms

const byId = (id) => document.getElementById(id);
const templates = { pool: byId("pool-template"), chart: byId("chart-template") };
const main = byId("pools");

const history = new History();
const pools = new Map(); // by model
let made = 0;
let source; // the EventSource, if there is one
let attempt; // to connect, while it goes on
let attempts = 0; // in vain
let timer;
let arrived; // when the last event came, by the monotonic clock
let loading; // the latest reading of the history
let missing = false; // it has not succeeded
const failures = new Map(); // texts by what they are about

// status is announced when it changes; its wording holds while the age counts.
function status(state, text) {
  byId("status").dataset.state = state;
  if (byId("status-text").textContent !== text) byId("status-text").textContent = text;
}

function tick() {
  const seconds = arrived === undefined ? 0 : (performance.now() - arrived) / 1000;
  byId("age").textContent = seconds > 3 ? `numbers from ${age(seconds)} ago` : "";
  if (source?.readyState === EventSource.OPEN && seconds * 1000 > silence) lost();
}

// fail says what cannot be shown, by what it is: stats or history.
function fail(what, text) {
  failures.set(what, text);
  const e = byId("failure");
  const all = [...failures.values()].filter(Boolean).join(" ");
  e.hidden = all === "";
  if (e.textContent !== all) e.textContent = all;
}

// loadHistory reads the whole hour. Where it fails an event tries again, one in
// five so that many pages are no burden.
async function loadHistory() {
  const mine = loading = {};
  missing = true;
  try {
    const response = await fetch("history", { cache: "no-store", signal: AbortSignal.timeout(silence) });
    if (!response.ok) throw new Error(`status ${response.status}`);
    const loaded = await response.json();
    if (loading !== mine) return;
    history.load(loaded);
    missing = false;
    fail("history", "");
  } catch (error) {
    if (loading === mine) fail("history", `The last hour could not be read: ${error.message}.`);
  }
}

function show(event) {
  const now = Date.parse(event.time);
  if (!history.add(event.history) || (missing && event.seq % 5 === 0)) loadHistory();
  const models = new Set(event.stats.pools.map((p) => p.model));
  for (const [model, pool] of pools) {
    if (models.has(model)) continue;
    pool.element.remove();
    pools.delete(model);
  }
  byId("waiting-first")?.remove();
  event.stats.pools.forEach((p, i) => {
    let pool = pools.get(p.model);
    if (!pool) pools.set(p.model, pool = new Pool(p.model, made++, templates));
    if (main.children[i] !== pool.element) main.insertBefore(pool.element, main.children[i] ?? null);
    pool.update(p, history, now);
  });
  const strangers = event.stats.unknown_model;
  byId("uptime").textContent = `counting for ${age(Math.max(0, (now - Date.parse(event.stats.since)) / 1000))}`
    + (strangers > 0 ? `; ${count(strangers)} refused for an unknown model` : "");
  main.dataset.seq = event.seq;
}

function stop() {
  attempt = undefined;
  clearTimeout(timer);
  source?.close();
  source = undefined;
}

function lost() {
  stop();
  status("lost", "Connection lost. Trying again.");
  fail("history", "");
  timer = setTimeout(connect, retries[Math.min(attempts++, retries.length - 1)]);
}

// connect always begins with the history, since steps may have passed unseen.
async function connect() {
  stop();
  const mine = attempt = {};
  await loadHistory();
  if (attempt === mine) watch();
}

function watch() {
  const mine = source = new EventSource("events");
  mine.onerror = () => { if (source === mine) lost(); };
  mine.onopen = () => { arrived = performance.now(); };
  mine.addEventListener("failure", (e) => fail("stats", `The stats could not be read: ${JSON.parse(e.data)}.`));
  mine.onmessage = (e) => {
    attempts = 0;
    arrived = performance.now();
    show(JSON.parse(e.data));
    fail("stats", "");
    status("live", "Live");
    tick();
  };
}

// A page that nobody sees holds no connection: browsers allow six to a server.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    stop();
    status("paused", "Paused while hidden");
  } else {
    connect();
  }
});

const themes = ["system", "light", "dark"];

function theme(name) {
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  byId("theme").textContent = `Theme: ${name}`;
  for (const pool of pools.values()) pool.redraw();
}

byId("theme").addEventListener("click", () => {
  const now = document.documentElement.dataset.theme ?? "system";
  const next = themes[(themes.indexOf(now) + 1) % themes.length];
  try { localStorage.setItem("warmroute-theme", next); } catch { /* no storage: see theme.js */ }
  theme(next);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => theme(document.documentElement.dataset.theme ?? "system"));

theme(document.documentElement.dataset.theme ?? "system");
setInterval(tick, 1000);
if (!document.hidden) connect();
