// Shows the difference of two objects as lines, in the manner of YAML.

/** Fields by which items of a list are the same, if all items have one of them. */
const MERGE_KEYS = ["type", "name", "key", "uid"];

function isObject(value) {
  return value !== null && typeof value === "object";
}

/** Formats a scalar. */
function scalar(value) {
  if (typeof value !== "string") return JSON.stringify(value);
  const isPlain = /^[\w./@=+[\]-][\w ./:@=+[\]-]*$/.test(value) && !/: |^[\d.]+$|^(true|false|null)$/i.test(value);
  return isPlain ? value : JSON.stringify(value);
}

/** Returns pairs [label, before, after] of the fields of objects or the items of lists. */
function pairs(before, after) {
  if (!Array.isArray(before) && !Array.isArray(after)) {
    const keys = [...new Set([...Object.keys(before || {}), ...Object.keys(after || {})])];
    return keys.map((key) => [`${key}:`, (before || {})[key], (after || {})[key]]);
  }
  const [a, b] = [before || [], after || []];
  const key = MERGE_KEYS.find((name) => [...a, ...b].every((item) => isObject(item) && typeof item[name] === "string"));
  if (!key) return Array.from({ length: Math.max(a.length, b.length) }, (_, at) => ["-", a[at], b[at]]);
  const names = [...new Set([...a, ...b].map((item) => item[key]))];
  const find = (items, name) => items.find((item) => item[key] === name);
  return names.map((name) => ["-", find(a, name), find(b, name)]);
}

/** Appends lines { sign, text, changed } for a value that was `before` and is `after`. */
function diffLines(label, before, after, depth, out) {
  const indent = "  ".repeat(depth);
  const sign = before === undefined ? "+" : after === undefined ? "-" : " ";
  if (isObject(before) || isObject(after)) {
    const alike = isObject(before) && isObject(after) && Array.isArray(before) === Array.isArray(after);
    const compatible = sign !== " " || alike;
    if (compatible) {
      const line = { sign, text: `${indent}${label}`, changed: sign !== " " };
      out.push(line);
      const inner = [];
      for (const [name, a, b] of pairs(before, after)) diffLines(name, a, b, depth + 1, inner);
      if (!inner.length) line.text += Array.isArray(after === undefined ? before : after) ? " []" : " {}";
      line.changed ||= inner.some((one) => one.changed);
      out.push(...inner);
      return;
    }
    diffLines(label, before, undefined, depth, out);
    diffLines(label, undefined, after, depth, out);
    return;
  }
  if (isNoise(label, before, after)) {
    out.push({ sign, text: `${indent}${label} ${scalar(after)}`, changed: false });
    return;
  }
  if (sign === " " && before !== after) {
    out.push({ sign: "-", text: `${indent}${label} ${scalar(before)}`, changed: true });
    out.push({ sign: "+", text: `${indent}${label} ${scalar(after)}`, changed: true });
    return;
  }
  out.push({ sign, text: `${indent}${label} ${scalar(sign === "-" ? before : after)}`, changed: sign !== " " });
}

/** Returns true for a field that changes with every write and says nothing. */
function isNoise(label, before, after) {
  return label === "resourceVersion:" && before !== undefined && after !== undefined;
}

/** Returns the lines of a whole object. */
function objectDiff(before, after) {
  const out = [];
  for (const [name, a, b] of pairs(before, after)) diffLines(name, a, b, 0, out);
  return out;
}

/** Renders lines; without `whole`, only the changed ones and their parents. */
function renderDiff(lines, whole) {
  const shown = lines.filter((line) => whole || line.changed);
  const classes = { "+": "added", "-": "removed", " ": "same" };
  const pre = el("pre", { class: "diff", tabindex: 0 }, shown.map((line) =>
    el("span", { class: classes[line.sign] }, `${line.sign} ${line.text}\n`)));
  if (!shown.length) pre.append(el("span", { class: "same" }, "  nothing but the resource version changed\n"));
  return pre;
}

/** Renders a change of an object, with a switch between the differences and the whole object. */
function renderChange(change) {
  const lines = objectDiff(change.before, change.after);
  const both = change.before !== undefined && change.after !== undefined;
  const word = change.before === undefined ? "created" : change.after === undefined ? "removed" : "changed";
  const holder = el("div", {}, renderDiff(lines, !both));
  const show = (event) => holder.replaceChildren(renderDiff(lines, event.target.checked));
  const toggle = el("label", { class: "inline" }, el("input", { type: "checkbox", onchange: show }), " whole object");
  return el("section", { class: "change" },
    el("h4", {}, `${change.object} ${word} `, both && toggle), holder);
}
