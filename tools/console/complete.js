// Tables, columns and keywords as one writes; nothing is chosen before one asks for it, so Enter stays Enter.
import { autocompletion } from "@codemirror/autocomplete";
import { syntaxTree } from "@codemirror/language";
import { KEYWORDS, quoted, readIn, tables } from "./catalogue.js";

const WRITTEN = /(?:[\w$]+\.)?[\w$]*$/;

const ofColumn = ({ name, type, text }, boost = 0) => ({
  label: name,
  apply: quoted(name),
  type: "property",
  detail: type,
  info: text || undefined,
  boost,
});
const ofTable = ({ schema, name, text }, withSchema) => ({
  label: withSchema ? `${schema}.${name}` : name,
  apply: withSchema ? `${quoted(schema)}.${quoted(name)}` : quoted(name),
  type: "class",
  info: text || undefined,
});

function after(prefix, read, known) {
  const columns = read.filter(({ name }) => name === prefix.toLowerCase()).flatMap(({ table }) => table.columns);
  if (columns.length) return columns.map((column) => ofColumn(column));
  return known.filter(({ schema }) => schema === prefix).map((table) => ofTable(table, false));
}

function everything(read, known) {
  const columns = read.flatMap(({ table }) => table.columns).map((column) => [column.name, ofColumn(column, 2)]);
  const words = KEYWORDS.map((word) => ({ label: word, type: "keyword" }));
  return [...new Map(columns).values(), ...known.map((table) => ofTable(table, true)), ...words];
}

function offer(context) {
  const written = context.matchBefore(WRITTEN);
  if (!written || (written.from === written.to && !context.explicit)) return null;
  if (/string|comment/i.test(syntaxTree(context.state).resolveInner(context.pos, -1).name)) return null;
  const known = tables();
  const read = readIn(context.state.doc.toString(), known);
  const [prefix, rest] = written.text.includes(".") ? written.text.split(".") : [null, written.text];
  if (prefix === null && rest.length < 2 && !context.explicit) return null;
  const options = prefix === null ? everything(read, known) : after(prefix, read, known);
  return { from: context.pos - rest.length, options, validFor: /^[\w$]*$/ };
}

export const completion = () => autocompletion({ override: [offer], selectOnOpen: false, icons: false });
