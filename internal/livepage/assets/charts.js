// Charts over the last hour. They take their colours from the style sheet, so
// that both themes hold; see redraw.

import { clock, compact, duration, rate, unknown } from "./format.js";

/* global uPlot */

const shortest = 300; // seconds across, at least
const height = 150;
const room = 2; // pixels a point has, at least

const perSecond = (key) => (p) => p[key] / p.seconds;

// A stacked series is drawn on top of the next one.
const kinds = {
  prompt: {
    title: "Prompt tokens/s",
    series: [
      { label: "computed", value: perSecond("prompt_computed"), stacked: true },
      { label: "cached", value: perSecond("prompt_cached"), filled: true },
    ],
    text: rate,
    axis: compact,
  },
  completion: {
    title: "Completion tokens/s",
    series: [{ label: "completion", value: perSecond("completion"), filled: true }],
    text: rate,
    axis: compact,
  },
  ttfb: {
    title: "Time to first byte",
    series: [
      { label: "p95", value: (p) => p.first_byte_p95_s },
      { label: "p50", value: (p) => p.first_byte_p50_s },
    ],
    text: duration,
    axis: (v) => (v === 0 ? "0" : v < 1 ? `${Math.round(v * 1000)} ms` : `${compact(v)} s`),
  },
};

// alone are the points between two gaps, which no line goes through.
function alone(u, series) {
  const column = u.data[series];
  const out = [];
  for (let i = 0; i < column.length; i++) {
    if (column[i] !== null && (column[i - 1] ?? null) === null && (column[i + 1] ?? null) === null) out.push(i);
  }
  return out;
}

const translucent = (color) => color.replace(/^rgb\((.*)\)$/, "rgba($1, 0.28)");

export class Chart {
  #kind;
  #field = {};
  #shown = []; // by series: the legend's number
  #plot;
  #columns;
  #values; // as they are told, where columns are as they are drawn
  #window = [0, shortest];
  #hovered = null;

  constructor(figure, template, model, sync) {
    this.#kind = kinds[figure.dataset.chart];
    this.model = model;
    this.sync = sync;
    figure.append(template.content.cloneNode(true));
    for (const e of figure.querySelectorAll("[data-field]")) this.#field[e.dataset.field] = e;
    this.#field.title.textContent = this.#kind.title;
    for (const s of [...this.#kind.series].reverse()) {
      const item = document.createElement("li");
      const swatch = document.createElement("i");
      swatch.className = `swatch ${s.label}`;
      const value = document.createElement("b");
      item.append(swatch, `${s.label} `, value);
      this.#field.legend.append(item);
      this.#shown.unshift({ swatch, value });
    }
    new ResizeObserver(() => this.#fit()).observe(this.#field.plot);
  }

  // update takes the history in.
  update(history, now) {
    const columns = history.columns(this.model, now, this.#kind.series.map((s) => s.value), this.#field.plot.clientWidth / room);
    const to = Math.floor(now / 5000) * 5;
    const from = columns[0].length ? Math.min(columns[0][0], to - shortest) : to - shortest;
    this.#window = [from, to];
    this.#values = columns;
    this.#columns = columns.map((column, i) => {
      if (!this.#kind.series[i - 1]?.stacked) return column;
      return column.map((v, at) => (v === null ? null : v + columns[i + 1][at]));
    });
    if (this.#plot) this.#plot.setData(this.#columns);
    else this.redraw();
    this.#tell();
  }

  // redraw makes the chart anew, in the colours of the theme.
  redraw() {
    this.#plot?.destroy();
    this.#plot = undefined;
    if (!this.#columns || !this.#field.plot.clientWidth) return;
    const color = (e) => getComputedStyle(e).backgroundColor;
    const style = getComputedStyle(this.#field.plot);
    const axis = {
      stroke: style.color, font: `11px ${style.fontFamily}`, gap: 4,
      grid: { stroke: style.borderColor, width: 1 }, ticks: { show: false },
    };
    this.#plot = new uPlot({
      width: this.#field.plot.clientWidth, height, padding: [8, 16, 0, 0],
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, sync: { key: this.sync }, points: { size: 6 } },
      scales: {
        x: { time: true, range: () => this.#window },
        y: { range: (u, min, max) => [0, max > 0 ? max * 1.08 : 1] },
      },
      axes: [
        { ...axis, size: 24, space: 60, values: (u, ticks) => ticks.map((t) => clock(new Date(t * 1000)).slice(0, 5)), incrs: [60, 120, 300, 600, 900, 1200] },
        { ...axis, size: 52, space: 32, values: (u, ticks) => ticks.map(this.#kind.axis) },
      ],
      series: [{}, ...this.#kind.series.map((s, i) => ({
        label: s.label, stroke: color(this.#shown[i].swatch), width: 1.5,
        fill: s.filled ? translucent(color(this.#shown[i].swatch)) : undefined,
        points: { show: true, size: 4, filter: alone },
      }))],
      bands: this.#kind.series.flatMap((s, i) => (s.stacked
        ? [{ series: [i + 1, i + 2], fill: translucent(color(this.#shown[i].swatch)) }] : [])),
      hooks: { setCursor: [(u) => { this.#hovered = u.cursor.idx ?? null; this.#tell(); }] },
    }, this.#columns, this.#field.plot);
  }

  #fit() {
    const width = this.#field.plot.clientWidth;
    if (!width) return;
    if (this.#plot) this.#plot.setSize({ width, height });
    else this.redraw();
  }

  // tell writes the numbers of the step under the pointer, or of the last one.
  #tell() {
    const [times] = this.#values ?? [[]];
    const at = this.#hovered ?? times.length - 1;
    this.#shown.forEach(({ value }, i) => {
      const text = times.length ? this.#kind.text(this.#values[i + 1][at]) : unknown;
      if (value.textContent !== text) value.textContent = text;
    });
    const [from, to] = this.#window;
    let when = to - from >= 3600 - 60 ? "last hour" : `last ${Math.round((to - from) / 60)} min`;
    if (!times.length) when = "nothing recorded yet";
    if (this.#hovered !== null && times[at]) when = clock(new Date(times[at] * 1000));
    if (this.#field.when.textContent !== when) this.#field.when.textContent = when;
    const numbers = this.#kind.series.map((s, i) => `${s.label} ${this.#shown[i].value.textContent}`).join(", ");
    this.#field.plot.setAttribute("aria-label", `${this.#kind.title}, ${when}: ${numbers}`);
  }
}
