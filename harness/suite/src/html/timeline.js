// Draws a timeline as SVG. Kinds of event differ by shape as well as by colour.

const AXIS = 27;
const STEP = 21;
const LANE = 36;
/** Arrows that are drawn without a selection; with more, only those of the selected event are. */
const MANY_ARROWS = 250;

/** Names of the kinds of event, for the legend and for screen readers. */
const KIND_NAMES = {
  write: "write", read: "read", watch: "watch opened", delivery: "watch event delivered",
  change: "change by the server", note: "harness",
};
const ARROW_NAMES = {
  delivers: "sent to a watch", version: "the write names this version", object: "same object, same time",
  time: "same time",
};

/** Returns the shape of a mark around (0, 0). */
function shape(mark) {
  switch (mark.kind) {
    case "write":
      return [svg("rect", { x: -5.5, y: -5.5, width: 11, height: 11, rx: 1 }),
        mark.failed && svg("path", { class: "cross", d: "M-3.5-3.5 3.5 3.5M3.5-3.5-3.5 3.5" })];
    case "read":
      return [svg("circle", { r: 4 }), mark.failed && svg("path", { class: "cross", d: "M-3-3 3 3M3-3-3 3" })];
    case "watch":
      return [svg("circle", { r: 4.5 }), svg("circle", { class: "dot", r: 1.5 })];
    case "delivery":
      return [svg("path", { d: "M-5-4.5H5L0 5Z" })];
    case "change":
      return [svg("path", { d: "M0-6.5 6.5 0 0 6.5-6.5 0Z" })];
    default:
      return [svg("path", { d: "M-3 8V-8L6-4.5-3-1" })];
  }
}

/** Describes a mark in a line. */
function markText(timeline, mark) {
  const event = timeline.events[mark.events[0]];
  const lane = timeline.lanes[event.lane].name;
  const words = [`t=+${seconds(event.at)}`, lane, event.verb, event.object, event.tail].filter(Boolean).join(" ");
  const more = mark.events.length > 1 ? ` and ${mark.events.length - 1} more like it` : "";
  const fate = `${event.failed ? ", refused" : ""}${event.broke ? ", broke a check" : ""}`;
  return `${words}${more} (${KIND_NAMES[mark.kind]}${fate})`;
}

/** Draws the labels of the axis and the folds. */
function drawAxis(scale, height) {
  const group = svg("g", { class: "axis", "aria-hidden": "true" });
  let free = 0;
  for (const column of scale.columns) {
    group.append(svg("line", { class: "tick", x1: column.from, x2: column.from, y1: AXIS - 3, y2: height }));
    const text = seconds(column.time);
    if (column.from >= free) {
      group.append(svg("text", { x: column.from, y: 12 }, text));
      free = column.from + text.length * 7 + 8;
    }
    if (column.idle >= FOLDED) {
      const middle = column.from - column.gap / 2;
      group.append(svg("line", { class: "folded", x1: middle, x2: middle, y1: AXIS + 2, y2: height }));
      group.append(svg("path", { class: "fold", d: `M${middle - 5} 23l3-6 4 6 3-6` },
        svg("title", {}, `${seconds(column.idle)} without events, folded`)));
    }
  }
  return group;
}

/** Packs the steps with checks into rows in which they do not overlap. */
function stepRows(timeline, scale) {
  const rows = [];
  for (const step of timeline.steps.filter((one) => one.kind !== "do" || one.verdict === "fail")) {
    const from = xOf(scale, step.from, step.from === step.to);
    const begin = step.from === step.to ? from - 12 : from;
    const box = { step, from: begin, to: Math.max(xOf(scale, step.to, true), from + 4) };
    let row = rows.findIndex((boxes) => boxes.every((other) => other.to + 2 <= box.from || box.to + 2 <= other.from));
    if (row < 0) row = rows.push([]) - 1;
    rows[row].push(box);
  }
  return rows;
}

/** Draws the checks: windows as boxes, instants as small ones, each with its verdict. */
function drawSteps(rows, onStep) {
  const signs = { pass: "✓", fail: "✗", "": "–" };
  return rows.flatMap((boxes, row) => boxes.map(({ step, from, to }) => {
    const y = AXIS + 2 + row * STEP;
    const text = `${signs[step.verdict]} ${step.kind} ${step.text}`;
    const when = step.from === step.to ? seconds(step.from) : `${seconds(step.from)} to ${seconds(step.to)}`;
    return svg("g", { class: `step ${step.verdict || "none"} ${step.kind}`, onclick: () => onStep(step) },
      svg("title", {}, `${step.kind}, ${when}, line ${step.line}: ${step.text} (${step.verdict || "not judged"})`),
      svg("rect", { x: from, y, width: to - from, height: STEP - 4, rx: 2 }),
      svg("text", { x: from + 3, y: y + 12.5 }, shortened(text, Math.floor((to - from - 4) / 6.1)) || text[0]));
  }));
}

/** Draws faults as bands behind the lanes. */
function drawBands(timeline, scale, top, height) {
  return timeline.bands.map((band) => {
    const x = xOf(scale, band.from, true);
    const width = Math.max(4, xOf(scale, band.to, false) - x);
    return svg("g", { class: `band ${band.kind}` },
      svg("title", {}, `${seconds(band.from)} to ${seconds(band.to)}: ${band.text}`),
      svg("rect", { x, y: top, width, height: height - top }),
      svg("text", { x: x + 4, y: height - 5 }, shortened(band.text, Math.floor(width / 6))));
  });
}

