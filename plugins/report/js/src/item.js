// One item: the response with its excerpts, the fields, traits, stages and calls.
import { html } from "htm/preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { readItem } from "./data.js";
import { count, number, quantity, seconds, tokens } from "./format.js";
import { Label } from "./labels.js";
import { Outcome } from "./outcomes.js";
import { usePrinting } from "./print.js";
import { Cells } from "./table.js";
import { cut, Marked, splitAt } from "./text.js";

export function Item({ head, at, labels, link, itemLink, closeLink, neighbours }) {
  const [item, setItem] = useState(null);
  const [problem, setProblem] = useState(null);
  const title = useRef(null);
  useEffect(() => {
    let current = true;
    setItem(null);
    setProblem(null);
    readItem(head, at).then(
      (found) => current && setItem(found),
      (error) => current && setProblem(String(error.message ?? error)),
    );
    return () => (current = false);
  }, [at]);
  useEffect(() => {
    if (item) title.current?.focus();
  }, [item]);
  if (problem) return html`<p class="warning" role="alert">This item cannot be shown: <${Marked} text=${problem} /></p>`;
  if (!item) return html`<p role="status">Reading\u2026</p>`;
  const { index } = head;
  const meta = item.result.metadata;
  const id = index.question_id[at];
  const same = [];
  for (let other = 0; other < index.id.length; other += 1) if (other !== at && index.question_id[other] === id) same.push(other);
  return html`<article data-view="item" class="item">
    <nav class="around" aria-label="Items beside this one">
      <a href=${closeLink} data-test="close">\u2190 All items</a>
      <span>
        ${neighbours.before !== null && html`<a rel="prev" href=${itemLink(neighbours.before)}>Previous</a>`}
        ${neighbours.after !== null && html` <a rel="next" href=${itemLink(neighbours.after)}>Next</a>`}
      </span>
    </nav>
    <h2 tabindex="-1" ref=${title} class="asked"><${Marked} text=${meta.question_text} /></h2>
    <p class="verdict"><${Outcome} head=${head} outcome=${index.outcome[at]} /> <span><${Marked} text=${item.why} /></span></p>
    <${Fields} item=${item} />
    <${Label} item=${item} labels=${labels} />
    <${Response} item=${item} />
    <${Work} item=${item} />
    <${Files} item=${item} />
    <${Traits} item=${item} />
    <${Vetoes} item=${item} />
    <${Facts} head=${head} at=${at} meta=${meta} item=${item} />
    <${Stages} item=${item} />
    <${Calls} head=${head} at=${at} item=${item} />
    <${Trace} item=${item} />
    ${same.length > 0 &&
    html`<section>
      <h3>Other results of this question</h3>
      <ul class="others">
        ${same.slice(0, 50).map(
          (other) =>
            html`<li>
              <a href=${itemLink(other)}
                ><${Outcome} head=${head} outcome=${index.outcome[other]} />
                <${Marked}
                  text=${` ${head.runs.length > 1 ? `run ${head.runs[index.run[other]].label}, ` : ""}${head.models[index.model[other]]}, judge ${head.judges[index.judge[other]]}, replicate ${index.replicate[other]}`}
                />
              </a>
            </li>`,
        )}
      </ul>
      ${same.length > 50 && html`<p><a href=${link("items", { question: id })}>All ${same.length + 1} results</a></p>`}
    </section>`}
    <details class="whole">
      <summary>All data of this result, as JSON</summary>
      <${Long} text=${() => JSON.stringify(item.result, null, 2)} />
    </details>
  </article>`;
}

function Facts({ head, at, meta, item }) {
  const { index } = head;
  const run = head.runs[index.run[at]];
  // Without a judge, the model under test stands in its place.
  const judged = meta.parsing_id !== meta.answering_id || JSON.stringify(meta.parsing) !== JSON.stringify(meta.answering);
  const facts = [
    ["Item", `#${at + 1}`],
    ["Question id", meta.question_id],
    ["Run", head.runs.length > 1 ? `${run.label}: ${run.name}` : meta.run_name],
    ["Model", `${meta.answering_id} (${meta.answering.interface}:${meta.answering.model_name})`],
    ["Judge", judged ? `${meta.parsing_id} (${meta.parsing.interface}:${meta.parsing.model_name})` : null],
    ["Replicate", meta.replicate > 1 || index.replicate.some((one) => one > 1) ? String(meta.replicate ?? 1) : null],
    ["Keywords", meta.keywords?.join(", ")],
    ["Reference answer", meta.raw_answer],
    ["Score", index.granular[at] === null ? null : number(index.granular[at])],
    ["Time", `${seconds(meta.execution_time)}, ended ${(meta.timestamp ?? "").slice(0, 19).replace("T", " ")} UTC`],
    ["Tokens", `${tokens(index.tokens[at], index.calls[at])} in ${quantity(index.calls[at], "call")}`],
    ["Template", meta.template_id],
    ["Shown to the judge", item.result.evaluation_input === undefined ? null : "another text than the response (see the data below)"],
  ];
  const [first, ...others] = facts.filter(([, value]) => value);
  return html`<details class="about-item" data-test="metadata">
    <summary>Model, judge, time and other facts (item ${first[1]})</summary>
    <dl class="facts">
      ${others.map(([name, value]) => html`<dt>${name}</dt><dd><${Marked} text=${value} /></dd>`)}
    </dl>
  </details>`;
}

