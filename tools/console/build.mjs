// Builds and copies what the console serves. Nothing here runs when Vitrina runs: the results are committed.
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const STATIC = "../../src/vitrina/control/console/static/vendor";
const TESTS = "../../tests/browser/vendor";
mkdirSync(STATIC, { recursive: true });
mkdirSync(TESTS, { recursive: true });

// Of all the dialects of SQL, only the one that is used.
const oneDialect = {
  name: "one-dialect",
  setup({ onLoad }) {
    onLoad({ filter: /legacy-modes\/mode\/sql\.js$/ }, ({ path }) => ({
      contents: readFileSync(path, "utf8").replace(/(?<=[:=] )(sql|set)\(/g, "/* @__PURE__ */ $1("),
    }));
  },
};

await build({
  entryPoints: ["editor.js"],
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  legalComments: "none",
  plugins: [oneDialect],
  outfile: `${STATIC}/editor.js`,
});
copyFileSync("node_modules/htmx.org/dist/htmx.min.js", `${STATIC}/htmx.js`);
copyFileSync("node_modules/uplot/dist/uPlot.iife.min.js", `${STATIC}/uplot.js`);
copyFileSync("node_modules/uplot/dist/uPlot.min.css", `${STATIC}/uplot.css`);
copyFileSync("node_modules/axe-core/axe.min.js", `${TESTS}/axe.js`);

// The licences of what is inside, beside it.
const PARTS = {
  "CodeMirror and Lezer (editor.js)": "@codemirror/state",
  "htmx (htmx.js)": "htmx.org",
  "uPlot (uplot.js, uplot.css)": "uplot",
};
const licences = Object.entries(PARTS).map(([title, name]) => {
  const version = JSON.parse(readFileSync(`node_modules/${name}/package.json`)).version;
  return `${title}, ${name} ${version}\n\n${readFileSync(`node_modules/${name}/LICENSE`, "utf8").trim()}\n`;
});
writeFileSync(`${STATIC}/LICENSES.txt`, licences.join(`\n${"-".repeat(80)}\n\n`));

for (const name of ["editor.js", "htmx.js", "uplot.js", "uplot.css"]) {
  const bytes = readFileSync(`${STATIC}/${name}`);
  console.log(`${name}: ${bytes.length} bytes, ${gzipSync(bytes).length} gzipped`);
}
