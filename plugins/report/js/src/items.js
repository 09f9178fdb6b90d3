// The list of items: filters, search, and a list that holds only the rows on the screen.
import { html } from "htm/preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { searchTexts } from "./data.js";
import { count, quantity, seconds, usd } from "./format.js";
import { Outcome, wordsOf } from "./outcomes.js";
import { usePrinting } from "./print.js";
import { Marked, plain } from "./text.js";

const NARROW = matchMedia("(max-width: 40rem)");
const SPARE = 6;
const MOST_PRINTED = 1000;

/** The height of a row in pixels: three lines in a wide row, and one more for each value below the other. */
function heightOf(shown) {
  const below = shown.filter(({ wide }) => wide).length + (shown.some(({ wide }) => !wide) ? 1 : 0);
  return NARROW.matches ? 68 + 20 * below : 72;
}

/** The columns of an item's values, in their order; those that are `first` are shown until others are chosen. */
const COLUMNS = [
  { name: "answer", title: "Answer", wide: true, first: true, of: ({ index }, at) => index.answer[at] },
  { name: "extracted", title: "Extracted", wide: true, first: true, of: ({ index, values }, at) => values[index.extracted[at]] },
  { name: "truth", title: "Truth", wide: true, first: true, of: ({ index, values }, at) => values[index.truth[at]] },
  { name: "cost", title: "Cost", first: true, of: ({ index }, at) => index.cost[at], shown: usd },
  { name: "seconds", title: "Seconds", first: true, of: ({ index }, at) => index.seconds[at], shown: seconds },
  { name: "tokens", title: "Tokens", of: ({ index }, at) => index.tokens[at], shown: count },
  { name: "keywords", title: "Keywords", wide: true, of: ({ index, keywords }, at) => index.keywords[at].map((one) => keywords[one]).join(", ") },
];
const SORTED = [
  { name: "verdict", title: "Verdict", of: ({ index }, at) => index.outcome[at] },
  { name: "question", title: "Question", of: ({ index, questions }, at) => questions[index.question[at]] },
  ...COLUMNS,
];

/** Return the columns that the address names, separated by commas. A column without any value is not offered. */
const offered = (head) => COLUMNS.filter(({ of }) => head.index.id.some((_, at) => ![null, ""].includes(of(head, at))));
const chosen = (given, columns) => columns.filter(({ name, first }) => (given === null ? first : given.split(",").includes(name)));

/** Return positions in the order that the address names: a column, with a minus if the largest is first. */
function sorted(head, found, order) {
  const column = SORTED.find(({ name }) => name === (order ?? "").replace(/^-/, ""));
  if (!column) return found;
  const sign = order.startsWith("-") ? -1 : 1;
  const keys = new Map(found.map((at) => [at, column.of(head, at)]));
  const compare = new Intl.Collator("en", { numeric: true }).compare;
  const empty = (key) => key === null || key === "";
  return [...found].sort((one, other) => {
    const [a, b] = [keys.get(one), keys.get(other)];
    if (empty(a) || empty(b)) return empty(a) - empty(b) || one - other;
    return sign * (typeof a === "number" ? a - b : compare(a, b)) || one - other;
  });
}

/** Return the positions of the items that pass all filters, sorted. `texts` are those of responses, if these are searched. */
export function select(head, filters, texts) {
  const { index } = head;
  const words = (filters.text ?? "").toLowerCase().trim();
  const outcome = head.outcomes.findIndex(({ name }) => name === filters.outcome);
  const model = head.models.indexOf(filters.model);
  const judge = head.judges.indexOf(filters.judge);
  const keyword = head.keywords.indexOf(filters.keyword);
  const run = head.runs.findIndex(({ label }) => label === filters.run);
  const found = [];
  const matching = words ? head.questions.map((text) => text.toLowerCase().includes(words)) : null;
  for (let at = 0; at < index.id.length; at += 1) {
    if (filters.outcome && index.outcome[at] !== outcome) continue;
    if (filters.model && index.model[at] !== model) continue;
    if (filters.judge && index.judge[at] !== judge) continue;
    if (filters.run && index.run[at] !== run) continue;
    if (filters.keyword && !index.keywords[at].includes(keyword)) continue;
    if (filters.question && index.question_id[at] !== filters.question) continue;
    if (filters.flipped && !index.flip[at]) continue;
    if (
      words &&
      !matching[index.question[at]] &&
      !index.question_id[at].toLowerCase().includes(words) &&
      !(texts && texts[at].includes(words))
    )
      continue;
    found.push(at);
  }
  return sorted(head, found, filters.sort);
}

function Choice({ name, label, values, value, onChange }) {
  if (values.length < 2 && !value) return null;
  return html`<label
    >${label}
    <select data-test=${`filter-${name}`} value=${value ?? ""} onChange=${(event) => onChange(event.target.value || null)}>
      <option value="">All</option>
      ${values.map(([one, shown]) => html`<option value=${one}>${plain(shown)}</option>`)}
    </select>
  </label>`;
}

