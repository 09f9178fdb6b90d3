// The summary: facts and rates of each run, and the sections.
import { html } from "htm/preact";
import { Headline, LeftOut } from "./comparison.js";
import { count, quantity, seconds, share, tokens, usd } from "./format.js";
import { Outcome } from "./outcomes.js";
import { Section, Table } from "./table.js";
import { Marked } from "./text.js";

export function Summary({ head, link }) {
  if (!head.index.id.length) return html`<p>There are no results in this report.</p>`;
  return html`<div data-view="summary">
    ${head.problem && html`<p class="warning">The runs are not compared: <${Marked} text=${head.problem} /></p>`}
    <div class="cards">${head.runs.map((run, at) => html`<${Run} head=${head} run=${run} at=${at} link=${link} />`)}</div>
    ${head.comparison?.pairs.map(
      (pair) =>
        html`<section class="pair">
          <h2>Difference <span class="letter">${pair.a}</span> \u2212 <span class="letter">${pair.b}</span></h2>
          <${LeftOut} pair=${pair} />
          <${Headline} pair=${pair} />
          <p><a href=${link("comparison")}>${quantity(pair.changes.filter(({ flipped }) => flipped).length, "flipped question")}</a></p>
        </section>`,
    )}
    ${head.sections.map((section) => html`<${Section} section=${section} />`)}
    ${head.runs.map((run) => html`<${Statistics} run=${run} several=${head.runs.length > 1} />`)}
  </div>`;
}

function Rate({ rate }) {
  const undecided =
    rate.undecided > 0 &&
    html`; <span data-test="if-undecided-wrong"
        >${share(rate.if_undecided_wrong)} if the ${count(rate.undecided)} undecided ${rate.undecided === 1 ? "is" : "are"} wrong</span
      >`;
  if (rate.value === null) return html`<p class="rate">No verdicts${undecided}</p>`;
  return html`<p class="rate">
    <strong>${share(rate.value)}</strong>
    <span
      >${count(rate.hits)} of ${count(rate.out_of)} judged items correct; ${rate.clusters < 20 ? "rough " : ""}95% CI${" "}
      ${share(rate.low)} to ${share(rate.high)}${undecided}</span
    >
  </p>`;
}

function Run({ head, run, at, link }) {
  const { summary } = run;
  const here = (outcome) => link("items", { outcome, run: head.runs.length > 1 ? run.label : null });
  const outcomes = head.outcomes
    .map((outcome, place) => ({ ...outcome, place, items: summary.outcomes[outcome.name] ?? 0 }))
    .filter((outcome) => outcome.items > 0);
  return html`<article class="card" aria-labelledby=${`run-${at}`}>
    <h2 id=${`run-${at}`}><span class="letter">${run.label}</span> <${Marked} text=${run.name} /></h2>
    ${run.statistics.pass_rate !== null
      ? html`<${Rate} rate=${run.statistics.pass_rate} />`
      : Object.entries(run.statistics.by_judge).map(
          ([judge, rate]) => html`<p class="note">Judged by <${Marked} text=${judge} />:</p>
            <${Rate} rate=${rate} />`,
        )}
    ${summary.not_judged > 0 && summary.worst !== null &&
    html`<p class="note">
      ${quantity(summary.not_judged, "item")} could not be judged. Correct of all these items:${" "}${share(summary.worst)} if every unjudged item were wrong, ${share(summary.best)} if right.
    </p>`}
    <ul class="outcomes">
      ${outcomes.map(
        ({ name, place, items }) =>
          html`<li>
            <a href=${here(name)}><${Outcome} head=${head} outcome=${place} /> <span class="amount">${count(items)}</span></a>
          </li>`,
      )}
    </ul>
    <dl class="facts">
      <dt>Model</dt>
      <dd><${Marked} text=${run.answering_model} /></dd>
      <dt>${run.judges.length === 1 ? "Judge" : "Judges"}</dt>
      <dd><${Marked} text=${run.judges.join(", ")} /></dd>
      <dt>Calls</dt>
      <dd>
        ${count(run.calls)}${
          run.calls && !run.input_tokens && !run.output_tokens
            ? "; their tokens were not reported"
            : html`: input tokens ${tokens(run.input_tokens, run.calls)}, output tokens ${tokens(run.output_tokens, run.calls)}`
        }
      </dd>
      <dt>Time</dt>
      <dd>${seconds(run.seconds)} in all items${run.ended && html`, ended ${run.ended.slice(0, 16).replace("T", " ")} UTC`}</dd>
      <dt>Cost</dt>
      <dd>
        ${
          run.cost_usd === null
            ? "unknown"
            : html`${run.cost_is_whole ? "" : "at least "}${usd(run.cost_usd)}${run.cost_is_shared ? ", with other models of its journal" : ""}`
        }${run.missing_cost && `: ${run.missing_cost}`}
      </dd>
      ${run.source &&
      html`<dt>File</dt>
        <dd><${Marked} text=${run.source} />${run.journal ? "" : " (no journal: calls are not shown)"}</dd>`}
    </dl>
  </article>`;
}

