// Plots as SVG. Each stands beside the table that it shows.
import { barX, dot, link, plot, ruleX } from "@observablehq/plot";
import { html } from "htm/preact";
import { useEffect, useRef } from "preact/hooks";
import { colorOf, wordsOf } from "./outcomes.js";
import { count, share } from "./format.js";
import { Marked, plain } from "./text.js";

const MOST_ROWS = 60;
const LONGEST_LABEL = 28;

export function Plot({ table, title }) {
  const place = useRef(null);
  useEffect(() => {
    const draw = () => {
      const width = Math.max(280, Math.min(860, place.current.clientWidth));
      const svg = (table.plot.kind === "intervals" ? intervals : bars)(table, width);
      for (const style of svg.querySelectorAll("style")) style.remove(); // app.css has the rules; the policy allows no other
      for (const part of svg.querySelectorAll("[aria-label]")) part.removeAttribute("aria-label"); // the image has one name
      svg.setAttribute("role", "img");
      svg.setAttribute("aria-label", `${plain(title)}: a plot of the table below`);
      place.current.replaceChildren(svg);
    };
    draw();
    const observer = new ResizeObserver(() => requestAnimationFrame(draw));
    observer.observe(place.current.parentElement);
    return () => observer.disconnect();
  }, [table]);
  const rows = table.rows.length;
  return html`<figure class="plot">
    <div ref=${place}></div>
    <figcaption>
      ${seriesOf(table).map(
        (name, at) =>
          html`<span class="series"
            ><svg width="12" height="12" viewBox="0 0 12 12" aria-hidden="true">${keyOf(SERIES[at % SERIES.length])}</svg> <${Marked} text=${`${table.plot.series} ${name}`}
          /></span>`,
      )}
      ${rows > MOST_ROWS && html`<span>The first ${MOST_ROWS} of ${rows} rows. </span>`}
      <button type="button" data-test="save-svg" onClick=${() => save(place.current.firstChild, title)}>Save as SVG</button>
    </figcaption>
  </figure>`;
}

function keyOf({ stroke: fill, symbol }) {
  if (symbol === "circle") return html`<circle cx="6" cy="6" r="5" fill=${fill} />`;
  if (symbol === "square") return html`<rect x="1" y="1" width="10" height="10" fill=${fill} />`;
  return html`<path d=${symbol === "triangle" ? "M6 1 11 11H1Z" : "M6 0 12 6 6 12 0 6Z"} fill=${fill} />`;
}

function records({ columns, rows }) {
  return rows
    .slice(0, MOST_ROWS)
    .map((row, at) => ({ at, ...Object.fromEntries(columns.map(({ name }, place) => [name, row[place]])) }));
}

/** Return short labels: the beginnings, and also the ends of those that would be equal. */
function labelsOf(found, label) {
  const texts = found.map((row) => plain(row[label] ?? ""));
  const cut = (text, end) => (text.length > LONGEST_LABEL ? `${text.slice(0, LONGEST_LABEL - 1 - end)}\u2026${text.slice(text.length - end)}` : text);
  const short = texts.map((text) => cut(text, 0));
  return texts.map((text, at) => (short.indexOf(short[at]) === short.lastIndexOf(short[at]) ? short[at] : cut(text, 14)));
}

function frame(found, labels, width, options, line = 26) {
  const left = Math.min(width * 0.4, 12 + 7 * Math.max(4, ...labels.map((text) => text.length)));
  return plot({
    width,
    height: 46 + line * found.length,
    marginLeft: left,
    marginRight: 16,
    marginTop: 8,
    marginBottom: 36,
    className: "karenina-plot",
    ...options,
    y: { ...options.y, domain: found.map((row) => row.at), tickFormat: (at) => labels[at], label: null, tickSize: 0 },
  });
}

const SERIES = [
  { stroke: "#0072b2", symbol: "circle" },
  { stroke: "#d55e00", symbol: "square" },
  { stroke: "#009e73", symbol: "triangle" },
  { stroke: "#cc79a7", symbol: "diamond" },
];
const APART = 13;

const seriesOf = ({ plot: { series }, rows, columns }) =>
  series ? [...new Set(rows.map((row) => row[columns.findIndex(({ name }) => name === series)]))] : [];

/** Rows with one label share a line: those of each series are drawn a little below those of the one before. */
function intervals(table, width) {
  const { label, value, low, high, series } = table.plot;
  const names = seriesOf(table);
  const labels = new Map();
  const found = records(table).map((row) => {
    const key = series ? row[label] : row.at;
    if (!labels.has(key)) labels.set(key, { at: labels.size, [label]: row[label] });
    return { ...row, at: labels.get(key).at };
  });
  const lines = [...labels.values()];
  const drawn = (series ? names : [null]).flatMap((name, place, all) => {
    const known = found.filter((row) => row[value] !== null && (!series || row[series] === name));
    const { stroke, symbol } = SERIES[place % SERIES.length];
    const dy = (place - (all.length - 1) / 2) * APART;
    const whose = series ? `, ${series} ${plain(name)}` : "";
    return [
      link(known, { x1: low, x2: high, y1: "at", y2: "at", stroke, strokeWidth: 2, dy }),
      dot(known, { x: value, y: "at", fill: stroke, symbol, r: 4.5, dy, title: (row) => `${plain(row[label])}${whose}: ${share(row[value])}` }),
    ];
  });
  return frame(
    lines,
    labelsOf(lines, label),
    width,
    {
      x: { domain: [0, 1], tickFormat: (at) => `${Math.round(100 * at)}%`, label: value, grid: true, ticks: width < 420 ? 3 : 5 },
      y: { type: "point" },
      marks: [ruleX([0]), ...drawn],
    },
    Math.max(26, 12 + APART * names.length),
  );
}

/** Return about `most` whole numbers up to `largest`, in steps of 1, 2 or 5 times a power of ten. */
function wholeTicks(largest, most) {
  const least = Math.max(1, largest / most);
  const power = 10 ** Math.floor(Math.log10(least));
  const step = power * [1, 2, 5, 10].find((one) => one * power >= least);
  return Array.from({ length: Math.floor(largest / step) + 1 }, (_, at) => at * step);
}

function bars(table, width) {
  const { label, counts } = table.plot;
  const found = records(table);
  const pieces = found.flatMap((row) => {
    let start = 0;
    return counts
      .map((name, place) => {
        const piece = { at: row.at, name, start, end: start + (row[name] ?? 0), color: colorOf(name, place), row };
        start = piece.end;
        return piece;
      })
      .filter((piece) => piece.end > piece.start);
  });
  return frame(found, labelsOf(found, label), width, {
    x: { label: "Items", grid: true, tickFormat: count, ticks: wholeTicks(Math.max(0, ...pieces.map(({ end }) => end)), width < 420 ? 3 : 6) },
    marks: [
      barX(pieces, {
        x1: "start",
        x2: "end",
        y: "at",
        fill: "color",
        insetTop: 3,
        insetBottom: 3,
        insetRight: 1,
        title: (piece) => `${plain(piece.row[label])}: ${piece.end - piece.start} ${wordsOf(plain(piece.name))}`,
      }),
      ruleX([0]),
    ],
    color: { type: "identity" },
  });
}

function save(svg, title) {
  const copy = svg.cloneNode(true);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("font-family", "system-ui, sans-serif");
  copy.setAttribute("font-size", "12");
  copy.setAttribute("color", "#111");
  saveAs(`${plain(title).replace(/[^\w-]+/g, "-").toLowerCase() || "plot"}.svg`, copy.outerHTML, "image/svg+xml");
}

export function saveAs(name, text, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