function Long({ text, test }) {
  const printing = usePrinting();
  const [all, setAll] = useState(false);
  const given = typeof text === "function" ? text() : text;
  const { shown, left } = cut(given, printing || all);
  return html`<pre data-test=${test} tabindex="0" role="region" aria-label="Text"><${Marked} text=${shown} /></pre>
    ${left > 0 && html`<button type="button" onClick=${() => setAll(true)}>Show ${count(left)} more characters</button>`}`;
}

function Response({ item }) {
  const printing = usePrinting();
  const [all, setAll] = useState(false);
  const text = item.result.template?.raw_llm_response ?? "";
  const excerpts = [
    ...item.fields.flatMap((field) => field.excerpts.map((one, at) => ({ ...one, id: `field-${field.name}-${at}`, of: field.name }))),
    ...item.traits.flatMap((trait) => trait.excerpts.map((one, at) => ({ ...one, id: `trait-${trait.name}-${at}`, of: trait.name }))),
  ];
  const { shown, left } = cut(text, printing || all);
  const named = new Set();
  return html`<section>
    <h3>Response</h3>
    <div class="response" data-test="response" tabindex="0" role="region" aria-label="Response">
      ${text === ""
        ? html`<i>The response has no text.</i>`
        : splitAt(shown, excerpts).map(({ text: part, excerpts: of }) => {
            if (!of.length) return html`<${Marked} text=${part} />`;
            const first = of.filter((one) => !named.has(one.id));
            for (const one of first) named.add(one.id);
            const names = [...new Set(of.map((one) => one.of))].join(", ");
            return html`<mark data-test="excerpt" tabindex="-1" data-excerpts=${first.map((one) => one.id).join("\n")} title=${names}
              ><${Marked} text=${part} /><sup class="of"><${Marked} text=${names} /></sup></mark
            >`;
          })}
    </div>
    ${left > 0 && html`<button type="button" onClick=${() => setAll(true)}>Show ${count(left)} more characters</button>`}
    ${item.result.template?.response_truncated && html`<p class="note">The answer was cut off at its token limit.</p>`}
  </section>`;
}

const DIFF = { "+": "added", "-": "removed", "@": "place" };

function Work({ item }) {
  const printing = usePrinting();
  const [all, setAll] = useState(false);
  const { patch, checks = [] } = item.work ?? {};
  if (patch === undefined && !checks.length) return null;
  const { shown, left } = cut(patch ?? "", printing || all);
  return html`<section data-test="work">
    <h3>Work in the workspace</h3>
    ${patch !== undefined &&
    html`<pre class="diff" data-test="patch" tabindex="0" role="region" aria-label="Patch">${shown
      .split("\n")
      .map((line) => html`<span class=${DIFF[line[0]] ?? ""}><${Marked} text=${`${line}\n`} /></span>`)}</pre>`}
    ${left > 0 && html`<button type="button" onClick=${() => setAll(true)}>Show ${count(left)} more characters</button>`}
    ${checks.map(
      (check) =>
        html`<div data-test="check">
          <p><b><${Marked} text=${check.name} /></b> <${Marked} text=${check.ended} /></p>
          ${check.note && html`<p class="note"><${Marked} text=${check.note} /></p>`}
          ${check.output &&
          html`<details>
            <summary>Output</summary>
            <${Long} text=${check.output} />
          </details>`}
        </div>`,
    )}
  </section>`;
}

function Files({ item }) {
  const files = item.files ?? [];
  if (!files.length) return null;
  return html`<section>
    <h3>Files</h3>
    <ul class="files">
      ${files.map(
        (file) =>
          html`<li data-test="file">
            <p>
              ${file.data === undefined
                ? html`<b><${Marked} text=${file.name} /></b>`
                : html`<a href=${`data:application/octet-stream;base64,${file.data}`} download=${file.name}><${Marked} text=${file.name} /></a>`}
              <span class="note"> <${Marked} text=${[file.type, file.size === null ? null : `${count(file.size)} bytes`, file.note].filter(Boolean).join("; ")} /></span>
            </p>
            ${file.picture && html`<img src=${`data:${file.picture};base64,${file.data}`} alt=${file.name} />`}
            ${file.text &&
            html`<details>
              <summary>Text</summary>
              <${Long} text=${() => decoded(file.data)} />
            </details>`}
          </li>`,
      )}
    </ul>
  </section>`;
}

