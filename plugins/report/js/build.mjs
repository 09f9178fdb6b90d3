// Builds the script and the style of the report page, and the licences of what the script contains.
//
//   npm ci && npm run build [-- FOLDER]
//
// writes app.js, app.css and LICENSES.txt to FOLDER, by default the folder from which Python reads them.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const output = process.argv[2] ?? join(here, "../src/karenina_report/page/assets");
const lock = JSON.parse(readFileSync(join(here, "package-lock.json"), "utf8"));

const common = { bundle: true, minify: true, charset: "ascii", legalComments: "none", write: false, absWorkingDir: here };
const script = await build({
  ...common,
  entryPoints: ["src/app.js"],
  format: "iife",
  target: ["chrome103", "firefox113", "safari16.4"], // those that have DecompressionStream, or were near to it
  metafile: true,
});
const style = await build({ ...common, entryPoints: ["src/app.css"], target: ["chrome103", "firefox113", "safari16.4"] });

const text = script.outputFiles[0].text;
if (/<\/script|<!--/i.test(text)) throw new Error("the script contains a tag that would end it");

mkdirSync(output, { recursive: true });
writeFileSync(join(output, "app.js"), text);
writeFileSync(join(output, "app.css"), style.outputFiles[0].text);
writeFileSync(join(output, "LICENSES.txt"), licences(script.metafile));

function licences(metafile) {
  const folders = new Set();
  for (const [file, { bytesInOutput }] of Object.entries(Object.values(metafile.outputs)[0].inputs)) {
    const found = /^(?:\.\.\/)*(node_modules\/(?:@[^/]+\/)?[^/]+(?:\/node_modules\/(?:@[^/]+\/)?[^/]+)*)\//.exec(file);
    if (found && bytesInOutput > 0) folders.add(found[1]);
  }
  const parts = [...folders].sort().map((folder) => {
    const entry = lock.packages[folder];
    if (!entry) throw new Error(`${folder} is not in package-lock.json`);
    const name = folder.slice(folder.lastIndexOf("node_modules/") + "node_modules/".length);
    const file = readdirSync(join(here, folder)).find((one) => /^licen[cs]e/i.test(one));
    if (!file) throw new Error(`${name} has no licence file`);
    const licence = readFileSync(join(here, folder, file), "utf8").replace(/\r\n/g, "\n").trim();
    return `${name} ${entry.version} (${entry.license})\n\n${licence}\n`;
  });
  const head = "The script of the report page (app.js) contains these packages.\n";
  return [head, ...parts].join(`\n${"-".repeat(80)}\n\n`);
}
