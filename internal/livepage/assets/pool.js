// One pool: its header, its replicas, its charts. All that comes from the
// router goes into the document as text.

import { Chart } from "./charts.js";
import { age, compact, count, duration, percent, plural, unknown } from "./format.js";

const recently = 60000; // ms

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function setData(element, name, value) {
  if (element.dataset[name] !== value) element.dataset[name] = value;
}

// fill sets how full a bar is, 0 to 1.
function fill(bar, share) {
  bar.style.inlineSize = `${(100 * Math.min(1, Math.max(0, share ?? 0))).toFixed(1)}%`;
}

// A state's kind and what it means. One that is not among these is shown as it
// is, and judged by nobody.
const states = {
  up: ["good", ""],
  suspect: ["warn", "gets what others cannot take"],
  draining: ["warn", "takes no new conversations"],
  asleep: ["warn", "its engine sleeps"],
  held: ["warn", "asked for nothing new"],
  probing: ["warn", "failed; now tried again"],
  down: ["bad", "could not be reached"],
  open: ["bad", "fails; gets none for now"],
  wedged: ["bad", "makes no progress"],
  foreign: ["bad", "serves another model now"],
};

const kindOf = (r) => (Object.hasOwn(states, r.state) ? states[r.state][0] : "other");

// why says what else is to be known of a replica's state: what was found of it,
// or what the state means, and how old its metrics are if they no longer count.
function why(r) {
  const out = [];
  const found = r.finding?.reason;
  const meaning = Object.hasOwn(states, r.state) ? states[r.state][1] : "";
  if (meaning && !(found && r.finding.state === r.state)) out.push(meaning);
  if (found) out.push(found);
  if (typeof r.scraped_ago_s !== "number") out.push("no metrics yet");
  else if (r.stale) out.push(`metrics from ${age(r.scraped_ago_s)} ago`);
  return out.join("; ");
}

// setName shows a replica's name. Where there is no room for all of it the rank
// stays, which is all that tells the replicas of an endpoint apart.
function setName(element, name) {
  if (element.title === name && element.textContent === name) return;
  const rank = name.match(/@\d+$/)?.[0] ?? "";
  const host = name.slice(0, name.length - rank.length);
  element.title = name;
  element.replaceChildren(make("span", { class: "replica" }, make("span", { class: "host" }, host), make("span", { class: "rank" }, rank)));
}

// Rise tells whether a count has risen in the last minute, as far as the page has
// seen it: what failed yesterday is no alarm.
class Rise {
  #value;
  #at = -Infinity;

  level(value, now) {
    if (value > this.#value) this.#at = now;
    this.#value = value;
    return now - this.#at < recently ? "warn" : "";
  }
}

// A column's level is how alarming its number is: "warn", "bad" or nothing. What
// was scraped is shown as old, and alarms nobody, when it no longer counts.
const columns = [
  { key: "in_flight", label: "In flight", text: count, bar: (r, p) => r.in_flight / Math.max(8, ...p.replicas.map((o) => o.in_flight)), level: (r, p) => (r.in_flight > p.spill.value ? "bad" : "") },
  { key: "running", label: "Running", text: count, scraped: true },
  { key: "waiting", label: "Waiting", text: count, scraped: true, level: (r) => (r.waiting > 0 ? "warn" : "") },
  { key: "kv_usage", label: "KV used", text: percent, scraped: true, bar: (r) => r.kv_usage, level: (r) => (r.kv_usage >= 0.95 ? "bad" : r.kv_usage >= 0.85 ? "warn" : "") },
  { key: "prefix_hit_rate", label: "Prefix hits", text: percent, scraped: true },
  { key: "verified_share", label: "Verified", text: percent, level: (r) => (r.verified_share !== null && r.verified_share < 0.5 ? "warn" : "") },
  { key: "sessions", label: "Sessions", text: count },
  { key: "residents", label: "Resident", text: count },
  { key: "sticky", label: "Sticky", text: count },
  { key: "placed", label: "Placed", text: count },
  { key: "spilled_in", label: "Spilled in", text: count },
  { key: "pinned", label: "Pinned", text: count },
  { key: "unkeyed", label: "Unkeyed", text: count },
  { key: "failed", label: "Failed", text: count, level: (r, p, row, now) => row.failing.level(r.failed, now) },
];

function make(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  e.append(...children);
  return e;
}

// Row is one replica. The roles are those of a table, which a browser would
// forget where the style sheet makes cards of its rows.
class Row {
  failing = new Rise();
  #cells = {};
  #state = make("b", {});
  #dot = make("i", { class: "dot", "aria-hidden": "true" });
  #why = make("span", { class: "why" });

