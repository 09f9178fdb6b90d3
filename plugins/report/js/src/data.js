// The data of the page: JSON, compressed and in base64, in blocks that are read when they are needed.

const cache = new Map();
const MOST_CACHED = 24;

/** Keep the digits of whole numbers that JavaScript would round, where the browser can. */
const whole = (key, value, { source } = {}) => (Number.isInteger(value) && !Number.isSafeInteger(value) && JSON.rawJSON ? JSON.rawJSON(source) : value);

async function unpack(id, reviver) {
  const block = document.getElementById(`karenina-${id}`);
  if (!block) throw new Error(`The data block ${id} is missing: the file is not complete.`);
  const packed = Uint8Array.from(atob(block.textContent), (ch) => ch.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text(), reviver);
}

export const canUnpack = () => typeof DecompressionStream === "function";

export const readHead = () => unpack("head");

/** Return the items of a chunk. The last used ones stay in memory. */
export function readChunk(number) {
  const known = cache.get(number);
  if (known) {
    cache.delete(number);
    cache.set(number, known);
    return known;
  }
  const found = unpack(`chunk-${number}`, whole);
  cache.set(number, found);
  if (cache.size > MOST_CACHED) cache.delete(cache.keys().next().value);
  return found;
}

export async function readItem(head, at) {
  const chunk = await readChunk(Math.floor(at / head.chunk_size));
  return chunk[at % head.chunk_size];
}

let texts = null;

/** Return a text for each item in which responses are searched, in lower case. All chunks are read once. */
export function searchTexts(head) {
  texts ??= (async () => {
    const found = [];
    const chunks = Math.ceil(head.index.id.length / head.chunk_size);
    for (let number = 0; number < chunks; number += 1) {
      for (const item of await unpack(`chunk-${number}`)) found.push(searchText(item));
    }
    return found;
  })();
  return texts;
}

function searchText(item) {
  const parts = [item.result.template?.raw_llm_response ?? "", item.why];
  for (const field of item.fields) parts.push(field.extracted ?? "", field.truth ?? "", field.reason ?? "");
  return parts.join("\n").toLowerCase();
}
