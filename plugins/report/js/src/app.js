// The page: it reads its data, and shows the view that the address names after the #.
import { html } from "htm/preact";
import { render } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Comparison } from "./comparison.js";
import { canUnpack, readHead } from "./data.js";
import { quantity } from "./format.js";
import { Item } from "./item.js";
import { Items, select } from "./items.js";
import { LabelFile, useLabels } from "./labels.js";
import { Summary } from "./summary.js";
import { plain } from "./text.js";

const FORMAT = 1;
const FILTERS = ["text", "responses", "outcome", "run", "model", "judge", "keyword", "question", "flipped", "sort", "columns"];

/** Return the address of a view: `#items?outcome=wrong`. */
function link(view, values = {}) {
  const given = Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const words = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
  return given.length ? `#${view}?${words}` : `#${view}`;
}

function readAddress() {
  const [view, words = ""] = location.hash.slice(1).split(/\?(.*)/s);
  return { view: view || "summary", values: Object.fromEntries(new URLSearchParams(words)) };
}

function Page({ head }) {
  const [{ view, values }, setAddress] = useState(readAddress);
  const [selected, setSelected] = useState(-1);
  const help = useRef(null);
  const labels = useLabels(head);
  useLayoutEffect(() => { // before the page is painted: nobody can have followed a link yet
    const changed = () => setAddress(readAddress());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  const filters = useMemo(() => Object.fromEntries(FILTERS.map((name) => [name, values[name] ?? null])), [values]);
  const at = view === "item" ? Number(values.at) - 1 : -1;
  const valid = Number.isInteger(at) && at >= 0 && at < head.index.id.length;
  const shown = view === "item" && !valid ? "items" : view;
  useEffect(() => {
    if (valid) setSelected(at);
  }, [at, valid]);
  useEffect(() => {
    const names = { summary: "Summary", items: "Items", comparison: "Comparison", item: `Item ${at + 1}` };
    document.title = `${names[shown] ?? "Summary"} - ${plain(head.runs.map((run) => run.name).join(", ")).slice(0, 80)} - Karenina report`;
    if (shown !== "items") scrollTo(0, 0);
  }, [shown, at]);
  const itemLink = (one) => link("item", { ...filters, at: one + 1 });
  const listed = useMemo(() => (valid ? select(head, { ...filters, responses: null, text: filters.responses ? null : filters.text }, null) : []), [valid, filters]);
  const place = listed.indexOf(at);
  const neighbours = { before: listed[place - 1] ?? null, after: place >= 0 ? (listed[place + 1] ?? null) : null };
  useLayoutEffect(() => { // before the view can be seen: a key pressed at once is for what is shown
    const pressed = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const typing = /^(input|select|textarea)$/i.test(event.target.tagName);
      if (event.key === "Escape" && help.current?.open) return;
      if (event.key === "Escape" && shown === "item") location.hash = link("items", filters);
      if (typing) return;
      if (event.key === "/") {
        event.preventDefault();
        if (shown !== "items") location.hash = link("items", filters);
        setTimeout(() => document.getElementById("search")?.focus(), 50);
      }
      if (event.key === "?") help.current?.showModal();
      if (shown === "item" && event.key === "j" && neighbours.after !== null) location.hash = itemLink(neighbours.after);
      if (shown === "item" && event.key === "k" && neighbours.before !== null) location.hash = itemLink(neighbours.before);
      if ((event.key === "j" || event.key === "k") && shown === "items" && !document.activeElement?.dataset?.row) {
        document.querySelector("[data-row]")?.focus();
      }
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  });
  const files = new Set(head.runs.map(({ source }) => source));
  const of = head.runs[0].source && files.size === 1 && head.runs.length > 1 ? `of ${head.runs.length} models` : `in ${quantity(head.runs.length, "run")}`;
  const views = [["summary", "Summary"], ...(head.comparison ? [["comparison", "Comparison"]] : []), ["items", "Items"]];
  return html`<a class="skip" href="#main" onClick=${(event) => (event.preventDefault(), document.getElementById("main").focus())}>Skip to the content</a>
    <header>
      <h1>Karenina report</h1>
      <p class="about">${quantity(head.index.id.length, "item")} ${of}, written ${head.created.slice(0, 16).replace("T", " ")} UTC</p>
      <nav aria-label="Views">
        ${views.map(
          ([name, title]) =>
            html`<a href=${link(name)} aria-current=${name === shown || (name === "items" && shown === "item") ? "page" : undefined}>${title}</a>`,
        )}
        <button type="button" class="help" aria-label="Keys" onClick=${() => help.current.showModal()}>?</button>
      </nav>
    </header>
    <${LabelFile} labels=${labels} />
    <main id="main" tabindex="-1">
      ${shown === "items"
        ? html`<${Items} head=${head} filters=${filters} selected=${selected} itemLink=${itemLink} setFilters=${(next) => history.replaceState(null, "", link("items", next)) ?? setAddress(readAddress())} />`
        : shown === "item"
          ? html`<${Item} key=${at} head=${head} labels=${labels} at=${at} link=${link} itemLink=${itemLink} closeLink=${link("items", filters)} neighbours=${neighbours} />`
          : shown === "comparison" && head.comparison
            ? html`<${Comparison} head=${head} link=${link} />`
            : html`<${Summary} head=${head} link=${link} />`}
    </main>
    <dialog ref=${help} aria-label="Keys">
      <h2>Keys</h2>
      <dl class="facts">
        <dt>/</dt>
        <dd>search the items</dd>
        <dt>j, k or arrows</dt>
        <dd>next and previous item</dd>
        <dt>Enter</dt>
        <dd>open the item</dd>
        <dt>Esc</dt>
        <dd>close the item</dd>
        <dt>?</dt>
        <dd>this list</dd>
      </dl>
      <form method="dialog"><button>Close</button></form>
    </dialog>`;
}

function tell(text) {
  const app = document.getElementById("app");
  app.textContent = text;
  app.setAttribute("role", "alert");
  app.className = "problem";
}

async function start() {
  if (!canUnpack()) {
    tell("This browser cannot open the report: it lacks DecompressionStream. Use a browser of 2023 or later.");
    return;
  }
  try {
    const head = await readHead();
    if (head.format !== FORMAT) throw new Error(`The format ${head.format} of its data is not known.`);
    render(html`<${Page} head=${head} />`, document.getElementById("app"));
    document.documentElement.dataset.ready = "true";
  } catch (error) {
    tell(`The report cannot be read. ${error.message ?? error}`);
  }
}

start();