/** Returns the path of an arrow between two marks: a line if they are near, otherwise a curve. */
function arrowPath(from, to) {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const length = Math.hypot(dx, dy) || 1;
  const [ux, uy] = [(7 * dx) / length, (7 * dy) / length];
  const [x1, y1] = [from.x + ux, from.y + uy];
  const [x2, y2] = [to.x - ux, to.y - uy];
  if (Math.abs(dx) < 80) return `M${x1} ${y1}L${x2} ${y2}`;
  const bend = Math.abs(dx) / 3;
  return `M${from.x + 7} ${from.y}C${from.x + bend} ${from.y} ${to.x - bend} ${to.y} ${to.x - 7} ${to.y}`;
}

/** Draws arrows from causes to effects; `near` are the positions whose arrows are emphasized. */
function drawArrows(timeline, places, near) {
  const drawn = new Set();
  const out = [];
  for (const arrow of timeline.arrows) {
    const [from, to] = [places.get(arrow.from), places.get(arrow.to)];
    if (!from || !to || from === to) continue;
    const isNear = near.has(arrow.from) || near.has(arrow.to);
    const key = `${from.x} ${from.y} ${to.x} ${to.y} ${isNear}`;
    if (drawn.has(key) || (!isNear && timeline.arrows.length > MANY_ARROWS)) continue;
    drawn.add(key);
    const path = arrowPath(from, to);
    out.push(svg("path", { class: `arrow ${arrow.kind}${isNear ? " near" : ""}`, d: path, "marker-end": "url(#head)" },
      svg("title", {}, ARROW_NAMES[arrow.kind])));
  }
  return out;
}

/** Draws the times at which failures happened. */
function drawFailures(timeline, scale, height) {
  return timeline.failures.filter((failure) => failure.at !== undefined).map((failure) =>
    svg("g", { class: "failure-line" },
      svg("title", {}, `failed at ${seconds(failure.at)}: ${failure.message}`),
      svg("line", { x1: xOf(scale, failure.at, true), x2: xOf(scale, failure.at, true), y1: AXIS, y2: height })));
}

/** Returns the drawing: { node, scale, marks }. `state` has selection, range and handlers. */
function drawTimeline(timeline, state, available) {
  const marks = marksOf(timeline, state.isShown);
  const scale = layout(timeline, marks, available);
  const rows = stepRows(timeline, scale);
  const top = AXIS + 6 + rows.length * STEP;
  const height = top + timeline.lanes.length * LANE + 16;
  const places = new Map();
  for (const mark of marks) {
    mark.y = top + mark.lane * LANE + LANE / 2;
    mark.events.forEach((position) => places.set(position, mark));
  }
  const size = { viewBox: "0 0 6 6", refX: 5, refY: 3, markerWidth: 6, markerHeight: 6, orient: "auto" };
  const head = svg("marker", { id: "head", ...size }, svg("path", { class: "head", d: "M0 0 6 3 0 6Z" }));
  const line = (name, x1, x2, y) => svg("line", { class: name, x1, x2, y1: y, y2: y });
  const lanes = timeline.lanes.map((lane, index) => line("lane", 0, scale.width, top + index * LANE + LANE / 2));
  const replied = (mark) => timeline.events[mark.events[0]].replied;
  const late = marks.filter(replied).map((mark) => line("late", mark.x, xOf(scale, replied(mark), false), mark.y));
  const arrows = svg("g", { class: "arrows" }, drawArrows(timeline, places, state.near));
  const box = { width: scale.width, height, viewBox: `0 0 ${scale.width} ${height}` };
  const node = svg("svg", { class: "timeline", ...box, role: "group", "aria-label": `Timeline of ${timeline.id}` },
    svg("defs", {}, head), svg("rect", { class: "hit", x: 0, y: 0, width: scale.width, height }),
    drawBands(timeline, scale, top, height), drawAxis(scale, height), lanes,
    svg("g", { class: "steps" }, drawSteps(rows, state.onStep)),
    drawFailures(timeline, scale, height), late, arrows, drawMarks(timeline, marks, state));
  return { node, scale, marks, places, top, height, arrows };
}

/** Draws the marks. One of them is in the tab order; arrow keys move between them. */
function drawMarks(timeline, marks, state) {
  return svg("g", { class: "marks" }, marks.map((mark, index) => {
    const fate = `${mark.failed ? " failed" : ""}${mark.broke ? " broke" : ""}`;
    mark.node = svg("g", { class: `mark ${mark.kind}${fate}`, role: "button",
      tabindex: index === 0 ? 0 : -1, transform: `translate(${mark.x} ${mark.y})`,
      "aria-label": markText(timeline, mark), onclick: () => state.onMark(mark),
      onkeydown: (key) => state.onKey(key, mark, index) },
      svg("title", {}, markText(timeline, mark)), svg("circle", { class: "ring", r: 9 }), shape(mark),
      mark.events.length > 1 && svg("text", { class: "count", y: -10 }, `×${mark.events.length}`));
    return mark.node;
  }));
}
