// Numbers as people read them.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export const count = (value) => whole.format(value);

/** The number of tokens of one kind. Servers that report no tokens leave it 0, although there were calls. */
export const tokens = (value, calls) => (calls && !value ? "not reported" : count(value));

/** A share as a percentage. One that is neither 0 nor 1 has as many decimal places as it takes not to be shown as 0% or 100%. */
export function share(value) {
  if (value === null || value === undefined) return "";
  const isWhole = (text) => [0, 100].includes(Number(text));
  return `${value > 0 && value < 1 ? rounded(100 * value, 1, isWhole) : (100 * value).toFixed(1)}%`;
}

/** A number with some decimal places, or with as many more as it takes not to be misread as another one. */
function rounded(value, least, isMisread) {
  const texts = Array.from({ length: 10 - least }, (_, more) => value.toFixed(least + more));
  return texts.find((text) => !isMisread(text)) ?? texts[0];
}

/** A difference of shares in percentage points, with its sign. */
export function points(value) {
  if (value === null || value === undefined) return "";
  const text = rounded(Math.abs(100 * value), 2, (one) => value !== 0 && Number(one) === 0);
  return `${value > 0 ? "+" : value < 0 ? "\u2212" : "\u00b1"}${text}`;
}

export const pValue = (value) =>
  value === null || value === undefined ? "" : pText(value);

function pText(value) {
  if (value < 0.0001) return "< 0.0001";
  if (value >= 0.9995 && value < 1) return "> 0.999";
  const text = value.toFixed(3);
  return value < 0.01 || text === "0.050" ? value.toFixed(4) : text;
}

/** The p value with its name: p = 0.012, p < 0.0001. */
export const pEquals = (value) => (/^[<>]/.test(pValue(value)) ? `p ${pValue(value)}` : `p = ${pValue(value)}`);

export function seconds(value) {
  if (value === null || value === undefined) return "";
  if (value > 0 && value < 0.005) return "< 0.01 s";
  if (value < 10) return `${value.toFixed(2)} s`;
  if (value < 600) return `${value.toFixed(0)} s`;
  const minutes = Math.round(value / 60);
  return minutes < 120 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function usd(value) {
  if (value === null || value === undefined) return "";
  if (value > 0 && value < 1e-6) return "below $0.000001";
  return value === 0 ? "$0" : `$${value.toFixed(value < 0.01 ? 6 : value < 1 ? 4 : 2)}`;
}

export const number = (value) =>
  value === null || value === undefined ? "" : Number.isInteger(value)
    ? count(value)
    : rounded(value, 3, (text) => Number.isInteger(Number(text)));

const KINDS = { share, count: (value) => (value === null ? "" : count(value)), number, usd, seconds };

export const cell = (kind, value) => (value === null || value === undefined ? "" : (KINDS[kind] ?? String)(value));

export const isNumeric = (kind) => kind in KINDS;

export const quantity = (amount, noun) => `${count(amount)} ${noun}${amount === 1 ? "" : "s"}`;