const decoded = (data) => new TextDecoder().decode(Uint8Array.from(atob(data), (one) => one.charCodeAt(0)));

function showExcerpt(id) {
  const found = [...document.querySelectorAll("mark[data-excerpts]")].find((mark) => mark.dataset.excerpts.split("\n").includes(id));
  found?.scrollIntoView({ block: "center" });
  found?.focus();
}

function Excerpts({ of, kind, name }) {
  if (!of.length) return null;
  return html`<ul class="excerpts">
    ${of.map(
      (one, at) =>
        html`<li>
          <button type="button" onClick=${() => showExcerpt(`${kind}-${name}-${at}`)}>\u201c<${Marked} text=${one.text} />\u201d</button>
          ${one.confidence && html` <span class="note"><${Marked} text=${one.confidence} /> confidence</span>`}
        </li>`,
    )}
  </ul>`;
}

const verdict = (passed) =>
  passed === "undecided" ? "\u225f undecided" : (passed === true ? "\u2713 passes" : passed === false ? "\u2717 differs" : "not compared");

function shownValue(text) {
  if (text === null || text === undefined) return html`<i>nothing</i>`;
  let value = text;
  try {
    value = JSON.parse(text);
  } catch {
    // a text that is not JSON is shown as it is
  }
  return html`<${Marked} text=${typeof value === "string" ? value || text : text} />`; // numbers of JavaScript have fewer digits
}

function Fields({ item }) {
  if (!item.fields.length) return null;
  const rules = item.fields.some((field) => field.rule);
  const columns = ["Field", "Extracted by the judge", "Truth", ...(rules ? ["Rule"] : []), "Result"].map((name) => ({ name }));
  const rows = item.fields.map((field) => ({
    "data-test": "field-row",
    "data-passed": String(field.passed),
    cells: [
      html`<${Marked} text=${field.name} />`,
      html`${shownValue(field.extracted)}<${Excerpts} of=${field.excerpts} kind="field" name=${field.name} />
        ${field.reason && html`<p class="note"><${Marked} text=${field.reason} /></p>`}`,
      shownValue(field.truth),
      ...(rules ? [html`<${Marked} text=${field.rule ?? ""} />`] : []),
      html`${verdict(field.passed)}${field.score !== null && field.score !== 0 && field.score !== 1 && html` (score ${number(field.score)})`}`,
    ],
  }));
  return html`<section>
    <h3>Fields</h3>
    <${Cells} label="Fields" kind="fields" columns=${columns} rows=${rows} />
  </section>`;
}

function Traits({ item }) {
  if (!item.traits.length) return null;
  const rows = item.traits.map((trait) => ({
    "data-test": "trait-row",
    cells: [
      html`<${Marked} text=${trait.name} />`,
      html`<${Marked} text=${trait.kind ?? ""} />`,
      html`${trait.error ? "not scored" : shownValue(trait.value)}${trait.label && html` (<${Marked} text=${trait.label} />)`}
        <${Excerpts} of=${trait.excerpts} kind="trait" name=${trait.name} />`,
      html`<${Marked} text=${trait.error ?? trait.reason ?? ""} />`,
    ],
  }));
  return html`<section>
    <h3>Traits</h3>
    <${Cells} label="Traits" columns=${["Trait", "Kind", "Score", "Reason"].map((name) => ({ name }))} rows=${rows} />
  </section>`;
}

function Vetoes({ item }) {
  const vetoes = item.result.vetoes ?? [];
  const revisions = item.result.revisions ?? [];
  return html`${vetoes.length > 0 &&
  html`<section>
    <h3>Vetoes</h3>
    <ul>
      ${vetoes.map((one) => html`<li><b><${Marked} text=${one.stage} /></b>: <${Marked} text=${one.reason} /></li>`)}
    </ul>
  </section>`}
  ${revisions.length > 0 &&
  html`<section>
    <h3>Changes by later stages</h3>
    <ul>
      ${revisions.map(
        (one) =>
          html`<li>
            <b><${Marked} text=${one.stage} /></b> changed <${Marked} text=${one.artifact} /> from
            <code><${Marked} text=${JSON.stringify(one.before) ?? "nothing"} /></code> to
            <code><${Marked} text=${JSON.stringify(one.after) ?? "nothing"} /></code>: <${Marked} text=${one.reason} />
          </li>`,
      )}
    </ul>
  </section>`}`;
}

