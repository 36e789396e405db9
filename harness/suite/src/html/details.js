// The parts of a fixture's view that only show something.

/** Style classes of outcomes. */
const OUTCOME_CLASSES = { passed: "pass", failed: "fail", flaky: "doubt", inconclusive: "doubt" };

/** The link to the overview. */
function wayBack() {
  return el("p", {}, el("a", { href: "#overview" }, "← overview"));
}

/** An outcome in a word. */
function badge(outcome) {
  return el("span", { class: `badge ${OUTCOME_CLASSES[outcome] || "none"}` }, outcome);
}

/** The header: the way back, promise, rules, outcome. */
function header(timeline) {
  const rules = timeline.rules.flatMap((rule) => [el("span", { class: "inline" }, rule), " "]);
  const facts = [timeline.reason, timeline.level, rules, timeline.file].filter((fact) => fact && fact.length);
  return el("header", {},
    wayBack(),
    el("h1", {}, timeline.id),
    el("p", {}, timeline.promise),
    el("p", { class: "soft" }, badge(timeline.outcome),
      facts.flatMap((fact, index) => [index ? " · " : " ", fact])),
    timeline.ruleLines && el("details", { class: "rules" }, el("summary", {}, "The rules in words"),
      el("ul", {}, timeline.ruleLines.map((line) => el("li", {}, line)))));
}

/** The failures. */
function failureList(timeline) {
  const { failures, failuresTotal } = timeline;
  const cut = failuresTotal > failures.length
    && el("p", { class: "note" }, `Showing ${failures.length} of ${failuresTotal} failures.`);
  return [cut, failures.map((failure) => el("div", { class: "failure" },
    el("p", { class: "broken" }, `✗ ${failure.message}`, failure.at !== undefined && ` at t=+${seconds(failure.at)}`,
      failure.line > 0 && ` (line ${failure.line})`),
    (failure.expected || failure.observed) && el("dl", { class: "gap" },
      el("dt", {}, "expected"), el("dd", {}, el("pre", {}, failure.expected)),
      el("dt", {}, "observed"), el("dd", {}, el("pre", {}, failure.observed)))))];
}

/** The legend of shapes and lines. */
function legend() {
  const picture = (width, height, viewBox, content) =>
    svg("svg", { width, height, viewBox, "aria-hidden": "true", class: "timeline" }, content);
  const sample = (kind, failed) => picture(18, 18, "-9 -9 18 18",
    svg("g", { class: `mark ${kind}${failed ? " failed" : ""}` }, shape({ kind, failed })));
  const line = (kind) => picture(28, 10, "0 0 28 10", svg("path", { class: `arrow ${kind} near`, d: "M0 5H28" }));
  return el("details", { class: "legend" }, el("summary", {}, "Legend and keys"),
    el("ul", {}, Object.entries(KIND_NAMES).map(([kind, name]) => el("li", {}, sample(kind, false), ` ${name}`)),
      el("li", {}, sample("write", true), " refused write"),
      el("li", {}, picture(18, 18, "-9 -9 18 18", svg("g", { class: "mark write broke" }, shape({ kind: "write" }))),
        " write that broke a check"),
      Object.entries(ARROW_NAMES).map(([kind, name]) => el("li", {}, line(kind), ` ${name}`))),
    el("p", {}, "The API server has recorded requests, replies, changes and watch events. Why a controller writes is ",
      "derived: arrows to writes name their evidence. ",
      "Events of one instant are side by side in their order; zigzag lines fold idle time; ",
      "more than five like events are one mark with their number."),
    el("p", {}, "Drag over the drawing to select a time range; a check selects its window. ",
      "← → ↑ ↓ move between marks, with Shift they select a range, Enter opens a mark, Esc shows the whole run."));
}

/** Links to causes or effects. */
function links(view, title, arrows) {
  if (!arrows.length) return null;
  const shown = arrows.slice(0, 20);
  const item = ({ at, kind }) => {
    const event = view.timeline.events[at];
    const text = `t=+${seconds(event.at)} ${view.timeline.lanes[event.lane].name} ${event.verb} ${event.object}`;
    return el("li", {}, linkButton(text, () => view.select(at)), el("small", {}, ARROW_NAMES[kind]));
  };
  return [el("h4", {}, title), el("ul", {}, shown.map(item)),
    arrows.length > shown.length && el("p", { class: "soft" }, `Showing ${shown.length} of ${arrows.length}.`)];
}

