// Build: the console as files that a server can send. Hashed names, so that they may be kept for ever; budgets,
// so that it stays quick. `node build.mjs --watch` builds again whenever something changes.

import { build, context } from "esbuild";
import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const here = dirname(fileURLToPath(import.meta.url));
const target = resolve(here, "../src/onceward/console/built");
/** Filled first, and put in place when it is whole: who reads while we build sees the old or the new. */
const fresh = join(here, `node_modules/.built-${process.pid}`);

/** Sheets of the frame, in this order; those of the screens follow by name. */
const FRAME_SHEETS = ["tokens", "base", "controls", "parts", "table", "chart", "dialog", "layout"];
/** Gzipped: what the first page loads before it can be used, and what one screen may add to it. */
const BUDGETS = { firstScript: 60_000, style: 15_000, screen: 60_000 };

const isWatching = process.argv.includes("--watch");

/** One sheet out of all of them, so that no screen can arrive without its looks. */
const sheets = {
  name: "sheets",
  setup(builder) {
    builder.onResolve({ filter: /^onceward:style$/ }, () => ({ path: "style.css", namespace: "sheets" }));
    builder.onLoad({ filter: /.*/, namespace: "sheets" }, async () => {
      const folder = join(here, "src/styles");
      const found = (await readdir(folder)).filter((name) => name.endsWith(".css")).map((name) => basename(name, ".css"));
      const screens = found.filter((name) => !FRAME_SHEETS.includes(name)).sort();
      const lines = [
        `@layer ${FRAME_SHEETS.join(", ")}, screens;`,
        ...FRAME_SHEETS.filter((name) => found.includes(name)).map((name) => `@import "./${name}.css" layer(${name});`),
        ...screens.map((name) => `@import "./${name}.css" layer(screens);`),
      ];
      return { contents: lines.join("\n"), loader: "css", resolveDir: folder, watchDirs: [folder] };
    });
  },
};

const options = {
  absWorkingDir: here,
  entryPoints: { main: "src/main.tsx", early: "src/early.ts", style: "onceward:style" },
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

/** Write the page and the manifest, weigh everything, and put it all in place. */
async function finish(result) {
  if (result.errors.length) return;
  const outputs = Object.entries(result.metafile.outputs).map(([path, output]) => ({ ...output, file: basename(path) }));
  const entry = (name) => outputs.find((output) => output.entryPoint?.endsWith(name));
  const files = { main: entry("src/main.tsx"), early: entry("src/early.ts"), style: entry("style.css") };
  const sizes = Object.fromEntries(await Promise.all(outputs.map(async ({ file }) => [file, await gzipped(file)])));
  const page = await readFile(join(here, "index.html"), "utf8");
  const address = (name) => `/assets/${files[name].file}`;
  const preloads = [...needs(outputs, files.main.file)].map((file) => `<link rel="modulepreload" href="/assets/${file}">`);
  const values = { early: address("early"), style: address("style"), main: address("main"), preloads: preloads.join("\n    ") };
  await writeFile(join(fresh, "index.html"), page.replace(/\{\{ (\w+) \}\}/g, (_, name) => values[name]));
  const weights = weigh(outputs, files, sizes);
  const manifest = {
    entries: Object.fromEntries(Object.keys(files).map((name) => [name, files[name].file])),
    gzipped_bytes: sizes,
    weights,
  };
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

/** Everything an entry needs before it can run: itself and what it imports at once. */
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

function weigh(outputs, files, sizes) {
  const sum = (names) => [...names].reduce((total, name) => total + (sizes[name] ?? 0), 0);
  const first = new Set([files.early.file, ...needs(outputs, files.main.file)]);
  const screens = outputs
    .filter((output) => output.entryPoint?.startsWith("src/screens/"))
    .map((output) => ({ name: output.entryPoint, size: sum([...needs(outputs, output.file)].filter((file) => !first.has(file))) }))
    .sort((a, b) => b.size - a.size);
  const overview = screens.find((screen) => screen.name.startsWith("src/screens/overview"));
  return [
    { what: "first load, scripts", gzipped_bytes: sum(first) + (overview?.size ?? 0), budget_bytes: BUDGETS.firstScript },
    { what: "first load, styles", gzipped_bytes: sizes[files.style.file], budget_bytes: BUDGETS.style },
    ...screens.map((screen) => ({ what: screen.name, gzipped_bytes: screen.size, budget_bytes: BUDGETS.screen })),
  ];
}

/** Say what everything weighs, and return what weighs too much. */
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
