// Labels of people, given beside the items and saved as a file that `karenina label --from` reads.
import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { quantity } from "./format.js";
import { saveAs } from "./plots.js";

const KINDS = [
  ["Right", true],
  ["Not right", false],
  ["Unclear", null],
];

/** Return what this browser stores under a name; nothing where it stores nothing. */
function stored(place) {
  try {
    return JSON.parse(localStorage.getItem(place)) ?? {};
  } catch {
    return {};
  }
}

function store(place, value) {
  try {
    localStorage.setItem(place, JSON.stringify(value));
  } catch {
    // The labels stay on the page until it is closed, which LabelFile says.
  }
}

/** The labels by the ids of answers. Drafts stay in the browser until they are saved as a file. */
export function useLabels(head) {
  const place = `karenina-report-labels-${head.created}-${head.index.id.length}-${head.index.id[0] ?? ""}`;
  const [given, setGiven] = useState(() => stored(place));
  const set = ({ answer_id: id, truth_id: truth }, right) =>
    setGiven(({ [id]: before, ...others }) => {
      const labels = before && before.right === right ? others : { ...others, [id]: { right, truth, time: new Date().toISOString().replace(/\.\d+Z$/, "+00:00") } };
      store(place, labels); // at once: an effect would lose the last label of a page that is closed before it is painted
      return labels;
    });
  return { given, set };
}

export function Label({ item, labels }) {
  const id = item.answer_id;
  if (!id) return null;
  const own = Object.hasOwn(labels.given, id) ? labels.given[id] : null;
  return html`<div class="label" role="group" aria-label="Your label" data-test="label">
    <span>Is the answer right?</span>
    ${KINDS.map(
      ([name, right]) =>
        html`<button type="button" aria-pressed=${own !== null && own.right === right} onClick=${() => labels.set(item, right)}>${name}</button>`,
    )}
  </div>`;
}

export function LabelFile({ labels }) {
  const [name, setName] = useState("");
  const all = Object.entries(labels.given);
  if (!all.length) return null;
  const save = (event) => {
    event.preventDefault();
    const labeller = name.trim();
    const lines = all.map(([item, { right, time, truth }]) =>
      JSON.stringify({ label: { item, labeller, time, right, extractions: [], blind: false, note: "", truth } }),
    );
    const page = decodeURIComponent(location.pathname.split("/").pop()).replace(/\.html?$/i, "") || "report";
    saveAs(`${page}.labels-${labeller.replace(/[^\w-]+/g, "_") || "me"}.jsonl`, `${lines.join("\n")}\n`, "application/x-ndjson");
  };
  return html`<form class="filters labels" data-test="label-file" onSubmit=${save}>
    <label>Labelled by <input type="text" required data-test="labeller" value=${name} onInput=${(event) => setName(event.target.value)} /></label>
    <button type="submit" data-test="save-labels">Save ${quantity(all.length, "label")}</button>
    <p class="note">Drafts stay in this browser. <code>karenina label RESULTS --from FILE</code> reads the saved file; it says that verdicts were shown, which sway people.</p>
  </form>`;
}