  constructor(name) {
    this.element = make("tr", { role: "row" });
    this.element.dataset.replica = name;
    const header = make("th", { scope: "row", role: "rowheader", "data-key": "name" });
    setName(header, name);
    this.element.append(header, make("td", { role: "cell", "data-key": "state" }, this.#dot, this.#state, this.#why));
    for (const c of columns) {
      const value = make("span", { class: "value" });
      const cell = make("td", { role: "cell", "data-key": c.key, "data-label": c.label }, value);
      let bar;
      if (c.bar) {
        bar = make("i", {});
        cell.append(make("span", { class: "meter", "aria-hidden": "true" }, bar));
      }
      this.#cells[c.key] = { cell, value, bar };
      this.element.append(cell);
    }
  }

  update(r, p, now) {
    setText(this.#state, String(r.state));
    setData(this.#dot, "kind", kindOf(r));
    setData(this.#state, "kind", kindOf(r));
    setText(this.#why, why(r));
    this.#why.title = this.#why.textContent;
    for (const c of columns) {
      const { cell, value, bar } = this.#cells[c.key];
      setText(value, c.text(r[c.key]));
      const old = Boolean(c.scraped && r.stale);
      setData(cell, "old", String(old));
      setData(cell, "level", old ? "" : c.level?.(r, p, this, now) ?? "");
      if (bar) fill(bar, c.bar(r, p));
    }
  }
}

// queuedInEngines is what waits in the engines that are known to; null if none is.
function queuedInEngines(replicas) {
  const known = replicas.filter((r) => !r.stale && typeof r.waiting === "number");
  return known.length ? known.reduce((n, r) => n + r.waiting, 0) : null;
}

// patience says how long a turn may wait for room, or why none does.
function patience(q) {
  if (q.residency === "off") return "off: the router lets nobody wait";
  if (!q.active) return "off until the caches' size is known";
  const most = `at most ${duration(q.max_wait_s)}`;
  return q.waiting > 0 ? `longest ${duration(q.longest_wait_s)}, ${most}` : `nobody, ${most} each`;
}

export class Pool {
  #field = {};
  #rows = new Map(); // by the replica's name
  #charts = [];
  #rises = { failed: new Rise(), refused: new Rise(), overloaded: new Rise() };

  constructor(model, number, templates) {
    this.model = model;
    this.element = templates.pool.content.firstElementChild.cloneNode(true);
    this.element.dataset.model = model;
    for (const e of this.element.querySelectorAll("[data-field]")) this.#field[e.dataset.field] = e;
    const heading = this.#field.model;
    heading.id = `pool-${number}`;
    heading.textContent = model === "" ? "Default pool" : model;
    this.element.setAttribute("aria-labelledby", heading.id);
    for (const label of ["Replica", "State", ...columns.map((c) => c.label)]) {
      this.#field.columns.append(make("th", { scope: "col", role: "columnheader" }, label));
    }
    for (const figure of this.element.querySelectorAll("[data-chart]")) {
      this.#charts.push(new Chart(figure, templates.chart, model, heading.id));
    }
    this.#scrolls(this.element.querySelector(".scroll"), heading.id);
  }

  // scrolls lets the keyboard reach the table's container while it scrolls.
  #scrolls(container, label) {
    new ResizeObserver(() => {
      if (container.scrollWidth > container.clientWidth) {
        container.tabIndex = 0;
        container.setAttribute("role", "region");
        container.setAttribute("aria-labelledby", label);
      } else {
        for (const name of ["tabindex", "role", "aria-labelledby"]) container.removeAttribute(name);
      }
    }).observe(container);
  }

  update(p, history, now) {
    const f = this.#field;
    setText(f.affinity, p.affinity ? "affinity on" : "affinity off");
    setData(f.affinity, "kind", p.affinity ? "good" : "warn");
    const up = p.replicas.filter((r) => r.state === "up").length;
    setText(f.replicas, p.replicas.length ? `${count(up)} of ${count(p.replicas.length)} up` : "no replica");
    setData(f.replicas, "kind", !p.replicas.length || p.replicas.some((r) => kindOf(r) === "bad") ? "bad" : up < p.replicas.length ? "warn" : "good");
    setText(f.spill, `spills above ${count(p.spill.value)} in flight (${p.spill.source})`);
    this.#problems(p.problems);

    setText(f["cached-hour"], percent(p.tokens.cached_share_last_hour));
    setData(f["cached-meter"], "known", String(p.tokens.cached_share_last_hour !== null));
    fill(f["cached-bar"], p.tokens.cached_share_last_hour);
    const minute = history.minute(this.model, now);
    setText(f["cached-now"], minute.prompt ? `last minute ${percent(minute.cached / minute.prompt)} of ${compact(minute.prompt)} tokens` : "no prompts in the last minute");
    setText(f["sticky-share"], percent(p.sticky_share));
    fill(f["sticky-bar"], p.sticky_share);
    setText(f.verified, p.verified_share === null ? "no turn verified yet" : `verified by engines ${percent(p.verified_share)}`);

    const q = p.queue;
    const inEngines = queuedInEngines(p.replicas);
    setText(f.waiting, count(q.waiting));
    setData(f.waiting, "level", q.waiting > 0 ? "warn" : "");
    setText(f["max-waiting"], q.active ? `of ${count(q.max_waiting)}` : "");
    setText(f.longest, patience(q));
    setData(f.longest, "level", q.waiting > 0 ? "warn" : "");
    setText(f.queued, `queued in engines: ${count(inEngines)}`);
    setData(f.queued, "level", inEngines > 0 ? "warn" : "");

    this.#busiest(p);

    setText(f["in-flight"], count(p.in_flight));
    setText(f.sessions, count(p.sessions));
    const latest = history.latest(this.model, now);
    setText(f.p50, duration(latest?.first_byte_p50_s));
    setText(f.p95, duration(latest?.first_byte_p95_s));
    const r = p.requests;
    setText(f.requests, count(r.sticky + r.placed + r.spilled + r.pinned + r.unkeyed));
    setText(f.spilled, count(r.spilled));
    for (const [name, value] of [["failed", r.failed], ["refused", r.refused], ["overloaded", q.overloaded]]) {
      setText(f[name], count(value));
      setData(f[name], "level", this.#rises[name].level(value, now));
    }
    this.#replicas(p, now);
    for (const chart of this.#charts) chart.update(history, now);
  }

  #busiest(p) {
    const f = this.#field;
    const load = (r) => [r.in_flight, r.kv_usage ?? 0];
    let top;
    for (const r of p.replicas) {
      if (!top || load(r)[0] > load(top)[0] || (load(r)[0] === load(top)[0] && load(r)[1] > load(top)[1])) top = r;
    }
    if (!top || top.in_flight === 0) {
      setName(f.hottest, top ? "all idle" : "no replica");
      setText(f["hottest-load"], top ? plural(p.replicas.length, "replica") : "requests are refused");
      setText(f["hottest-spill"], "");
      setData(f.hottest, "level", top ? "" : "bad");
      return;
    }
    const over = top.in_flight > p.spill.value;
    setName(f.hottest, top.name);
    setData(f.hottest, "level", over ? "bad" : "");
    setText(f["hottest-load"], `${count(top.in_flight)} of ${count(p.in_flight)} in flight, KV ${top.stale ? unknown : percent(top.kv_usage)}`);
    setText(f["hottest-spill"], over ? `over its threshold of ${count(p.spill.value)}` : `spills above ${count(p.spill.value)}`);
  }

  #problems(problems) {
    const list = this.#field.problems;
    if (list.hidden === (problems.length === 0) && [...list.children].every((e, i) => e.textContent === problems[i]) && list.children.length === problems.length) return;
    list.replaceChildren(...problems.map((text) => make("li", {}, text)));
    list.hidden = problems.length === 0;
  }

  #replicas(p, now) {
    const body = this.#field.rows;
    const names = new Set(p.replicas.map((r) => r.name));
    for (const [name, row] of this.#rows) {
      if (names.has(name)) continue;
      row.element.remove();
      this.#rows.delete(name);
    }
    p.replicas.forEach((r, i) => {
      let row = this.#rows.get(r.name);
      if (!row) this.#rows.set(r.name, row = new Row(r.name));
      row.update(r, p, now);
      if (body.children[i] !== row.element) body.insertBefore(row.element, body.children[i] ?? null);
    });
  }

  redraw() {
    for (const chart of this.#charts) chart.redraw();
  }
}

