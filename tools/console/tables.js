// The tree of tables beside the SELECT: searched as one types, and what is pressed is inserted.
import { quoted, readIn, tableOf, tables } from "./catalogue.js";

const all = (selector, within = document) => [...within.querySelectorAll(selector)];

function search(text) {
  const wanted = text.trim().toLowerCase();
  const holds = (...parts) => parts.join(" ").toLowerCase().includes(wanted);
  let count = 0;
  for (const item of all("#tables [data-table]")) {
    const isTable = holds(`${item.dataset.schema}.${item.dataset.table}`, item.dataset.text);
    const columns = all("[data-column]", item);
    const found = columns.filter(({ dataset }) => holds(dataset.column, dataset.text));
    for (const column of columns) column.hidden = Boolean(wanted) && !isTable && !found.includes(column);
    item.hidden = !isTable && !found.length;
    item.querySelector("details").open = Boolean(wanted) && found.length > 0;
    count += item.hidden ? 0 : 1;
  }
  const none = document.querySelector("#tables [data-none]");
  if (none) none.hidden = count > 0 || !wanted;
}

// A name on its own needs no comma; after another one it does.
export function insertText(view, text, isTable, byPointer) {
  const { from, to } = view.state.selection.main;
  const before = view.state.sliceDoc(Math.max(0, from - 1), from);
  const apart = !before || /[\s(.,]/.test(before) ? "" : isTable ? " " : ", ";
  const insert = apart + text + (/[\w"]/.test(view.state.sliceDoc(to, to + 1)) ? " " : "");
  view.dispatch({ changes: { from, to, insert }, selection: { anchor: from + insert.length }, scrollIntoView: true });
  if (byPointer) view.focus();
  else window.announce?.(text); // whoever goes by keyboard stays where they are
}

export function followTables(insert) {
  document.addEventListener("input", (event) => {
    if (event.target.matches("[data-find]")) search(event.target.value);
  });
  document.addEventListener("htmx:afterSettle", (event) => {
    if (event.target.id === "tables") search(document.querySelector("[data-find]")?.value ?? "");
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-insert]");
    if (!button) return;
    const table = tableOf(button.closest("[data-table]"));
    const isTable = button.dataset.insert === "table";
    insert(isTable ? `${quoted(table.schema)}.${quoted(table.name)}` : named(button, table), isTable, event.detail > 0);
  });
}

// A column under the name by which the SELECT reads its table.
function named(button, table) {
  const column = quoted(button.closest("[data-column]").dataset.column);
  const sql = document.getElementById("f-source_query")?.value ?? "";
  const read = readIn(sql, tables()).find((one) => one.table.schema === table.schema && one.table.name === table.name);
  return read ? `${quoted(read.name)}.${column}` : column;
}