export function Items({ head, filters, setFilters, itemLink, selected }) {
  const [texts, setTexts] = useState(null);
  const [reading, setReading] = useState(false);
  const [typed, setTyped] = useState(filters.text ?? "");
  const typing = useRef(null);
  const latest = useRef(filters);
  latest.current = filters;
  useEffect(() => setTyped(filters.text ?? ""), [filters.text]);
  useEffect(() => {
    if (!filters.responses || texts) return;
    setReading(true);
    searchTexts(head).then((found) => {
      setTexts(found);
      setReading(false);
    });
  }, [filters.responses]);
  const found = useMemo(() => select(head, filters, filters.responses ? texts : null), [head, filters, texts]);
  const change = (name) => (value) => setFilters({ ...latest.current, [name]: value });
  const type = (value) => {
    setTyped(value);
    clearTimeout(typing.current);
    typing.current = setTimeout(() => setFilters({ ...latest.current, text: value || null }), 60);
  };
  const pairs = (names) => names.map((name) => [name, name]);
  const { sort, columns, ...narrowing } = filters;
  const active = Object.values(narrowing).some(Boolean);
  const known = useMemo(() => offered(head), [head]);
  const shown = chosen(columns, known);
  const total = head.index.id.length;
  return html`<div data-view="items" class="items">
    <form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
      <label class="search"
        >Search
        <input id="search" type="search" data-test="search" placeholder="Question or id" value=${typed} onInput=${(event) => type(event.target.value)} />
      </label>
      <label class="check"
        ><input
          type="checkbox"
          data-test="search-responses"
          checked=${Boolean(filters.responses)}
          onChange=${(event) => change("responses")(event.target.checked || null)}
        />
        also in responses</label
      >
      <${Choice} name="outcome" label="Outcome" values=${head.outcomes.map(({ name }) => [name, wordsOf(name)])} value=${filters.outcome} onChange=${change("outcome")} />
      <${Choice} name="run" label="Run" values=${head.runs.map(({ label, name }) => [label, `${label}: ${name}`])} value=${filters.run} onChange=${change("run")} />
      <${Choice} name="model" label="Model" values=${pairs(head.models)} value=${filters.model} onChange=${change("model")} />
      <${Choice} name="judge" label="Judge" values=${pairs(head.judges)} value=${filters.judge} onChange=${change("judge")} />
      <${Choice} name="keyword" label="Keyword" values=${pairs(head.keywords)} value=${filters.keyword} onChange=${change("keyword")} />
      ${head.index.flip.includes(1) &&
      html`<label class="check"
        ><input type="checkbox" data-test="filter-flipped" checked=${Boolean(filters.flipped)} onChange=${(event) => change("flipped")(event.target.checked || null)} />
        flipped only</label
      >`}
      ${filters.question && html`<p class="note">Only question <b><${Marked} text=${filters.question} /></b></p>`}
      ${active && html`<button type="button" data-test="clear" onClick=${() => setFilters({ sort, columns })}>Clear filters</button>`}
    </form>
    <p class="count" data-test="count" role="status" aria-live="polite">
      ${reading ? "Reading the responses\u2026" : found.length === total ? quantity(total, "item") : `${count(found.length)} of ${quantity(total, "item")}`}
    </p>
    <div class="listed">
      <${Order} sort=${sort} shown=${shown} onChange=${change("sort")} />
      <${Choices} known=${known} shown=${shown} onChange=${change("columns")} />
    </div>
    <${Rows} head=${head} found=${found} itemLink=${itemLink} selected=${selected} shown=${shown} />
  </div>`;
}

const layout = (shown) => `8.5rem minmax(0, 3fr) ${shown.map(({ wide }) => (wide ? "minmax(0, 2fr)" : "4.5rem")).join(" ")}`;

/** The names of the columns, which sort by them: once, and once more in the other direction. */
function Order({ sort, shown, onChange }) {
  const next = (name) => (sort === name ? `-${name}` : sort === `-${name}` ? null : name);
  return html`<div class="order" style=${{ gridTemplateColumns: layout(shown) }} role="group" aria-label="Sort by">
    ${[...SORTED.slice(0, 2), ...shown].map(
      ({ name, title, wide }) =>
        html`<button type="button" data-test=${`sort-${name}`} class=${wide === undefined && COLUMNS.some((one) => one.name === name) ? "number" : ""} aria-pressed=${sort === name || sort === `-${name}`} onClick=${() => onChange(next(name))}>
          ${title}${sort === name ? html` <span aria-label="ascending">\u2191</span>` : sort === `-${name}` ? html` <span aria-label="descending">\u2193</span>` : ""}
        </button>`,
    )}
  </div>`;
}

