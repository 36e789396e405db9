// The view of a fixture: header, timeline, events, details, steps, source.

/** Kinds of event that a switch shows or hides. */
const SWITCHES = [
  ["writes", ["write", "change", "note"], true],
  ["watch events", ["delivery"], true],
  ["reads", ["read", "watch"], false],
];

/** A fixture's view: its state and its parts. */
class FixtureView {
  constructor(timeline, source, holder, title) {
    Object.assign(this, { timeline, source, holder, title });
    this.kinds = new Set(SWITCHES.filter(([, , isOn]) => isOn).flatMap(([, kinds]) => kinds));
    this.range = null;
    this.selected = null;
    this.words = [];
    this.state = {
      isShown: (event) => this.kinds.has(event.kind) || (event.kind === "read" && Boolean(event.failed)),
      near: new Set(),
      onMark: (mark) => this.select(mark.events[0], mark),
      onKey: (key, mark, index) => this.key(key, mark, index),
      onStep: (step) => this.setRange([step.from, step.to]),
    };
  }

  /** Builds the view. */
  build() {
    this.labels = el("div", { class: "labels", "aria-hidden": "true" });
    this.scroller = el("div", { class: "scroller" });
    this.table = el("tbody", {});
    this.count = el("p", { class: "soft events-shown", "aria-live": "polite" });
    this.details = el("aside", { class: "details", "aria-live": "polite", "aria-label": "Details" },
      el("p", { class: "soft" }, "Select a mark or an event: request, reply and changes appear here."));
    this.holder.replaceChildren();
    furnish(this.holder, {}, [this.title || header(this.timeline), failureList(this.timeline),
      acceptedDiff(this.timeline), this.controls(),
      el("div", { class: "chart" }, this.labels, this.scroller), legend(),
      el("div", { class: "columns" },
        el("section", { class: "events" }, this.count,
          el("div", { class: "scroll" }, el("table", {}, tableHead(["Time", "Actor", "Event"]), this.table))),
        this.details),
      stepList(this.timeline, this), sourceList(this.timeline, this.source), logList(this.timeline)]);
    this.redraw();
  }

  controls() {
    const toggle = ([name, kinds, isOn]) => {
      const onchange = (event) => this.toggle(kinds, event.target.checked);
      const box = el("input", { type: "checkbox", checked: isOn, name, onchange });
      return el("label", { class: "inline" }, box, ` ${name}`);
    };
    const bound = (name, label) => {
      const onchange = () => this.readRange();
      const input = el("input", { type: "number", min: 0, step: "any", class: `time ${name}`, onchange });
      return el("label", {}, `${label} `, input, " s");
    };
    const oninput = (event) => {
      this.words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
      this.list();
    };
    this.clear = el("button", { type: "button", hidden: true, onclick: () => this.setRange(null) }, "Whole run");
    return el("form", { class: "controls", onsubmit: (event) => event.preventDefault() },
      el("label", {}, "Events ", el("input", { type: "search", placeholder: "words", autocomplete: "off", oninput })),
      SWITCHES.map(toggle), bound("from", "From"), bound("to", "to"), this.clear);
  }

  toggle(kinds, isOn) {
    for (const kind of kinds) isOn ? this.kinds.add(kind) : this.kinds.delete(kind);
    this.redraw();
  }

  /** Draws the timeline and the list again. */
  redraw() {
    const available = Math.max(200, this.scroller.clientWidth || this.holder.clientWidth - 130);
    this.drawing = drawTimeline(this.timeline, this.state, available);
    this.brush = svg("rect", { class: "brush", y: 0, height: this.drawing.height, hidden: true });
    this.drawing.node.querySelector(".steps").before(this.brush);
    this.scroller.replaceChildren(this.drawing.node);
    this.labels.replaceChildren(el("div", { class: "label" }, "checks"), ...this.timeline.lanes.map((lane) =>
      el("div", { class: `label ${lane.kind}` }, lane.kind === "server" ? "API server" : lane.name)));
    this.labels.firstChild.style.height = `${this.drawing.top}px`;
    enableBrush(this);
    this.mark();
    this.list();
  }

  isInRange(time) {
    return !this.range || (time >= this.range[0] && time <= this.range[1]);
  }

  /** Sets the selected range, or none. */
  setRange(range) {
    this.range = range;
    for (const [name, index] of [["from", 0], ["to", 1]]) {
      this.holder.querySelector(`.time.${name}`).value = range ? Number((range[index] / 1000).toFixed(3)) : "";
    }
    this.clear.hidden = !range;
    this.mark();
    this.list();
  }

  readRange() {
    const read = (name, usual) => {
      const value = this.holder.querySelector(`.time.${name}`).value;
      return value === "" ? usual : Number(value) * 1000;
    };
    const range = [read("from", 0), read("to", this.timeline.end)];
    this.setRange(range[0] <= 0 && range[1] >= this.timeline.end ? null : range);
  }

  /** Shows selection and range in the drawing. */
  mark() {
    const { scale, marks, arrows, places } = this.drawing;
    if (this.range) {
      const from = xOf(scale, this.range[0], false);
      this.brush.setAttribute("x", from);
      this.brush.setAttribute("width", Math.max(2, xOf(scale, this.range[1], true) - from));
    }
    this.brush.toggleAttribute("hidden", !this.range);
    for (const mark of marks) {
      mark.node.classList.toggle("outside", !this.isInRange(mark.at));
      const isSelected = this.selected !== null && mark.events.includes(this.selected);
      mark.node.classList.toggle("selected", isSelected);
      mark.node.setAttribute("aria-pressed", String(isSelected));
    }
    arrows.replaceChildren(...drawArrows(this.timeline, places, this.state.near));
    for (const row of this.holder.querySelectorAll("tr[data-from]")) {
      const { from, to } = row.dataset;
      row.hidden = Boolean(this.range) && (Number(to) < this.range[0] || Number(from) > this.range[1]);
    }
  }

