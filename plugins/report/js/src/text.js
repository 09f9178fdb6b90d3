// Texts of models and files. They are hostile: they only ever become text nodes, and characters that change the
// direction or the look of a text are shown as marks.
import { html } from "htm/preact";

// Controls but tab and newline, invisible and bidirectional formatting characters, lone surrogates.
const UNSEEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]|\udb40[\udc00-\udc7f]/g;

const markOf = (found) => `U+${found.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;

/** Return the text with marks, as plain text for attributes and the title. */
export const plain = (text) => String(text).replace(UNSEEN, (found) => `\u27e8${markOf(found)}\u27e9`);

/** Return the text as nodes, with marks. */
export function Marked({ text }) {
  const nodes = [];
  let end = 0;
  const given = String(text ?? "");
  for (const found of given.matchAll(UNSEEN)) {
    if (found.index > end) nodes.push(given.slice(end, found.index));
    nodes.push(html`<span class="unseen">${`\u27e8${markOf(found[0])}\u27e9`}</span>`);
    end = found.index + found[0].length;
  }
  if (end < given.length) nodes.push(given.slice(end));
  return nodes;
}

const LONG = 20000;

/** Return the beginning of a long text, with a button for the rest. */
export function cut(text, all, most = LONG) {
  if (all || text.length <= most) return { shown: text, left: 0 };
  const end = /[\ud800-\udbff]/.test(text[most - 1]) ? most - 1 : most;
  return { shown: text.slice(0, end), left: text.length - end };
}

/** Split a text at its excerpts, which are given in code points: [{ text, excerpts: [excerpt, ...] }, ...]. */
export function splitAt(text, excerpts) {
  const places = new Set([0, text.length]);
  const spans = [];
  for (const excerpt of excerpts) {
    const span = placeOf(text, excerpt);
    if (span) {
      spans.push({ excerpt, ...span });
      places.add(span.start).add(span.end);
    }
  }
  const ordered = [...places].sort((a, b) => a - b);
  const parts = [];
  for (let at = 0; at + 1 < ordered.length; at += 1) {
    const [start, end] = [ordered[at], ordered[at + 1]];
    const covering = spans.filter((span) => span.start <= start && span.end >= end).map((span) => span.excerpt);
    parts.push({ text: text.slice(start, end), excerpts: covering });
  }
  return parts;
}

function placeOf(text, { start, end, text: words }) {
  if (Number.isInteger(start) && Number.isInteger(end) && end > start) {
    const from = unitsOf(text, start);
    const to = from + unitsOf(text.slice(from), end - start);
    if (from < text.length) return { start: from, end: Math.min(to, text.length) };
  }
  const found = words ? text.indexOf(words) : -1;
  return found < 0 ? null : { start: found, end: found + words.length };
}

/** Return the number of UTF-16 units of the first code points of a text. A lone surrogate is one code point. */
function unitsOf(text, points) {
  let at = 0;
  for (let count = 0; count < points && at < text.length; count += 1) at += text.codePointAt(at) > 0xffff ? 2 : 1;
  return at;
}
