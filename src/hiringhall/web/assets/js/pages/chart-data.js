// The answers of /history/chart, as data of charts.

export const SPANS = [["1h", "1 h"], ["6h", "6 h"], ["1d", "1 day"], ["7d", "7 days"], ["30d", "30 days"]];
export const SERIES = [["Done", "good"], ["Failed", "bad"], ["Cancelled", "quiet"]];

function base(answer) {
  const times = answer.items.map((item) => Date.parse(item.at));
  const bucketMs = answer.bucket_s * 1000;
  const from = Date.parse(answer.from);
  return { times, bucketMs, from, to: Math.max(from + bucketMs, (times.at(-1) ?? from) + bucketMs) };
}

function series(answer, name, tone, value) {
  return { name, tone, values: answer.items.map(value) };
}

export function historyBars(answer) {
  return { ...base(answer), series: SERIES.map(([name, tone]) => series(answer, name, tone, (item) => item[name.toLowerCase()])) };
}

/** Jobs per second that were done. */
export function historyRate(answer) {
  return { ...base(answer), series: [series(answer, "Done", "live", (item) => item.done / answer.bucket_s)] };
}

export function historyFailures(answer) {
  return { ...base(answer), series: [series(answer, "Failed", "bad", (item) => item.failed)] };
}

export function historyTimes(answer, field, name) {
  return { ...base(answer), series: [series(answer, name, field === "wait_s" ? "hold" : "live", (item) => item[field] ?? null)] };
}
