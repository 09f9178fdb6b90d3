// The comparison of runs: differences with intervals, and the questions that flipped.
import { html } from "htm/preact";
import { useMemo, useState } from "preact/hooks";
import { count, points, pEquals, pValue, quantity, share } from "./format.js";
import { usePrinting } from "./print.js";
import { Table } from "./table.js";
import { cut, Marked, plain } from "./text.js";
import { wordsOf } from "./outcomes.js";

const MOST = 20;

export function Comparison({ head, link }) {
  const { comparison } = head;
  return html`<div data-view="comparison">
    ${comparison.pairs.map((pair) => html`<${Pair} head=${head} pair=${pair} link=${link} several=${comparison.pairs.length > 1} />`)}
  </div>`;
}

const interval = ({ low, high }) => (low === null ? "no interval" : `95% CI ${points(low)} to ${points(high)}`);

/** What is not compared, in one line: rates cannot be read without it. */
export function LeftOut({ pair }) {
  const changed = [...new Set(Object.values(pair.changed).flat())].join(" or ");
  const parts = [
    [pair.only_a.length, `only in ${pair.a}`],
    [pair.only_b.length, `only in ${pair.b}`],
    [Object.keys(pair.changed).length, `with a different ${changed}`],
    [pair.unpaired.length, "without a verdict in one of the runs"],
  ].filter(([amount]) => amount > 0);
  if (!parts.length) return null;
  return html`<p class="warning" data-test="left-out">
    Left out of this comparison: ${parts.map(([amount, what]) => `${quantity(amount, "question")} ${what}`).join(", ")}.
  </p>`;
}

/** The difference of the pass rates with its interval, large. */
export function Headline({ pair }) {
  const main = mainOf(pair);
  if (!main) return html`<p>No question has a verdict in both runs.</p>`;
  return html`<p class="rate" data-test="difference"><strong>${points(main.difference)}</strong><span>
    percentage points of ${main.metric}, ${pair.a} minus ${pair.b}: ${share(main.a)} against ${share(main.b)}; ${interval(main)};
    ${main.p_exact ? " exact" : ""} ${pEquals(main.p)}, over ${quantity(main.questions, "question")}</span
  ></p>`;
}

const mainOf = (pair) => pair.differences.find(({ metric }) => metric === "pass rate");

