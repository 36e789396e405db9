// Places marks on the axis: time runs to the right, idle time is folded, events of one instant have a slot each.

const SLOT = 17;
/** Events of one instant and lane that are alike become one mark if there are more than this. */
const ALIKE = 5;
/** A gap of at least this many milliseconds is drawn as folded. */
const FOLDED = 1000;

/** Returns the kinds of event to draw as marks: { at, lane, kind, events: [position…] }. */
function marksOf(timeline, isShown) {
  const key = (event) =>
    [event.at, event.lane, event.kind, event.verb, event.object.split("/")[0], Boolean(event.failed),
      Boolean(event.broke)].join("|");
  const counts = new Map();
  const shown = timeline.events.map((event, position) => ({ event, position })).filter(({ event }) => isShown(event));
  for (const { event } of shown) counts.set(key(event), (counts.get(key(event)) || 0) + 1);
  const joined = new Map();
  const marks = [];
  for (const { event, position } of shown) {
    const alike = key(event);
    const known = counts.get(alike) > ALIKE ? joined.get(alike) : undefined;
    if (known) {
      known.events.push(position);
      continue;
    }
    const { at, lane, kind } = event;
    const mark = { at, lane, kind, failed: Boolean(event.failed), broke: Boolean(event.broke), events: [position] };
    joined.set(alike, mark);
    marks.push(mark);
  }
  return marks;
}

/** Returns the width of a gap of `millis`. */
function gapWidth(millis) {
  return millis <= 0 ? 0 : Math.min(64, Math.max(8, 8 + 10 * Math.log10(millis)));
}

/** Returns the columns of all instants, with their marks placed: { columns, width, marks }. */
function layout(timeline, marks, available) {
  const times = new Set([0, timeline.end]);
  for (const mark of marks) times.add(mark.at);
  for (const event of timeline.events) if (event.replied) times.add(event.replied);
  for (const step of timeline.steps) times.add(step.from).add(step.to);
  for (const band of timeline.bands) times.add(band.from).add(band.to);
  for (const failure of timeline.failures) if (failure.at !== undefined) times.add(failure.at);
  const slots = new Map();
  for (const mark of marks) slots.set(mark.at, [...(slots.get(mark.at) || []), mark]);
  const sorted = [...times].sort((a, b) => a - b);
  const gaps = sorted.map((time, index) => (index === 0 ? 0 : gapWidth(time - sorted[index - 1])));
  const needed = sorted.map((time) => Math.max(10, (slots.get(time) || []).length * SLOT));
  const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);
  const spare = available - 48 - sum(needed) - sum(gaps);
  const stretch = spare > 0 && sum(gaps) > 0 ? 1 + spare / sum(gaps) : 1;
  let x = 8;
  const columns = sorted.map((time, index) => {
    const gap = gaps[index] * stretch;
    const from = x + gap;
    const column = { time, gap, from, to: from + needed[index], idle: index ? time - sorted[index - 1] : 0 };
    (slots.get(time) || []).forEach((mark, slot) => { mark.x = column.from + slot * SLOT + SLOT / 2; });
    x = column.to;
    return column;
  });
  return { columns, width: x + 40, marks };
}

/** Returns the x of a time: the begin of its column, or its end. */
function xOf(scale, time, isEnd) {
  const after = scale.columns.find((column) => column.time >= time) || scale.columns[scale.columns.length - 1];
  if (after.time <= time) return isEnd ? after.to : after.from;
  const part = after.idle ? (after.time - time) / after.idle : 0;
  return after.from - part * after.gap;
}

/** Returns the time at x. */
function timeAt(scale, x) {
  const after = scale.columns.find((column) => x <= column.to);
  if (!after) return scale.columns[scale.columns.length - 1].time;
  if (x >= after.from || !after.gap) return after.time;
  return after.time - (after.idle * (after.from - x)) / after.gap;
}