  /** Lists the events. */
  list() {
    const rows = [];
    this.timeline.events.forEach((event, position) => {
      if (!this.state.isShown(event) || !this.isInRange(event.at)) return;
      const lane = this.timeline.lanes[event.lane].name;
      const text = [lane, event.verb, event.object, event.tail, ...(event.details || [])].join(" ").toLowerCase();
      if (this.words.every((word) => text.includes(word))) rows.push(this.row(event, position, lane));
    });
    this.table.replaceChildren(...rows);
    const { events, total } = this.timeline;
    const cut = total > events.length ? ` of ${total}; the middle of the run is left out` : "";
    const bare = this.timeline.withoutObjects;
    const objects = bare ? ` The objects of ${bare} changes and requests are left out.` : "";
    this.count.textContent = `Showing ${rows.length} of ${events.length} events${cut}.${objects}`;
  }

  row(event, position, lane) {
    const open = linkButton([event.verb, event.object].filter(Boolean).join(" "), () => this.select(position));
    const kind = position === this.selected ? "selected" : event.broke ? "failed" : event.failed ? "refused" : "";
    return el("tr", { "data-position": position, class: kind },
      el("td", { class: "number" }, seconds(event.at)), el("td", {}, lane),
      el("td", {}, open, " ", event.tail, event.replied && ` answered at ${seconds(event.replied)}`,
        (event.details || []).map((line) => el("small", {}, line))));
  }

  /** Selects an event. */
  select(position, mark) {
    this.selected = position;
    const event = this.timeline.events[position];
    const group = mark || this.drawing.places.get(position);
    this.state.near = new Set(group ? group.events : [position]);
    this.details.replaceChildren(...eventDetails(this, event, group && group.events.length > 1 ? group : null));
    this.mark();
    for (const row of this.table.children) row.classList.toggle("selected", Number(row.dataset.position) === position);
    if (group) this.reveal(group);
    window.history.replaceState(null, "", `#${encodeURI(this.timeline.id)}@${seconds(event.at)}`);
  }

  /** Scrolls a mark into view. */
  reveal(mark) {
    const { scrollLeft, clientWidth } = this.scroller;
    const isVisible = mark.x >= scrollLeft + 20 && mark.x <= scrollLeft + clientWidth - 20;
    if (!isVisible) this.scroller.scrollLeft = mark.x - clientWidth / 2;
    for (const other of this.drawing.marks) other.node.setAttribute("tabindex", other === mark ? 0 : -1);
  }

  /** Moves between marks: left and right in time, up and down to the next lane. */
  key(event, mark, index) {
    const { marks } = this.drawing;
    const vertical = (step) => {
      const lanes = [...new Set(marks.map((one) => one.lane))].sort((a, b) => a - b);
      const lane = lanes[lanes.indexOf(mark.lane) + step];
      const there = marks.filter((one) => one.lane === lane);
      return there.sort((a, b) => Math.abs(a.x - mark.x) - Math.abs(b.x - mark.x))[0];
    };
    const targets = {
      ArrowRight: () => marks[index + 1],
      ArrowLeft: () => marks[index - 1],
      ArrowDown: () => vertical(1),
      ArrowUp: () => vertical(-1),
      Home: () => marks[0],
      End: () => marks[marks.length - 1],
    };
    if (event.key === "Enter" || event.key === " ") this.state.onMark(mark);
    else if (event.key === "Escape") this.setRange(null);
    else if (targets[event.key]) {
      const next = targets[event.key]();
      if (event.shiftKey && next) this.setRange([mark.at, next.at].sort((a, b) => a - b));
      if (next) this.reveal(next), next.node.focus();
    } else return;
    event.preventDefault();
  }

  /** Selects the event at a time: a failed one or a controller's write, if there is one. */
  selectAt(time) {
    const all = this.timeline.events.map((event, position) => ({ event, position }));
    const events = all.filter(({ event }) => this.state.isShown(event));
    const distance = Math.min(...events.map(({ event }) => Math.abs(event.at - time)));
    const there = events.filter(({ event }) => Math.abs(event.at - time) === distance);
    const isWrite = ({ event }) => event.kind === "write" && this.timeline.lanes[event.lane].kind === "controller";
    const best = there.find(isWrite) || there.find(({ event }) => event.kind === "write") || there[0];
    if (best) this.select(best.position);
  }
}

/** Lets a range be selected by dragging over the drawing's empty parts. */
function enableBrush(view) {
  const { node, scale } = view.drawing;
  let begin = null;
  const at = (event) => event.clientX - node.getBoundingClientRect().left;
  node.addEventListener("pointerdown", (event) => {
    if (event.target.closest(".mark, .step")) return;
    begin = at(event);
    node.setPointerCapture(event.pointerId);
  });
  node.addEventListener("pointermove", (event) => {
    if (begin === null || Math.abs(at(event) - begin) < 4) return;
    view.setRange([begin, at(event)].sort((a, b) => a - b).map((x) => Math.round(timeAt(scale, x))));
  });
  node.addEventListener("pointerup", (event) => {
    if (begin !== null && Math.abs(at(event) - begin) < 4) view.setRange(null);
    begin = null;
  });
}