/** Request, reply and changes of an event. */
function eventDetails(view, event, group) {
  const lane = view.timeline.lanes[event.lane];
  const request = event.request;
  const late = event.replied ? ` at t=+${seconds(event.replied)}` : "";
  const reply = event.reply ? event.reply + late : request && event.kind !== "watch" ? "none" : null;
  const fact = (name, value) => value && [el("dt", {}, name), el("dd", {}, value)];
  const isTimer = event.kind === "write" && lane.kind === "controller" && !event.causes.length;
  return [
    el("h3", {}, [event.verb, event.object].filter(Boolean).join(" ")),
    group && groupList(view, group),
    el("dl", { class: "facts" }, fact("at", `t=+${seconds(event.at)}, ${lane.name}, ${KIND_NAMES[event.kind]}`),
      fact("request", request && el("code", {}, request.line)), fact("agent", request && request.agent),
      fact("in short", event.tail), fact("reply", reply), fact("fault", event.fault)),
    links(view, "Because of", event.causes),
    isTimer && el("p", { class: "soft" }, "No watch event reached it at this time: a timer or an earlier event."),
    links(view, "Led to", event.effects),
    (event.changes || []).map(renderChange),
    !(event.changes || []).length && (event.details || []).length > 0 && el("pre", {}, event.details.join("\n")),
    request && request.body !== undefined && el("details", {}, el("summary", {}, "Body of the request"),
      renderDiff(objectDiff(request.body, request.body), true)),
  ].flat(3).filter(Boolean);
}

/** The events of a mark that stands for several. */
function groupList(view, group) {
  const shown = group.events.slice(0, 50);
  const item = (at) => el("li", {}, linkButton(view.timeline.events[at].object, () => view.select(at, group)));
  return el("details", {}, el("summary", {}, `one of ${group.events.length} like events`),
    el("ul", {}, shown.map(item)),
    group.events.length > shown.length
      && el("p", { class: "soft" }, `Showing ${shown.length} of ${group.events.length}.`));
}

/** The steps with their verdicts. */
function stepList(timeline, view) {
  if (!timeline.steps.length) return null;
  const bounds = (step) => ({ "data-from": step.from, "data-to": step.to });
  const row = (step) => el("tr", { class: step.verdict === "fail" ? "failed" : "", ...bounds(step) },
    el("td", {}, { pass: "✓", fail: "✗ failed", "": "not judged" }[step.verdict]),
    el("td", { class: "number" }, linkButton(
      step.from === step.to ? seconds(step.from) : `${seconds(step.from)} – ${seconds(step.to)}`,
      () => view.setRange([step.from, step.to]))),
    el("td", {}, step.kind), el("td", {}, step.text || "see line"), el("td", { class: "number" }, step.line));
  return el("details", { open: timeline.failures.length > 0 }, el("summary", {}, `Steps (${timeline.steps.length})`),
    el("div", { class: "scroll" }, el("table", {},
      tableHead(["Verdict", "Time", "Kind", "Checks", "Line"]), el("tbody", {}, timeline.steps.map(row)))));
}

/** The fixture's file, with the lines that were not met. */
function sourceList(timeline, source) {
  if (!source) return null;
  const broken = new Set(timeline.failures.map((failure) => failure.line));
  return el("details", {}, el("summary", {}, timeline.file),
    el("pre", { class: "source", tabindex: 0 }, source.trimEnd().split("\n").map((line, index) =>
      el("span", { class: broken.has(index + 1) ? "removed" : "" }, `${String(index + 1).padStart(3)}  ${line}\n`))));
}

/** The subject's log. */
function logList(timeline) {
  if (!timeline.log.length) return null;
  const { log, logTotal } = timeline;
  const title = `Log of the subject (showing ${log.length} of ${logTotal} lines)`;
  return el("details", { open: log.length < 10 }, el("summary", {}, title), el("pre", { tabindex: 0 }, log.join("\n")));
}
