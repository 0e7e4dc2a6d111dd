// Build: make the documents and assets that the servers send. Assets have hashed names, so that browsers may keep
// them forever; budgets keep each page quick. `node build.mjs --watch` builds again whenever a source changes.

import { build, context } from "esbuild";
import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const here = dirname(fileURLToPath(import.meta.url));
const target = resolve(here, "../src/onceward/http/built");
/** Filled first, and put in place when complete: a reader sees the old files or the new ones. */
const fresh = `${target}-${process.pid}`;

/** Style sheets of the console's frame, in this order; those of the screens follow by name. */
const FRAME_SHEETS = ["tokens", "base", "controls", "parts", "table", "chart", "dialog", "layout"];

/**
 * The documents, one per application. `NAME.html` is the template, `script` what it starts. Each has one style sheet
 * of its own: `layers` in this order, then `rest` in one layer (all other sheets of `src/styles` when not given).
 * Modules below `screens` are loaded when needed. Budgets are gzipped bytes: of all scripts of a first load (with the
 * screen `first`, if there is one), of the style sheet, of what one screen adds, and of everything that a screen needs.
 */
const DOCUMENTS = [
  {
    name: "index",
    title: "console",
    script: "src/main.tsx",
    layers: FRAME_SHEETS,
    screens: "src/screens/",
    first: "src/screens/overview",
    budgets: { script: 60_000, style: 15_000, screen: 60_000 },
  },
  {
    name: "chat",
    title: "chat",
    script: "src/chat/main.tsx",
    layers: ["tokens", "base", "controls", "parts", "dialog"],
    rest: ["chat", "documents/page", "../chat/page"],
    budgets: { script: 25_000, style: 8_000 },
  },
  {
    name: "lab",
    title: "Lab",
    script: "src/lab/main.tsx",
    layers: ["tokens", "base", "controls", "parts", "table", "dialog"],
    rest: ["experiments", "lab", "documents/page"],
    screens: "src/lab/screens/",
    budgets: { page: 60_000 },
  },
];
/** Runs before the first paint, in every document. */
const EARLY = "src/early.ts";

const isWatching = process.argv.includes("--watch");

