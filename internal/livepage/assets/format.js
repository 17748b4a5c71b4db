// Numbers as they are read: unknown is a dash, never zero.

export const unknown = "–";

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en-US", { notation: "compact", maximumSignificantDigits: 3 });

const known = (v) => typeof v === "number" && Number.isFinite(v);

// count is whole up to a million, then has three significant digits: 1.23M.
export function count(v) {
  if (!known(v)) return unknown;
  return Math.abs(v) < 1e6 ? whole.format(v) : short.format(v);
}

// compact has three significant digits: 12.3K.
export function compact(v) {
  return known(v) ? short.format(v) : unknown;
}

export function rate(v) {
  return known(v) ? `${compact(v)}/s` : unknown;
}

export function percent(v) {
  return known(v) ? `${(v * 100).toFixed(1)}%` : unknown;
}

// duration of some seconds: 12 ms, 1.23 s, 12.3 s, 2 min 5 s, 3 h 7 min.
export function duration(v) {
  if (!known(v)) return unknown;
  if (v === 0) return "0 s";
  if (v < 0.9995) return `${Math.max(1, Math.round(v * 1000))} ms`;
  if (v < 9.995) return `${v.toFixed(2)} s`;
  if (v < 59.95) return `${v.toFixed(1)} s`;
  const s = Math.round(v);
  const pair = (a, unitA, b, unitB) => (b === 0 ? `${a} ${unitA}` : `${a} ${unitA} ${b} ${unitB}`);
  if (s < 3600) return pair(Math.floor(s / 60), "min", s % 60, "s");
  const m = Math.round(s / 60);
  if (m < 24 * 60) return pair(Math.floor(m / 60), "h", m % 60, "min");
  const h = Math.round(m / 60);
  return pair(Math.floor(h / 24), "d", h % 24, "h");
}

// age is a duration without what changes too fast to read.
export function age(v) {
  if (v < 60) return `${Math.floor(v)} s`;
  return v < 3600 ? `${Math.floor(v / 60)} min` : duration(v);
}

export function clock(date) {
  return date.toLocaleTimeString("en-GB");
}

// plural: 1 turn, 2 turns.
export function plural(n, one, many = `${one}s`) {
  return `${count(n)} ${n === 1 ? one : many}`;
}