function Pair({ head, pair, link, several }) {
  const run = (label) => head.comparison.runs.find((one) => one.label === label);
  const [a, b] = [run(pair.a), run(pair.b)];
  const main = mainOf(pair);
  const flips = pair.changes.filter((change) => change.flipped);
  const others = pair.changes.filter((change) => !change.flipped);
  return html`<section class="pair">
    <h2><span class="letter">${pair.a}</span> <${Marked} text=${a.name} /> against <span class="letter">${pair.b}</span> <${Marked} text=${b.name} /></h2>
    <${LeftOut} pair=${pair} />
    ${pair.notes.map((note) => html`<p class="note"><${Marked} text=${note} /></p>`)}
    <${Headline} pair=${pair} />
    ${[a, b].map(
      ({ label, summary: { groups } }) => groups.filter(({ pass_rate }) => pass_rate.undecided > 0).map(({ judge, pass_rate: rate }) =>
        html`<p class="note" data-test="if-undecided-wrong">
          All items of ${label}${groups.length > 1 && html`, judged by <${Marked} text=${judge} />`}: ${rate.value === null ? "no verdicts" : share(rate.value)}; ${share(rate.if_undecided_wrong)} if the
          ${" "}${count(rate.undecided)} undecided ${rate.undecided === 1 ? "is" : "are"} wrong.
        </p>`),
    )}
    ${several && html`<p class="note">Intervals are at 95% each; adjusted p values account for all pairs of runs.</p>`}
    ${main && html`<${Meaning} pair=${pair} main=${main} />`}
    ${main && html`<h3>Flipped questions</h3>`}
    ${flips.length
      ? html`<p>
            ${quantity(flips.length, "question")}:${" "}
            ${count(main.flipped.higher_in_a)} better in ${pair.a}, ${count(main.flipped.higher_in_b)} better in ${pair.b}.
          </p>
          <${Flips} flips=${flips} pair=${pair} link=${link} />`
      : main && html`<p>None: each question has the same verdict in both runs.</p>`}
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
          one.low === null
            ? `none under 5 ${one.units === one.questions ? "questions" : "units"}`
            : `${one.units < 20 ? "rough " : ""}${points(one.low)} to ${points(one.high)}`,
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
      ${quantity(bounds.unjudged_a, "result")} of ${pair.a} and ${count(bounds.unjudged_b)} of ${pair.b} were not judged. Whatever they are,
      the difference is between ${points(bounds.low)} and ${points(bounds.high)} points:
      ${bounds.sign_holds ? " its sign holds." : " its sign depends on them."}
    </p>`}
    ${power &&
    html`<p>
      ${main.units < 6
        ? `No difference can be shown with fewer than 6 ${main.units === main.questions ? "questions" : "units"}.`
        : power.six_flips
        ? "At least 6 flips one way are needed to show a difference with these questions."
        : `With 80% power these questions show a difference of ${points(power.detectable).replace("+", "")} points.`}
      ${Object.keys(power.questions).length > 0 &&
      ` Questions needed for ${Object.entries(power.questions)
        .map(([one, needed]) => `${one} ${one === "1" ? "point" : "points"}: ${count(needed)}`)
        .join("; ")}.`}
    </p>`}`;
}

/** The flips of one direction and keyword; all at first. */
function Flips({ flips, pair, link }) {
  const [direction, setDirection] = useState("");
  const [keyword, setKeyword] = useState("");
  const keywords = useMemo(() => [...new Set(flips.flatMap((flip) => flip.keywords))].sort(), [flips]);
  const shown = flips.filter((flip) => (!direction || flip.higher_in === direction) && (!keyword || flip.keywords.includes(keyword)));
  return html`<div class="filters">
      <label
        >Direction
        <select data-test="flip-direction" value=${direction} onChange=${(event) => setDirection(event.target.value)}>
          <option value="">All</option>
          <option value="a">Better in ${pair.a}</option>
          <option value="b">Better in ${pair.b}</option>
        </select>
      </label>
      ${keywords.length > 1 &&
      html`<label
        >Keyword
        <select data-test="flip-keyword" value=${keyword} onChange=${(event) => setKeyword(event.target.value)}>
          <option value="">All</option>
          ${keywords.map((one) => html`<option value=${one}>${plain(one)}</option>`)}
        </select>
      </label>`}
      <p class="note" role="status" data-test="flip-count">${count(shown.length)} of ${quantity(flips.length, "question")}</p>
    </div>
    <${Changes} changes=${shown} pair=${pair} link=${link} open=${flips.length <= 3} />`;
}

function Changes({ changes, pair, link, open }) {
  const [all, setAll] = useState(false);
  const shown = usePrinting() || all ? changes : changes.slice(0, MOST);
  return html`<div class="changes">
    ${shown.map(
      (change) =>
        html`<details key=${change.question_id} data-test=${change.flipped ? "flip" : "change"} open=${open}>
          <summary>
            <span class="question"><${Marked} text=${change.question} /></span>
            <span class="values"><b>${outcomesOf(change.a)} \u2192 ${outcomesOf(change.b)}</b></span>
            ${change.values.map((one) => html`<${Values} one=${one} />`)}
            <span class="about">
              ${Object.entries(change.metrics)
                .filter(([name]) => name !== "pass rate" || !isVerdict(change))
                .map(([name, [a, b]]) => `${name}: ${pair.a} ${share(a) || "not judged"}, ${pair.b} ${share(b) || "not judged"}; `)
                .join("")}${change.changed.length > 0 && html`changed: ${change.changed.join(", ")}`}${change.keywords.length > 0 && html`; <${Marked} text=${change.keywords.join(", ")} />`}
            </span>
          </summary>
          <div class="sides">
            <${Side} label=${pair.a} side=${change.a} />
            <${Side} label=${pair.b} side=${change.b} />
          </div>
          ${Object.keys(change.fields).length > 0 &&
          html`<p class="note">
            Shares that pass:
            ${" "}${Object.entries(change.fields).map(
              ([name, [a, b]], at) => html`${at > 0 && "; "}<${Marked} text=${name} /> ${share(a) || "not judged"} / ${share(b) || "not judged"}`,
            )}
          </p>`}
          <p><a href=${link("items", { question: change.question_id })}>All results of this question</a></p>
        </details>`,
    )}
    ${changes.length > shown.length && html`<button type="button" onClick=${() => setAll(true)}>Show all ${changes.length}</button>`}
  </div>`;
}

/** Whether the outcomes say all about the pass rates: each run has one result. */
const isVerdict = (change) => [change.a, change.b].every(({ outcomes }) => Object.values(outcomes).reduce((sum, one) => sum + one, 0) === 1);

const LONGEST = 300;
const LONGEST_ANSWER = 3000;

function extractedOf(counts) {
  const found = Object.entries(counts);
  const total = found.reduce((sum, [, amount]) => sum + amount, 0);
  return found.map(([text, amount]) => short(text) + (found.length > 1 ? ` (${amount} of ${total})` : "")).join(" or ") || "not extracted";
}

function short(text, most = LONGEST) {
  const { shown, left } = cut(text, false, most);
  return left > 0 ? `${shown}\u2026` : text;
}

function Values({ one }) {
  const [a, b] = [extractedOf(one.a), extractedOf(one.b)];
  return html`<span class="values" data-test="flip-values">
    <i><${Marked} text=${one.name} /></i> <b><${Marked} text=${a} /></b>${a !== b && html` \u2192 <b><${Marked} text=${b} /></b>`}${one.truths.length > 0 &&
    html`, truth <b><${Marked} text=${one.truths.map((text) => short(text)).join(" or ")} /></b>`}${one.rule && html`, rule <${Marked} text=${short(one.rule)} />`}
  </span>`;
}

const outcomesOf = (side) =>
  Object.entries(side.outcomes)
    .map(([name, amount]) => (amount > 1 ? `${amount} \u00d7 ${wordsOf(name)}` : wordsOf(name)))
    .join(", ") || "no result";

function Side({ label, side }) {
  return html`<div class="side">
    <h4><span class="letter">${label}</span> ${outcomesOf(side)}</h4>
    <p class="answer" tabindex="0" role="region" aria-label=${`Answer of ${label}`}><${Marked} text=${short(side.answer, LONGEST_ANSWER)} /></p>
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
