// Tables, and the blocks of sections.
import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { cell, isNumeric } from "./format.js";
import { Plot } from "./plots.js";
import { Marked } from "./text.js";

const FIRST_ROWS = 12;

export function Table({ columns, rows, caption, label }) {
  const [all, setAll] = useState(false);
  const shown = all ? rows : rows.slice(0, FIRST_ROWS);
  return html`<div class="wide" tabindex="0" role="region" aria-label=${label ?? "Table"}>
    <table>
      ${caption && html`<caption>${html`<${Marked} text=${caption} />`}</caption>`}
      <thead>
        <tr>
          ${columns.map(({ name, kind }) => html`<th scope="col" class=${isNumeric(kind) ? "number" : ""}><${Marked} text=${name} /></th>`)}
        </tr>
      </thead>
      <tbody>
        ${shown.map(
          (row) =>
            html`<tr>
              ${row.map((value, at) => {
                const kind = columns[at].kind;
                const text = html`<${Marked} text=${cell(kind, value)} />`;
                return at === 0 ? html`<th scope="row">${text}</th>` : html`<td class=${isNumeric(kind) ? "number" : ""}>${text}</td>`;
              })}
            </tr>`,
        )}
      </tbody>
    </table>
    ${rows.length > shown.length &&
    html`<button type="button" onClick=${() => setAll(true)}>Show all ${rows.length} rows</button>`}
  </div>`;
}

export function Section({ section }) {
  return html`<section data-section=${section.id}>
    <h2><${Marked} text=${section.title} /></h2>
    ${section.blocks.map((block) =>
      block.kind === "text"
        ? html`<p><${Marked} text=${block.text} /></p>`
        : html`${block.plot && block.rows.length > 0 && html`<${Plot} table=${block} title=${section.title} />`}
            <${Table} columns=${block.columns} rows=${block.rows} label=${section.title} />
            ${block.note && html`<p class="note"><${Marked} text=${block.note} /></p>`}`,
    )}
  </section>`;
}
