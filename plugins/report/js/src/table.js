// Tables, and the blocks of sections. On a narrow screen each row is a list of its cells with the names of the columns.
import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { cell, isNumeric } from "./format.js";
import { Plot } from "./plots.js";
import { usePrinting } from "./print.js";
import { Marked, plain } from "./text.js";

const FIRST_ROWS = 12;

/** A table of nodes: columns are { name, number }, and rows { cells, ...attributes }. Its roles hold in any layout. */
export function Cells({ columns, rows, caption, label, kind }) {
  return html`<div class="wide" tabindex="0" role="region" aria-label=${label}>
    <table role="table" class=${kind}>
      ${caption && html`<caption><${Marked} text=${caption} /></caption>`}
      <thead role="rowgroup">
        <tr role="row">
          ${columns.map(({ name, number }) => html`<th scope="col" role="columnheader" class=${number ? "number" : ""}><${Marked} text=${name} /></th>`)}
        </tr>
      </thead>
      <tbody role="rowgroup">
        ${rows.map(
          ({ cells, ...attributes }) =>
            html`<tr role="row" ...${attributes}>
              ${cells.map((content, at) =>
                at === 0
                  ? html`<th scope="row" role="rowheader">${content}</th>`
                  : html`<td role="cell" class=${columns[at].number ? "number" : ""} data-name=${plain(columns[at].name)}><div>${content}</div></td>`,
              )}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

export function Table({ columns, rows, caption, label }) {
  const [all, setAll] = useState(false);
  const shown = usePrinting() || all ? rows : rows.slice(0, FIRST_ROWS);
  return html`<${Cells}
      label=${label ?? "Table"}
      caption=${caption}
      columns=${columns.map(({ name, kind }) => ({ name, number: isNumeric(kind) }))}
      rows=${shown.map((row) => ({ cells: row.map((value, at) => html`<${Marked} text=${cell(columns[at].kind, value)} />`) }))}
    />
    ${rows.length > shown.length &&
    html`<button type="button" onClick=${() => setAll(true)}>Show all ${rows.length} rows</button>`}`;
}

/** Whether a plot would show anything: runs that only have scores have no rates. */
function isDrawable({ plot, columns, rows }) {
  if (!plot || plot.kind !== "intervals") return plot && rows.length > 0;
  return rows.some((row) => row[columns.findIndex(({ name }) => name === plot.value)] !== null);
}

export function Section({ section }) {
  return html`<section data-section=${section.id}>
    <h2><${Marked} text=${section.title} /></h2>
    ${section.blocks.map((block) =>
      block.kind === "text"
        ? html`<p><${Marked} text=${block.text} /></p>`
        : html`${isDrawable(block) && html`<${Plot} table=${block} title=${section.title} />`}
            <${Table} columns=${block.columns} rows=${block.rows} label=${section.title} />
            ${block.note && html`<p class="note"><${Marked} text=${block.note} /></p>`}`,
    )}
  </section>`;
}