const text = (name) => ({ name, kind: "text" });
const shareOf = (name) => ({ name, kind: "share" });
const countOf = (name) => ({ name, kind: "count" });

function Statistics({ run, several }) {
  const found = run.statistics;
  const title = (what) => (several ? `${what}, run ${run.label}` : what);
  const parts = [];
  const ofJudge = (cells) => (found.judges.length > 1 ? cells : []);
  const meanNotes = new Set(found.means.filter(({ note }) => note).map(({ metric, note }) => `${metric}: ${note}.`));
  if (found.means.length)
    parts.push(
      html`<h3>${title("Partial credit and traits")}</h3>
        <${Table}
          label="Means"
          columns=${[text("Metric"), ...ofJudge([text("Judge")]), shareOf("Mean"), shareOf("Low"), shareOf("High"), countOf("Results"), countOf("Missing")]}
          rows=${found.means.map((mean) => [mean.metric, ...ofJudge([mean.judge]), mean.value, mean.low, mean.high, mean.results, mean.missing])}
        />
        ${[...meanNotes].map((note) => html`<p class="note"><${Marked} text=${note} /></p>`)}`,
    );
  if (found.groups.length) {
    const withJudge = found.judges.length > 1 && found.by !== "judge";
    const undecided = found.groups.some(({ rate }) => rate.undecided > 0);
    const rates = ["Pass rate", "Low", "High", ...(undecided ? ["If undecided are wrong"] : [])];
    parts.push(
      html`<h3><${Marked} text=${title(`By ${found.by}`)} /></h3>
        <${Table}
          label="Groups of the run"
          columns=${[text("Group"), ...(withJudge ? [text("Judge")] : []), ...rates.map(shareOf), ...["Correct", "Judged", ...(undecided ? ["Undecided"] : []), "Not judged"].map(countOf)]}
          rows=${found.groups.map(({ value, judge, rate, not_judged }) => [
            value,
            ...(withJudge ? [judge] : []),
            ...[rate.value, rate.low, rate.high, ...(undecided ? [rate.if_undecided_wrong ?? rate.value] : [])],
            ...[rate.hits, rate.out_of, ...(undecided ? [rate.undecided ?? 0] : []), not_judged],
          ])}
        />
        <p class="note">Groups are for exploration: their intervals are not corrected for the number of groups.</p>`,
    );
  }
  if (found.draws.length)
    parts.push(
      html`<h3>${title("Several answers to a question")}</h3>
        <${Table}
          label="pass@k"
          columns=${[countOf("k"), shareOf("Any of k right (pass@k)"), shareOf("All k right (pass^k)"), countOf("Questions"), countOf("Left out")]}
          rows=${found.draws.map((draw) => [draw.k, draw.any_right, draw.all_right, draw.questions, draw.left_out])}
        />`,
    );
  if (found.agreement.length)
    parts.push(
      html`<h3>${title("Agreement of judges")}</h3>
        <${Table}
          label="Agreement"
          columns=${[text("Judge"), text("Other judge"), shareOf("Same verdict"), shareOf("Low"), shareOf("High"), { name: "Cohen's kappa", kind: "number" }]}
          rows=${found.agreement.map((one) => [one.a, one.b, one.raw.value, one.raw.low, one.raw.high, one.kappa?.value ?? null])}
        />`,
    );
  if (found.variance)
    parts.push(
      html`<h3>${title("Variance of verdicts")}</h3>
        <p>
          ${Object.entries(found.variance.shares)
            .map(([name, value]) => `${name} ${share(value)}`)
            .join(", ")}${found.variance.unknown.length > 0 && html`; cannot be told apart: ${found.variance.unknown.join(", ")}`}.
          Over ${quantity(found.variance.questions, "question")} with all verdicts.
        </p>`,
    );
  for (const note of found.notes) parts.push(html`<p class="note"><${Marked} text=${note} /></p>`);
  return parts.length ? html`<section>${parts}</section>` : null;
}