/** One sheet per document, made of all that it needs, so that no screen can arrive without its styles. */
const sheets = {
  name: "sheets",
  setup(builder) {
    builder.onResolve({ filter: /^onceward:style\// }, ({ path }) => ({ path: path.split("/").at(-1), namespace: "sheets" }));
    builder.onLoad({ filter: /.*/, namespace: "sheets" }, async ({ path }) => {
      const folder = join(here, "src/styles");
      const { layers, rest } = DOCUMENTS.find(({ name }) => `${name}.css` === path);
      const found = (await readdir(folder)).filter((name) => name.endsWith(".css")).map((name) => basename(name, ".css"));
      const screens = rest ?? found.filter((name) => !layers.includes(name)).sort();
      const lines = [
        `@layer ${layers.join(", ")}, screens;`,
        ...layers.map((name) => `@import "./${name}.css" layer(${name});`),
        ...screens.map((name) => `@import "./${name}.css" layer(screens);`),
      ];
      return { contents: lines.join("\n"), loader: "css", resolveDir: folder, watchDirs: [folder] };
    });
  },
};

const options = {
  absWorkingDir: here,
  entryPoints: Object.fromEntries([
    ["early", EARLY],
    ...DOCUMENTS.flatMap(({ name, script }) => [
      [name === "index" ? "main" : name, script],
      [name === "index" ? "style" : `${name}-style`, `onceward:style/${name}.css`],
    ]),
  ]),
  outdir: join(fresh, "assets"),
  entryNames: "[name]-[hash]",
  chunkNames: "[name]-[hash]",
  bundle: true,
  splitting: true,
  format: "esm",
  target: ["es2022", "chrome111", "firefox115", "safari16.4"],
  jsx: "automatic",
  jsxImportSource: "preact",
  minify: true,
  legalComments: "none",
  charset: "utf8",
  metafile: true,
  logLevel: "warning",
  plugins: [sheets, { name: "finish", setup: (builder) => builder.onEnd(finish) }],
};

if (isWatching) await (await context(options)).watch();
else await build(options).catch(() => process.exit(1));

/** Write the documents and the manifest, check the budgets, and put everything in place. */
async function finish(result) {
  if (result.errors.length) return;
  const outputs = Object.entries(result.metafile.outputs).map(([path, output]) => ({ ...output, file: basename(path) }));
  const sizes = Object.fromEntries(await Promise.all(outputs.map(async ({ file }) => [file, await gzipped(file)])));
  const entry = (name) => outputs.find((output) => output.entryPoint?.endsWith(name)).file;
  const early = entry(EARLY);
  const entries = { early };
  const weights = [];
  for (const { name, title, script, ...about } of DOCUMENTS) {
    const files = { script: entry(script), style: entry(`:${name}.css`) };
    const first = needs(outputs, files.script);
    const values = {
      early: `/assets/${early}`,
      style: `/assets/${files.style}`,
      main: `/assets/${files.script}`,
      preloads: [...first].map((file) => `<link rel="modulepreload" href="/assets/${file}">`).join("\n    "),
    };
    const template = await readFile(join(here, `${name}.html`), "utf8");
    await writeFile(join(fresh, `${name}.html`), template.replace(/\{\{ (\w+) \}\}/g, (_, key) => values[key]));
    entries[name] = files;
    weights.push(...weigh({ title, ...about }, outputs, sizes, new Set([early, ...first]), sizes[files.style]));
  }
  const manifest = { entries, gzipped_bytes: sizes, weights };
  await writeFile(join(fresh, "manifest.json"), `${JSON.stringify(manifest, null, 2)}\n`);
  const problems = tooHeavy(weights);
  if (problems.length && !isWatching) {
    for (const problem of problems) console.error(`error: ${problem}`);
    process.exitCode = 1;
    await rm(fresh, { recursive: true, force: true });
    return;
  }
  await putInPlace();
}

async function gzipped(file) {
  return gzipSync(await readFile(join(fresh, "assets", file)), { level: 9 }).length;
}

/** Everything that a file needs before it can run: itself and its static imports. */
function needs(outputs, start) {
  const found = new Set();
  const visit = (file) => {
    if (found.has(file)) return;
    found.add(file);
    const output = outputs.find((each) => each.file === file);
    for (const each of output?.imports ?? []) if (each.kind === "import-statement") visit(basename(each.path));
  };
  visit(start);
  return found;
}

/** Return the gzipped sizes of a document's first load and of its screens, each with its budget. */
function weigh({ title, screens, first: firstScreen, budgets }, outputs, sizes, first, style) {
  const sum = (names) => [...names].reduce((total, name) => total + (sizes[name] ?? 0), 0);
  const added = outputs
    .filter((output) => screens && output.entryPoint?.startsWith(screens))
    .map((output) => ({ name: output.entryPoint, size: sum([...needs(outputs, output.file)].filter((file) => !first.has(file))) }))
    .sort((a, b) => b.size - a.size);
  const opened = firstScreen ? added.find(({ name }) => name.startsWith(firstScreen)).size : 0;
  const limited = (what, gzipped_bytes, budget_bytes) => (budget_bytes ? [{ what, gzipped_bytes, budget_bytes }] : []);
  return [
    ...limited(`${title}: first load, scripts`, sum(first) + opened, budgets.script),
    ...limited(`${title}: styles`, style, budgets.style),
    ...added.flatMap(({ name, size }) => limited(name, size, budgets.screen)),
    ...added.flatMap(({ name, size }) => limited(`${name}, with all that it needs`, sum(first) + style + size, budgets.page)),
  ];
}

/** Print every size, and return what is above its budget. */
function tooHeavy(weights) {
  for (const { what, gzipped_bytes, budget_bytes } of weights) {
    console.log(`${kB(gzipped_bytes)} of ${kB(budget_bytes)} kB gz  ${what}`);
  }
  return weights
    .filter((each) => each.gzipped_bytes > each.budget_bytes)
    .map((each) => `${each.what}: ${kB(each.gzipped_bytes)} kB gzipped are more than the budget of ${kB(each.budget_bytes)} kB`);
}

function kB(bytes) {
  return (bytes / 1000).toFixed(1).padStart(5);
}

async function putInPlace() {
  const old = `${fresh}-old`;
  await mkdir(target, { recursive: true });
  await rename(target, old);
  await rename(fresh, target);
  await rm(old, { recursive: true, force: true });
}
