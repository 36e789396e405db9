// Starts the page: the anchor selects the overview, or a fixture and a time (`#podgc/orphaned@60s`).

const index = readIndex();
const overview = document.getElementById("controls") ? new Overview() : null;
let shownId = null;

/** Reads the anchor: { id, time }. */
function readAnchor() {
  let text = location.hash.slice(1);
  try {
    text = decodeURIComponent(text);
  } catch {
    // It is not percent-encoded.
  }
  const found = /^(.*)@([\d.]+)s$/.exec(text);
  return found ? { id: found[1], time: Number(found[2]) * 1000 } : { id: text, time: null };
}

/** Shows the overview or a fixture. */
function show(fixture) {
  document.getElementById("overview").hidden = fixture;
  document.getElementById("fixture").hidden = !fixture;
  window.scrollTo(0, 0);
}

/** Shows a fixture. */
async function openFixture(id, time) {
  const holder = document.getElementById("fixture");
  if (shownId !== id) {
    shownId = id;
    holder.replaceChildren(el("p", {}, "Reading …"));
    show(true);
    try {
      const { timeline, source } = await loadTimeline(id, index.get(id));
      if (shownId !== id) return;
      const View = timeline.runs ? PairView : FixtureView;
      window.view = new View(timeline, source, holder);
      window.view.build();
    } catch (error) {
      holder.replaceChildren(wayBack(),
        el("p", { class: "note" }, `The timeline cannot be shown: ${error.message}`));
      return;
    }
  }
  show(true);
  document.title = id;
  holder.focus({ preventScroll: true });
  if (time !== null) window.view.selectAt(time);
}

/** Follows the anchor. A report of one fixture opens it at once. */
function route() {
  const { id, time } = readAnchor();
  const only = index.size === 1 && !id ? [...index.keys()][0] : id;
  if (index.has(only)) return openFixture(only, time);
  document.title = document.querySelector("#overview h1").textContent;
  show(false);
  const note = document.getElementById("missing");
  if (note) note.remove();
  if (only && only !== "overview" && only.includes("/")) {
    const text = `${only} has no timeline in this report.`;
    document.querySelector("#overview h1").after(el("p", { class: "note", id: "missing" }, text));
  }
  return undefined;
}

let width = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.view && window.innerWidth !== width) window.view.redraw();
  width = window.innerWidth;
});
window.addEventListener("hashchange", route);
route();
