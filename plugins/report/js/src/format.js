// Numbers as people read them.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export const count = (value) => whole.format(value);

export const share = (value) => (value === null || value === undefined ? "" : `${(100 * value).toFixed(1)}%`);

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
