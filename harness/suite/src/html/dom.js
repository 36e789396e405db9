// Creates elements. All texts are inserted as text, never as markup.

const SVG_NAMESPACE = "http://www.w3.org/2000/svg";

/** Sets attributes and listeners (`onclick: …`), and appends children; null and false are left out. */
function furnish(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(3)) {
    if (child !== null && child !== undefined && child !== false) node.append(child);
  }
  return node;
}

/** Creates an HTML element. */
function el(name, attributes, ...children) {
  return furnish(document.createElement(name), attributes, children);
}

/** Creates an SVG element. */
function svg(name, attributes, ...children) {
  return furnish(document.createElementNS(SVG_NAMESPACE, name), attributes, children);
}

/** Creates a button that looks like a link. */
function linkButton(text, onclick) {
  return el("button", { type: "button", class: "link", onclick }, text);
}

/** Creates the head of a table. */
function tableHead(names) {
  return el("thead", {}, el("tr", {}, names.map((name) => el("th", { scope: "col" }, name))));
}

/** Formats milliseconds as in transcripts: `40s`, `39.999s`. */
function seconds(millis) {
  return `${Number((millis / 1000).toFixed(3))}s`;
}

/** Cuts a text to `length` characters. */
function shortened(text, length) {
  return text.length <= length ? text : length < 3 ? "" : `${text.slice(0, length - 1)}…`;
}