function Choices({ known, shown, onChange }) {
  const turn = (name) => known.filter((one) => shown.includes(one) !== (one.name === name)).map((one) => one.name);
  return html`<details class="choices" data-test="columns">
    <summary>Columns</summary>
    ${known.map(
      (one) =>
        html`<label class="check"
          ><input type="checkbox" data-test=${`column-${one.name}`} checked=${shown.includes(one)} onChange=${() => onChange(turn(one.name).join(",") || "none")} /> ${one.title}</label
        >`,
    )}
  </details>`;
}

function Rows({ head, found, itemLink, selected, shown }) {
  const [, setNarrow] = useState(NARROW.matches);
  useEffect(() => {
    const changed = () => setNarrow(NARROW.matches);
    NARROW.addEventListener("change", changed);
    return () => NARROW.removeEventListener("change", changed);
  }, []);
  const ROW = heightOf(shown);
  const place = useRef(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);
  const wanted = useRef(null);
  useLayoutEffect(() => {
    const box = place.current;
    const observer = new ResizeObserver(() => {
      setHeight(box.clientHeight || 600);
      box.parentElement.style.setProperty("--bar", `${box.offsetWidth - box.clientWidth}px`); // for the names above
    });
    observer.observe(box);
    const at = found.indexOf(selected);
    if (at >= 0) box.scrollTop = Math.max(0, at * ROW - box.clientHeight / 2);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    const at = found.indexOf(selected);
    place.current.scrollTop = at > 0 ? Math.max(0, at * ROW - place.current.clientHeight / 2) : 0;
  }, [found]);
  useEffect(() => {
    if (wanted.current === null) return;
    const row = place.current.querySelector(`[data-row="${wanted.current}"]`);
    if (row) {
      row.focus();
      wanted.current = null;
    }
  });
  const printing = usePrinting();
  const first = printing ? 0 : Math.max(0, Math.floor(top / ROW) - SPARE);
  const last = Math.min(found.length, printing ? MOST_PRINTED : Math.ceil((top + height) / ROW) + SPARE);
  const go = (event) => {
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
    const now = Number(document.activeElement?.dataset?.row ?? -1);
    const next = Math.min(found.length - 1, Math.max(0, now + step));
    event.preventDefault();
    wanted.current = next;
    const box = place.current;
    if (next * ROW < box.scrollTop) box.scrollTop = next * ROW;
    else if ((next + 1) * ROW > box.scrollTop + box.clientHeight) box.scrollTop = (next + 1) * ROW - box.clientHeight;
    setTop(box.scrollTop + 0.001 * Math.random());
  };
  const rows = [];
  for (let at = first; at < last; at += 1) rows.push(html`<${Row} key=${found[at]} head=${head} item=${found[at]} at=${at} all=${found.length} itemLink=${itemLink} shown=${shown} height=${ROW} />`);
  const list = useRef(null);
  useLayoutEffect(() => {
    list.current.style.paddingTop = `${first * ROW}px`;
    list.current.style.paddingBottom = `${printing ? 0 : (found.length - last) * ROW}px`;
  });
  return html`<div class="rows" ref=${place} tabindex="0" role="region" aria-label="Items" data-test="rows" onScroll=${(event) => setTop(event.target.scrollTop)} onKeyDown=${go}>
    <ul ref=${list}>
      ${rows}
    </ul>
    ${printing && found.length > last && html`<p class="note">The first ${count(last)} of ${quantity(found.length, "item")}.</p>`}
    ${!found.length && html`<p class="empty">No item passes these filters.</p>`}
  </div>`;
}

function Row({ head, item, at, all, itemLink, shown, height }) {
  const { index } = head;
  const facts = [`#${item + 1}`];
  if (head.runs.length > 1) facts.push(`run ${head.runs[index.run[item]].label}`);
  if (head.models.length > 1) facts.push(head.models[index.model[item]]);
  if (head.judges.length > 1) facts.push(`judge ${head.judges[index.judge[item]]}`);
  if (index.replicate[item] > 1) facts.push(`replicate ${index.replicate[item]}`);
  return html`<li aria-setsize=${all} aria-posinset=${at + 1} style=${{ height: `${height}px` }}>
    <a class="row" data-test="item-row" data-row=${at} href=${itemLink(item)} style=${{ gridTemplateColumns: layout(shown) }}>
      <${Outcome} head=${head} outcome=${index.outcome[item]} />
      <span class="asked-for">
        <span class="question"><${Marked} text=${head.questions[index.question[item]].slice(0, 300)} /></span>
        <span class="about">${index.flip[item] ? html`<b class="flip">flipped</b> ` : ""}<${Marked} text=${facts.join(" \u00b7 ")} /></span>
      </span>
      ${shown.map(({ name, title, wide, of, shown: format }) => {
        const value = of(head, item);
        const text = value === null || value === "" ? "" : format ? format(value) : String(value);
        return html`<span class=${wide ? "value" : "value number"} data-test=${`cell-${name}`}
          ><span class="of">${title}${" "}</span>${text ? html`<${Marked} text=${text} />` : html`<span class="of">none</span>`}</span
        >`;
      })}
    </a>
  </li>`;
}
