// The last hour, as the router recorded it, by model.

const hour = 3600;

export class History {
  #step = 5;
  #pools = new Map(); // by model: Map of step number to point

  // load replaces what is known.
  load(history) {
    this.#pools = new Map();
    this.#merge(history);
  }

  // add takes the latest steps in, and returns false if there may be others
  // before them that were missed.
  add(history) {
    let whole = true;
    for (const pool of history.pools) {
      const known = this.#pools.get(pool.model);
      if (!known?.size || !pool.points.length) continue;
      const newest = Math.max(...known.keys());
      if (this.#number(pool.points[0]) > newest + 1) whole = false;
    }
    this.#merge(history);
    return whole;
  }

  #merge(history) {
    this.#step = history.step_s;
    for (const pool of history.pools) {
      const points = this.#pools.get(pool.model) ?? new Map();
      for (const p of pool.points) points.set(this.#number(p), p);
      const oldest = Math.max(...points.keys()) - hour / this.#step;
      for (const number of points.keys()) if (number <= oldest) points.delete(number);
      this.#pools.set(pool.model, points);
    }
  }

  #number(point) {
    return Math.round(Date.parse(point.end) / 1000 / this.#step);
  }

  // latest is the last point that is not older than a minute, if any.
  latest(model, now) {
    const points = this.#pools.get(model);
    if (!points?.size) return undefined;
    const newest = Math.max(...points.keys());
    return now / 1000 - newest * this.#step > 60 ? undefined : points.get(newest);
  }

  // minute sums up the minute before now.
  minute(model, now) {
    const sum = { cached: 0, prompt: 0 };
    for (const [number, p] of this.#pools.get(model) ?? []) {
      if (now / 1000 - number * this.#step > 60) continue;
      sum.cached += p.prompt_cached;
      sum.prompt += p.prompt_cached + p.prompt_computed;
    }
    return sum;
  }

  // columns are the times, in seconds, and for each of the functions a column of
  // its values: at most so many points, for which steps are merged. Times without
  // a step are null in all but the first.
  columns(model, now, values, most) {
    const points = this.#pools.get(model);
    const last = Math.floor(now / 1000 / this.#step);
    const out = [[], ...values.map(() => [])];
    if (!points?.size) return out;
    const first = Math.max(Math.min(...points.keys()), last - hour / this.#step + 1);
    const size = Math.max(1, Math.ceil((last - first + 1) / Math.max(1, most)));
    for (let from = Math.floor(first / size) * size; from <= last; from += size) {
      const to = Math.min(from + size - 1, last);
      const steps = [];
      for (let number = from; number <= to; number++) {
        if (points.has(number)) steps.push(points.get(number));
      }
      if (!steps.length && to === last) break; // it may not be over yet
      const p = steps.length ? merged(steps) : null;
      out[0].push(to * this.#step);
      values.forEach((value, i) => out[i + 1].push(p ? value(p) : null));
    }
    return out;
  }
}

// merged is several steps as one. Times to first byte are those of a minute each,
// so that the last one says what there is to say.
function merged(steps) {
  const sum = { ...steps.at(-1), seconds: 0, prompt_cached: 0, prompt_computed: 0, completion: 0 };
  for (const p of steps) {
    for (const key of ["seconds", "prompt_cached", "prompt_computed", "completion"]) sum[key] += p[key];
  }
  return sum;
}
