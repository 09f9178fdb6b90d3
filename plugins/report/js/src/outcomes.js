// The colors and signs of outcomes. Colors are from the palette of Okabe and Ito, which people who are color-blind can
// tell apart; each outcome also has a sign and its name.
import { html } from "htm/preact";

const SIGNS = { right: "\u2713", partial: "\u25d0", wrong: "\u2717", failed: "\u2298", scored: "\u2605", undecided: "\u225f", not_judged: "?" };

const COLORS = {
  correct: "#0072b2",
  partial: "#e69f00",
  wrong: "#d55e00",
  truncated: "#8c6510",
  abstained: "#cc79a7",
  insufficient: "#9b6bb3",
  auto_failed: "#6f4685",
  scored: "#56b4e9",
  undecided: "#00877a",
};
const GRAYS = ["#7d8590", "#9aa1a9", "#5f666e", "#b3b9bf", "#474d54", "#8a8f95"];

export const colorOf = (name, at = 0) => COLORS[name] ?? GRAYS[at % GRAYS.length];

export const wordsOf = (name) => name.replaceAll("_", " ");

export function Outcome({ head, outcome }) {
  const { name, class: kind } = head.outcomes[outcome];
  return html`<span class="outcome" data-outcome=${name} data-class=${kind}
    ><span class="sign" aria-hidden="true">${SIGNS[kind] ?? "?"}</span> ${wordsOf(name)}</span
  >`;
}
