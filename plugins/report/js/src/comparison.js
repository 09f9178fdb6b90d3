// The comparison of runs: differences with intervals, and the questions that flipped.
import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { count, points, pEquals, pValue, quantity, share } from "./format.js";
import { Table } from "./table.js";
import { Marked } from "./text.js";
import { wordsOf } from "./outcomes.js";

const MOST = 20;

export function Comparison({ head, link }) {
  const { comparison } = head;
  return html`<div data-view="comparison">
    ${comparison.pairs.map((pair) => html`<${Pair} head=${head} pair=${pair} link=${link} several=${comparison.pairs.length > 1} />`)}
  </div>`;
}

const interval = ({ low, high }) => (low === null ? "no interval" : `95% CI ${points(low)} to ${points(high)}`);

function Pair({ head, pair, link, several }) {
  const run = (label) => head.comparison.runs.find((one) => one.label === label);
  const [a, b] = [run(pair.a), run(pair.b)];
  const main = pair.differences.find(({ metric }) => metric === "pass rate") ?? pair.differences[0];
  const flips = pair.changes.filter((change) => change.flipped);
  const others = pair.changes.filter((change) => !change.flipped);
  return html`<section class="pair">
    <h2><span class="letter">${pair.a}</span> <${Marked} text=${a.name} /> against <span class="letter">${pair.b}</span> <${Marked} text=${b.name} /></h2>
    ${main
      ? html`<p class="rate"><strong>${points(main.difference)}</strong><span>
          percentage points of ${main.metric}, ${pair.a} minus ${pair.b}: ${share(main.a)} against ${share(main.b)}; ${interval(main)};
          ${main.p_exact ? " exact" : ""} ${pEquals(main.p)}, over ${quantity(main.questions, "question")}</span
        ></p>`
      : html`<p>No question has a verdict in both runs.</p>`}
    ${[a, b].map(
      ({ label, summary: { groups } }) => groups.filter(({ pass_rate }) => pass_rate.undecided > 0).map(({ judge, pass_rate: rate }) =>
        html`<p class="note" data-test="if-undecided-wrong">
          All items of ${label}${groups.length > 1 && html`, judged by <${Marked} text=${judge} />`}: ${rate.value === null ? "no verdicts" : share(rate.value)}; ${share(rate.if_undecided_wrong)} if the
          ${" "}${count(rate.undecided)} undecided ${rate.undecided === 1 ? "is" : "are"} wrong.
        </p>`),
    )}
    ${several && html`<p class="note">Intervals are at 95% each; adjusted p values account for all pairs of runs.</p>`}
    ${main && html`<${Meaning} pair=${pair} main=${main} />`}
    ${pair.notes.map((note) => html`<p class="note"><${Marked} text=${note} /></p>`)}
    <h3>Flipped questions</h3>
    ${flips.length
      ? html`<p>
            ${quantity(flips.length, "question")}:${" "}
            ${main && html`${count(main.flipped.higher_in_a)} better in ${pair.a}, ${count(main.flipped.higher_in_b)} better in ${pair.b}.`}
          </p>
          <${Changes} changes=${flips} pair=${pair} link=${link} open=${flips.length <= 3} />`
      : html`<p>None: each question has the same verdict in both runs.</p>`}
    <h3>All differences</h3>
    <${Table}
      label="Differences"
      columns=${["Metric", pair.a, pair.b, "Difference", "Interval", "p", "Questions"].map((name) => ({ name, kind: "text" }))}
      rows=${pair.differences.map((one) => [
        one.metric,
        share(one.a),
        share(one.b),
        points(one.difference),
        one.low === null ? "none" : `${points(one.low)} to ${points(one.high)}`,
        pValue(one.p) + (one.p_adjusted === null ? "" : ` (adjusted ${pValue(one.p_adjusted)})`),
        count(one.questions),
      ])}
    />
    ${pair.groups.length > 0 &&
    html`<h3>By <${Marked} text=${head.comparison.by ?? "group"} /></h3>
      <${Table}
        label="Groups"
        columns=${["Group", "Questions", pair.a, pair.b, "Difference", "Interval"].map((name) => ({ name, kind: "text" }))}
        rows=${pair.groups.map((one) => [
          one.value,
          count(one.questions),
          share(one.a),
          share(one.b),
          points(one.difference),
          one.low === null ? "none under 5 questions" : `${points(one.low)} to ${points(one.high)}`,
        ])}
      />
      <p class="note">Groups are for exploration: their intervals are not corrected for the number of groups.</p>`}
    ${others.length > 0 &&
    html`<details>
      <summary>Other differences: ${quantity(others.length, "question")}</summary>
      <${Changes} changes=${others} pair=${pair} link=${link} />
    </details>`}
    <${Listed} title=${`Only in ${pair.a}`} ids=${pair.only_a} link=${link} />
    <${Listed} title=${`Only in ${pair.b}`} ids=${pair.only_b} link=${link} />
    <${Listed}
      title="Left out, because they changed between the runs"
      ids=${Object.keys(pair.changed)}
      of=${(id) => pair.changed[id].join(", ")}
      link=${link}
    />
    <${Listed} title="Without a verdict in one of the runs" ids=${pair.unpaired} link=${link} />
  </section>`;
}

