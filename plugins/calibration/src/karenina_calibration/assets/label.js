// The page for labelling. Texts of models only ever become text nodes; nothing is requested from anywhere.
"use strict";

const REPLIES = [
  { key: "y", name: "Yes", value: true },
  { key: "n", name: "No", value: false },
  { key: "u", name: "Unclear", value: null },
];
// Controls but tab and newline, invisible and bidirectional formatting characters, lone surrogates.
const UNSEEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]|\udb40[\udc00-\udc7f]/g;
const markOf = (found) => `\u27e8U+${found.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}\u27e9`;
const shown = (text) => String(text ?? "").replace(UNSEEN, markOf);

function make(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children) made.append(typeof child === "string" ? document.createTextNode(shown(child)) : child);
  return made;
}

async function readHead() {
  const block = document.getElementById("karenina-head");
  if (!block) throw new Error("The data is missing: the file is not complete.");
  const packed = Uint8Array.from(atob(block.textContent), (ch) => ch.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

const storage = {
  read(key) {
    try {
      return window.localStorage.getItem(key);
    } catch {
      return null;
    }
  },
  write(key, value) {
    try {
      window.localStorage.setItem(key, value);
      return true;
    } catch {
      return false;
    }
  },
};

class Labels {
  // What one labeller says, stored as a draft under the digest of the results.
  constructor(head) {
    this.head = head;
    this.stored = true;
    this.open(head.labeller || (storage.read(this.last()) ?? ""));
  }

  open(labeller) {
    this.labeller = labeller;
    storage.write(this.last(), labeller); // so that a page that is opened again shows its drafts
    const draft = storage.read(this.place());
    this.items = new Map(draft ? JSON.parse(draft) : []);
  }

  last() {
    return `karenina-labels/${this.head.digest}`;
  }

  place() {
    return `karenina-labels/${this.head.digest}/${this.labeller}`;
  }

  // A draft for other right values than those that the page shows does not count.
  of(item) {
    const known = this.items.get(item.item);
    if (known && known.truth === item.truth_id) return known;
    const made = { replies: {}, note: "", time: "", truth: item.truth_id };
    this.items.set(item.item, made);
    return made;
  }

  set(item, question, value) {
    const own = this.of(item);
    own.replies[question] = value;
    this.touch(own);
  }

  note(item, text) {
    const own = this.of(item);
    own.note = text;
    this.touch(own);
  }

  touch(own) {
    own.time = new Date().toISOString().replace(/\.\d+Z$/, "+00:00");
    this.stored = storage.write(this.place(), JSON.stringify([...this.items]));
  }

  isDone(item) {
    const { replies } = this.of(item);
    return questionsOf(item).every((one) => one.id in replies);
  }

  isBegun(item) {
    return Object.keys(this.of(item).replies).length > 0 && !this.isDone(item);
  }

  line(item) {
    const { replies, note, time } = this.of(item);
    const extractions = item.extractions
      .map((one, at) => ({ kind: one.kind, name: one.name, value: one.value, right: replies[`e${at}`] }))
      .filter((one) => one.right !== undefined);
    const label = { item: item.item, labeller: this.labeller, time, right: replies.verdict ?? null, extractions };
    return JSON.stringify({ label: { ...label, blind: this.head.blind, note, truth: item.truth_id } });
  }
}

/** Return the questions about an item: the answer first, and then each extracted value. */
function questionsOf(item) {
  const first = item.asks_verdict ? [{ id: "verdict", text: "Is the answer right?" }] : [];
  const others = item.extractions.map((one, at) => ({
    id: `e${at}`,
    text: one.asked,
  }));
  return [...first, ...others];
}

class Page {
  constructor(head, root) {
    this.head = head;
    this.root = root;
    this.labels = new Labels(head);
    this.at = Math.max(0, this.nextOpen(0));
    document.addEventListener("keydown", (event) => this.press(event));
    this.build();
    this.show();
  }

  nextOpen(from) {
    return this.head.items.findIndex((item, at) => at >= from && !this.labels.isDone(item));
  }

  /** Return the first open question; those after the first are shown once it has a reply, which they could sway. */
  openQuestion(item) {
    return questionsOf(item).find((one) => !(one.id in this.labels.of(item).replies));
  }

  build() {
    const name = make("input", { id: "labeller", value: this.labels.labeller, autocomplete: "off", "data-test": "labeller" });
    name.addEventListener("change", () => {
      this.labels.open(name.value.trim());
      this.at = Math.max(0, this.nextOpen(0));
      this.show();
    });
    this.progress = make("p", { role: "status", "data-test": "progress" });
    this.main = make("main", { tabindex: "-1" });
    this.problem = make("p", { role: "alert", class: "problem", "data-test": "problem" });
    this.root.replaceChildren(
      make(
        "header",
        {},
        make("h1", {}, "Labels"),
        make("label", { for: "labeller" }, "Your name "),
        name,
        make("button", { type: "button", "data-test": "save", onclick: () => this.save() }, "Save the file (s)"),
        this.progress,
      ),
      this.problem,
      this.main,
      make("footer", {}, "Keys: y yes, n no, u unclear, left and right arrow for other answers, s save. Drafts stay in this browser."),
    );
  }

  show() {
    const { items } = this.head;
    const done = items.filter((one) => this.labels.isDone(one)).length;
    const begun = items.filter((one) => this.labels.isBegun(one)).length;
    this.progress.textContent = `${done} of ${items.length} labelled${begun ? `, ${begun} with an open question` : ""}`;
    this.problem.textContent = this.labels.stored ? "" : "This browser stores no drafts: save before you close the page.";
    if (!items.length) {
      this.main.replaceChildren(make("p", {}, "There is nothing to label: every drawn answer has your label."));
      return;
    }
    const item = items[this.at];
    const asked = questionsOf(item);
    const first = asked[0];
    const replies = this.labels.of(item).replies;
    const visible = !first || first.id in replies ? asked : [first];
    const open = this.openQuestion(item);
    const note = make("textarea", { rows: "2", "data-test": "note", "aria-label": "Note" }, this.labels.of(item).note);
    note.addEventListener("input", () => this.labels.note(item, note.value));
    this.main.replaceChildren(
      make("h2", { "data-test": "number" }, `Answer ${this.at + 1} of ${items.length}`),
      ...this.fact("Question", item.question, "question"),
      ...(item.attachments ?? []).map((file) => this.attachment(file)),
      ...this.fact("Answer", item.answer, "answer"),
      ...(item.truth ? this.fact("Truth", item.truth, "truth") : []),
      ...(item.why ? this.fact("Asked again", item.why, "why") : []),
      ...item.verdicts.flatMap((one) => this.fact("Verdict", one, "verdict")),
      ...visible.map((one) => this.group(item, one, replies[one.id], one.id === open?.id)),
      make("details", { open: this.labels.of(item).note !== "" }, make("summary", {}, "Note"), note),
      make(
        "nav",
        { "aria-label": "Answers" },
        make("button", { type: "button", disabled: this.at === 0, onclick: () => this.move(-1) }, "Previous"),
        make("button", { type: "button", disabled: this.at === items.length - 1, onclick: () => this.move(1) }, "Next"),
      ),
    );
  }

  fact(name, text, test) {
    return [make("h3", {}, name), make("p", { class: "text", "data-test": test }, text)];
  }

  attachment(file) {
    const text = make("figcaption", {}, [file.name, file.type, file.note].filter(Boolean).join("; "));
    if (!file.picture) return make("figure", { "data-test": "attachment" }, text);
    const picture = make("img", { src: `data:${file.picture};base64,${file.data}`, alt: shown(file.name) });
    return make("figure", { "data-test": "attachment" }, picture, text);
  }

  group(item, question, reply, isOpen) {
    const id = `question-${question.id}`;
    const buttons = REPLIES.map((one) =>
      make(
        "button",
        {
          type: "button",
          "aria-pressed": String(reply === one.value),
          onclick: () => this.reply(item, question.id, one.value),
        },
        isOpen ? `${one.name} (${one.key})` : one.name,
      ),
    );
    const text = make("p", { id, "data-test": "asked" }, question.text);
    return make("div", { role: "group", "aria-labelledby": id, class: isOpen ? "open" : "asked" }, text, ...buttons);
  }

  reply(item, id, value) {
    if (!this.labels.labeller) {
      // The focus stays where it is, or the next key would be part of the name.
      this.problem.textContent = "Write your name first: labels say who gave them.";
      return;
    }
    this.labels.set(item, id, value);
    if (!this.openQuestion(item)) {
      const next = this.nextOpen(this.at + 1);
      if (next >= 0) this.go(next);
    }
    this.show();
    this.main.focus({ preventScroll: true }); // the button that had the focus is replaced
  }

  move(step) {
    this.go(Math.min(this.head.items.length - 1, Math.max(0, this.at + step)));
    this.show();
    this.main.focus({ preventScroll: true });
  }

  go(at) {
    this.at = at;
    window.scrollTo(0, 0);
  }

  press(event) {
    const typing = ["INPUT", "TEXTAREA"].includes(event.target.tagName);
    if (typing && event.key === "Enter" && event.target.id === "labeller") event.target.blur();
    if (typing || event.ctrlKey || event.metaKey || event.altKey || !this.head.items.length) return;
    const item = this.head.items[this.at];
    const reply = REPLIES.find((one) => one.key === event.key.toLowerCase());
    const open = this.openQuestion(item);
    if (reply && open) this.reply(item, open.id, reply.value);
    else if (event.key === "ArrowLeft") this.move(-1);
    else if (event.key === "ArrowRight") this.move(1);
    else if (event.key === "s") this.save();
    else return;
    event.preventDefault();
  }

  save() {
    const done = this.head.items.filter((item) => this.labels.isDone(item));
    if (!done.length) {
      this.problem.textContent = "Nothing is labelled yet: an answer counts when all its questions have a reply.";
      return;
    }
    const lines = done.map((item) => `${this.labels.line(item)}\n`);
    const name = this.labels.labeller.replace(/[^\p{L}\p{N}_-]+/gu, "-");
    const address = URL.createObjectURL(new Blob(lines, { type: "application/jsonl" }));
    const link = make("a", { href: address, download: `${this.head.file}.labels-${name}.jsonl` });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(address), 60000);
    this.problem.textContent = "";
  }
}

async function start() {
  const root = document.getElementById("app");
  try {
    new Page(await readHead(), root);
  } catch (error) {
    root.textContent = `The page cannot be shown: ${error.message}`;
  }
  document.documentElement.dataset.ready = "true";
}

start();
