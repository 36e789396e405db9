// Reads the timelines: inflates their block, and restores the versions of objects.

const FORMAT = "plumbline-html/v1";
const blocks = new Map();

/** Returns the block of each fixture, by id. */
function readIndex() {
  const index = JSON.parse(document.getElementById("index").textContent);
  if (index.format !== FORMAT) throw new Error(`the data has format ${index.format}, expected ${FORMAT}`);
  return new Map(Object.entries(index.blocks));
}

/** Decodes base64. */
function bytesOf(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
  return bytes;
}

/** Inflates a block. */
async function inflate(bytes) {
  if (typeof DecompressionStream === "undefined") throw new Error("this browser has no DecompressionStream");
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

/** Returns the timeline of a fixture and the text of its file. */
async function loadTimeline(id, block) {
  if (!blocks.has(block)) blocks.set(block, inflate(bytesOf(document.getElementById(`block-${block}`).textContent)));
  const content = await blocks.get(block);
  const timeline = content.timelines.find((one) => one.id === id);
  for (const one of timeline.runs || [timeline]) if (one && !one.restored) restore(one);
  return { timeline, source: content.sources[timeline.file] || "" };
}

/** Applies a JSON merge patch (RFC 7386) to a copy of `target`. */
function patched(target, patch) {
  if (patch === null || typeof patch !== "object" || Array.isArray(patch)) return patch;
  const out = target !== null && typeof target === "object" && !Array.isArray(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete out[key];
    else out[key] = patched(out[key], value);
  }
  return out;
}

/** Adds the objects before and after each change, and the causes and effects of each event. */
function restore(timeline) {
  const latest = new Map();
  for (const event of timeline.events) {
    event.causes = [];
    event.effects = [];
    for (const change of event.changes || []) {
      if (change.chained) change.before = latest.get(change.object);
      if (change.patch !== undefined) change.after = patched(change.before, change.patch);
      latest.set(change.object, change.after);
    }
  }
  for (const arrow of timeline.arrows) {
    timeline.events[arrow.from].effects.push({ at: arrow.to, kind: arrow.kind });
    timeline.events[arrow.to].causes.push({ at: arrow.from, kind: arrow.kind });
  }
  timeline.restored = true;
}
