// Two transcripts side by side: equal lines are folded, the first difference is marked.

/** Number of equal lines shown around a difference. */
const CONTEXT = 3;

/** Renders lines { rows: { same, a, b }, before, total } as a table with two columns. */
function alignedTable({ rows, before, total }, names) {
  const near = rows.map((_, at) => rows.slice(Math.max(0, at - CONTEXT), at + CONTEXT + 1).some((row) => !row.same));
  const first = rows.findIndex((row) => !row.same);
  const body = el("tbody", {});
  for (let at = 0; at < rows.length;) {
    if (near[at]) {
      body.append(alignedRow(rows[at], at === first));
      at += 1;
      continue;
    }
    let end = at;
    while (end < rows.length && !near[end]) end += 1;
    body.append(foldedRow(rows.slice(at, end)));
    at = end;
  }
  const cut = total > before + rows.length || before > 0;
  return [cut && el("p", { class: "note" }, `Showing ${rows.length} of ${total} lines, from line ${before + 1} on.`),
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Transcripts side by side" },
      el("table", { class: "aligned" }, tableHead(names), body))];
}

/** A pair of lines. */
function alignedRow(row, isFirst) {
  const kind = row.same ? "same" : row.a === null ? "only-b" : row.b === null ? "only-a" : "differs";
  return el("tr", { class: `${kind}${isFirst ? " first" : ""}`, title: isFirst ? "first difference" : null },
    el("td", {}, row.a || ""), el("td", {}, row.b || ""));
}

/** A row for equal lines, which opens on request. */
function foldedRow(rows) {
  const row = el("tr", { class: "folded-rows" });
  const open = () => row.replaceWith(...rows.map((one) => alignedRow(one, false)));
  const text = rows.length === 1 ? "1 equal line" : `${rows.length} equal lines`;
  return furnish(row, {}, [el("td", { colspan: 2 }, linkButton(text, open))]);
}

/** The difference between a failed run and its accepted snapshot, if there is one. */
function acceptedDiff(timeline) {
  if (!timeline.accepted) return null;
  return el("details", { class: "accepted" }, el("summary", {}, "Compared with the accepted snapshot"),
    alignedTable(timeline.accepted, ["accepted snapshot", "this run"]));
}

/** A fixture of two subjects: transcripts side by side, then both timelines. */
class PairView {
  constructor(pair, source, holder) {
    Object.assign(this, { pair, source, holder });
  }

  build() {
    const { pair } = this;
    const holders = pair.names.map(() => el("section", { class: "side" }));
    this.holder.replaceChildren();
    furnish(this.holder, {}, [
      el("header", {}, wayBack(), el("h1", {}, pair.id), el("p", {}, pair.promise)),
      pair.lines.total ? [el("h2", {}, "Transcripts"), alignedTable(pair.lines, pair.names)]
        : el("p", {}, "The transcripts are equal; the outcomes differ."), holders]);
    this.views = pair.runs.map((timeline, side) => {
      const outcome = timeline ? timeline.outcome && badge(timeline.outcome) : pair.absent;
      const title = el("h2", {}, `${pair.names[side]} `, outcome);
      if (!timeline) {
        holders[side].append(title);
        return null;
      }
      const view = new FixtureView(timeline, this.source, holders[side], title);
      view.build();
      return view;
    }).filter(Boolean);
  }

  redraw() {
    this.views.forEach((view) => view.redraw());
  }

  selectAt(time) {
    this.views.forEach((view) => view.selectAt(time));
  }
}