function Stages({ item }) {
  const stages = item.result.stages ?? [];
  if (!stages.length) return null;
  const numbers = ["Time", "Calls", "Tokens in", "Tokens out"].map((name) => ({ name, number: true }));
  const rows = stages.map((stage) => ({
    "data-test": "stage-row",
    cells: [
      html`<${Marked} text=${stage.name} />`,
      html`${stage.status}${(stage.reason || stage.error) && html`: <${Marked} text=${stage.error ?? stage.reason} />`}
      ${stage.failed_calls > 0 && html` (${quantity(stage.failed_calls, "failed call")})`}`,
      seconds(stage.seconds),
      count(stage.calls),
      tokens(stage.input_tokens, stage.calls),
      tokens(stage.output_tokens, stage.calls),
      html`<${Marked} text=${`${stage.distribution} ${stage.version}`} />`,
    ],
  }));
  return html`<section>
    <h3>Stages</h3>
    <${Cells} label="Stages" columns=${[{ name: "Stage" }, { name: "State" }, ...numbers, { name: "From" }]} rows=${rows} />
  </section>`;
}

function Calls({ head, at, item }) {
  const run = head.runs[head.index.run[at]];
  if (!item.calls.length) {
    return run.journal ? null : html`<p class="note">The replies of the models are in the journal of the run, which was not beside its results.</p>`;
  }
  return html`<section>
    <h3>${item.calls.some((call) => call.messages) ? "Prompts and replies" : "Replies"}</h3>
    ${item.calls.map(
      (call) =>
        html`<details data-test="call">
          <summary>
            <b><${Marked} text=${call.stage} /></b> <${Marked} text=${call.model} />: ${call.failed ? "failed, " : ""}${seconds(call.seconds)}, tokens in ${tokens(call.input_tokens, 1)}, out ${tokens(call.output_tokens, 1)}
          </summary>
          ${call.messages && html`<${Prompt} call=${call} />`}
          ${call.messages && html`<h4>Reply</h4>`}
          <${Long} text=${call.reply} />
        </details>`,
    )}
    ${item.calls.some((call) => !call.messages) && html`<p class="note">${missingPrompts(head)}</p>`}
  </section>`;
}

function Prompt({ call }) {
  return html`<h4>Prompt</h4>
    ${call.messages.map(
      (message) => html`<p class="role"><${Marked} text=${message.role} /></p>
        <${Long} text=${message.text} />`,
    )}
    ${call.request &&
    html`<p class="role">${call.port === "parser" ? "schema of the reply" : "tools and limits"}</p>
      <${Long} text=${call.request} />`}`;
}

function missingPrompts(head) {
  return head.prompts
    ? "Prompts that are missing cannot be computed again: the question, a setting or a plugin has changed since the run."
    : "Journals store replies, and prompts are computed again from the benchmark: karenina report --benchmark FILE shows them.";
}

function Messages({ messages }) {
  return html`<ol class="trace">
    ${messages.map(
      (message) =>
        html`<li>
          <b><${Marked} text=${message.role ?? message.type ?? "message"} /></b>
          <${Long} text=${typeof message.content === "string" && message.content ? message.content : JSON.stringify(message, null, 2)} />
          ${message.tool_calls?.length > 0 && html`<${Long} text=${JSON.stringify(message.tool_calls, null, 2)} />`}
        </li>`,
    )}
  </ol>`;
}

// A conversation is split at the messages of its user, of which several in a row are one; the question begins it.
function turnsOf(result, messages) {
  const turns = result.extensions?.["karenina-conversation"]?.conversation?.turns;
  if (!Array.isArray(turns)) return [{ messages }];
  const parts = [[{ role: "user", content: result.metadata.question_text }]];
  for (const message of messages) {
    const part = parts.at(-1);
    if (message.role === "user" && part.some((other) => other.role !== "user")) parts.push([message]);
    else part.push(message);
  }
  const shown = turns.map((turn) => {
    const name = `Turn ${turn.turn}${turn.id ? ` (${turn.id})` : ""}`;
    if (turn.state === "taken") return { title: name, messages: parts.shift() ?? [] };
    return { title: `${name}: ${turn.state === "left_out" ? "left out" : "missing"}`, messages: [] };
  });
  return parts.length > 0 ? [...shown, { messages: parts.flat() }] : shown;
}

function Trace({ item }) {
  const messages = item.result.template?.trace_messages ?? [];
  const investigation = item.result.template?.investigation_trace;
  return html`${messages.length > 0 &&
  html`<section>
    <h3>Conversation</h3>
    ${turnsOf(item.result, messages).map(
      (turn) => html`${turn.title && html`<h4 data-test="turn"><${Marked} text=${turn.title} /></h4>`}
        ${turn.messages.length > 0 && html`<${Messages} messages=${turn.messages} />`}`,
    )}
  </section>`}
  ${investigation &&
  html`<section>
    <h3>Investigation of the workspace</h3>
    <${Long} text=${investigation} />
  </section>`}`;
}
