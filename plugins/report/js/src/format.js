// Numbers as people read them.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export const count = (value) => whole.format(value);

/** A share as a percentage. One that is neither 0 nor 1 has as many decimal places as it takes not to be shown as 0% or 100%. */
export function share(value) {
  if (value === null || value === undefined) return "";
  const percent = 100 * value;
  const isWhole = (places) => [0, 100].includes(Number(percent.toFixed(places)));
  const places = value > 0 && value < 1 ? [1, 2, 3, 4, 5, 6, 7, 8, 9].find((one) => !isWhole(one)) : 1;
  return `${percent.toFixed(places ?? 1)}%`;
}

/** A difference of shares in percentage points, with its sign. */
export function points(value) {
  if (value === null || value === undefined) return "";
  const text = Math.abs(100 * value).toFixed(2);
  return `${value > 0 ? "+" : value < 0 ? "\u2212" : "\u00b1"}${text}`;
}

export const pValue = (value) =>
  value === null || value === undefined ? "" : value < 0.0001 ? "< 0.0001" : value.toFixed(value < 0.01 ? 4 : 3);

/** The p value with its name: p = 0.012, p < 0.0001. */
export const pEquals = (value) => (value < 0.0001 ? `p ${pValue(value)}` : `p = ${pValue(value)}`);

export function seconds(value) {
  if (value === null || value === undefined) return "";
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
  value === null || value === undefined ? "" : Number.isInteger(value) ? count(value) : value.toFixed(3);

const KINDS = { share, count: (value) => (value === null ? "" : count(value)), number, usd, seconds };

export const cell = (kind, value) => (value === null || value === undefined ? "" : (KINDS[kind] ?? String)(value));

export const isNumeric = (kind) => kind in KINDS;

export const quantity = (amount, noun) => `${count(amount)} ${noun}${amount === 1 ? "" : "s"}`;
