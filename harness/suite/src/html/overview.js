// The overview: filter and grouping of the fixtures.

/** Returns the fixtures' rows, which move between groups. */
function allRows() {
  return [...document.querySelectorAll("#groups tr[data-suite]")];
}

/** Returns a row's searchable text. */
function rowText(row) {
  const { suite, level, feature, outcome, rule } = row.dataset;
  return [row.cells[0].textContent, suite, level, feature, outcome, rule].join(" ").toLowerCase();
}

/** Returns the number of rows by outcome: `44 passed, 1 failed`. */
function tallyOf(rows) {
  const counts = new Map();
  for (const row of rows) counts.set(row.dataset.outcome, (counts.get(row.dataset.outcome) || 0) + 1);
  return [...counts].map(([outcome, count]) => `${count} ${outcome}`).join(", ");
}

class Overview {
  constructor() {
    this.rows = allRows();
    this.texts = new Map(this.rows.map((row) => [row, rowText(row)]));
    this.suites = [...document.getElementById("groups").children];
    this.form = document.getElementById("controls");
    this.form.addEventListener("submit", (event) => event.preventDefault());
    const regroups = (event) => ["grouping", "order"].includes(event.target.id);
    this.form.addEventListener("input", (event) => (regroups(event) ? this.group() : this.filter()));
  }

  isShown(row) {
    const { filter, outcome, level } = this.form.elements;
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    return (!outcome.value || row.dataset.outcome === outcome.value)
      && (!level.value || row.dataset.level === level.value)
      && words.every((word) => this.texts.get(row).includes(word));
  }

  /** Hides what the filter leaves out. Groups with few shown fixtures open. */
  filter() {
    const shown = new Set(this.rows.filter((row) => this.isShown(row)));
    const isFiltered = shown.size < this.rows.length;
    for (const group of document.getElementById("groups").children) {
      const rows = [...group.querySelectorAll("tbody tr")];
      rows.forEach((row) => { row.hidden = !shown.has(row.original || row); });
      const rest = rows.filter((row) => !row.hidden);
      group.hidden = !rest.length;
      group.querySelector(".count").textContent = tallyOf(rest);
      if (isFiltered) group.open = rest.length <= 60;
    }
    document.getElementById("shown").textContent = `Showing ${shown.size} of ${this.rows.length} fixtures.`;
  }

  /** Sorts rows: as they were (failed ones first), by id, or the slowest first. */
  sorted(rows) {
    const order = this.form.elements.order.value;
    const id = (row) => row.querySelector("a").textContent;
    if (order === "id") return [...rows].sort((a, b) => id(a).localeCompare(id(b), "en", { numeric: true }));
    return order === "time" ? [...rows].sort((a, b) => b.dataset.time - a.dataset.time) : rows;
  }

  /** Groups the rows by the chosen field. A fixture with several rules is in several groups. */
  group() {
    const field = this.form.elements.grouping.value;
    const holder = document.getElementById("groups");
    const groups = new Map();
    for (const row of this.rows) {
      const names = row.dataset[field].split(field === "rule" ? " " : "\n");
      for (const name of names) groups.set(name, [...(groups.get(name) || []), row]);
    }
    const names = [...groups.keys()].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    const head = this.suites[0].querySelector("thead");
    const used = new Set();
    const body = (rows) => el("tbody", {}, this.sorted(rows).map((row) => {
      if (!used.has(row)) return used.add(row), row;
      const copy = row.cloneNode(true);
      copy.original = row;
      return copy;
    }));
    const made = names.map((name) => el("details", { class: "group" },
      el("summary", {}, el("strong", {}, name), " ", el("span", { class: "count" })),
      el("div", { class: "scroll" }, el("table", {}, head.cloneNode(true), body(groups.get(name))))));
    holder.replaceChildren(...made);
    this.filter();
  }
}