function Meaning({ pair, main }) {
  const { bounds, power } = main;
  return html`${bounds &&
    html`<p>
      ${count(bounds.unjudged_a)} results of ${pair.a} and ${count(bounds.unjudged_b)} of ${pair.b} were not judged. Whatever they are,
      the difference is between ${points(bounds.low)} and ${points(bounds.high)} points:
      ${bounds.sign_holds ? " its sign holds." : " its sign may be the other one."}
    </p>`}
    ${power &&
    html`<p>
      ${power.six_flips
        ? "At least 6 flips one way are needed to show a difference with these questions."
        : `With 80% power these questions show a difference of ${points(power.detectable).replace("+", "")} points.`}
      ${Object.keys(power.questions).length > 0 &&
      ` Questions needed for ${Object.entries(power.questions)
        .map(([one, needed]) => `${one} ${one === "1" ? "point" : "points"}: ${count(needed)}`)
        .join("; ")}.`}
    </p>`}`;
}

function Changes({ changes, pair, link, open }) {
  const [all, setAll] = useState(false);
  const shown = all ? changes : changes.slice(0, MOST);
  return html`<div class="changes">
    ${shown.map(
      (change) =>
        html`<details data-test=${change.flipped ? "flip" : "change"} open=${open}>
          <summary>
            <span class="question"><${Marked} text=${change.question} /></span>
            <span class="about">
              ${Object.entries(change.metrics)
                .filter(([name]) => name === "pass rate" || !change.flipped)
                .map(([name, [a, b]]) => `${name}: ${pair.a} ${share(a) || "not judged"}, ${pair.b} ${share(b) || "not judged"}`)
                .join("; ")}${change.changed.length > 0 && html`; changed: ${change.changed.join(", ")}`}
            </span>
          </summary>
          <div class="sides">
            <${Side} label=${pair.a} side=${change.a} />
            <${Side} label=${pair.b} side=${change.b} />
          </div>
          ${Object.keys(change.fields).length > 0 &&
          html`<p class="note">
            Fields:
            ${" "}${Object.entries(change.fields)
              .map(([name, [a, b]]) => `${name} ${share(a) || "not judged"} / ${share(b) || "not judged"}`)
              .join("; ")}
          </p>`}
          <p><a href=${link("items", { question: change.question_id })}>All results of this question</a></p>
        </details>`,
    )}
    ${changes.length > shown.length && html`<button type="button" onClick=${() => setAll(true)}>Show all ${changes.length}</button>`}
  </div>`;
}

function Side({ label, side }) {
  const outcomes = Object.entries(side.outcomes)
    .map(([name, amount]) => (amount > 1 ? `${amount} \u00d7 ${wordsOf(name)}` : wordsOf(name)))
    .join(", ");
  return html`<div class="side">
    <h4><span class="letter">${label}</span> ${outcomes}</h4>
    <p class="answer" tabindex="0" role="region" aria-label=${`Answer of ${label}`}><${Marked} text=${side.answer.slice(0, 3000)} /></p>
    <p class="note"><${Marked} text=${side.why} /></p>
  </div>`;
}

function Listed({ title, ids, of, link }) {
  if (!ids.length) return null;
  return html`<details>
    <summary>${title}: ${quantity(ids.length, "question")}</summary>
    <ul>
      ${ids.slice(0, 500).map((id) => html`<li><a href=${link("items", { question: id })}><${Marked} text=${id} /></a>${of && html`: <${Marked} text=${of(id)} />`}</li>`)}
    </ul>
    ${ids.length > 500 && html`<p class="note">The first 500 are listed.</p>`}
  </details>`;
}
