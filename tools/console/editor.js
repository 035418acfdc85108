// The editor: <textarea data-editor="sql|yaml"> becomes a CodeMirror (the textarea stays the form's field and is kept in
// step), with completion, marks where something is wrong, and the tables of the source beside it.
// Stream modes, not grammars: they colour as well, at a fifth less weight.
import { history, historyKeymap, standardKeymap } from "@codemirror/commands";
import { StreamLanguage, bracketMatching, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { pgSQL } from "@codemirror/legacy-modes/mode/sql";
import { yaml } from "@codemirror/legacy-modes/mode/yaml";
import { EditorState } from "@codemirror/state";
import { EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { classHighlighter } from "@lezer/highlight";
import { completion } from "./complete.js";
import { followForm } from "./form.js";
import { goTo, mark, marks } from "./marks.js";
import { followTables, insertText } from "./tables.js";

const { nonce } = document.currentScript.dataset;
const LANGUAGES = { sql: StreamLanguage.define(pgSQL), yaml: StreamLanguage.define(yaml) };
const views = new Map(); // by the id of the textarea

function keepInStep(textarea) {
  return EditorView.updateListener.of((update) => {
    if (!update.docChanged) return;
    textarea.value = update.state.doc.toString();
    textarea.dispatchEvent(new Event("input", { bubbles: true }));
  });
}

function extensions(textarea) {
  const label = document.querySelector(`label[for="${textarea.id}"]`);
  const attributes = { "aria-label": label ? label.textContent.trim() : textarea.name, "data-for": textarea.id };
  const note = textarea.getAttribute("aria-describedby");
  if (note) attributes["aria-describedby"] = note;
  const isSql = textarea.dataset.editor === "sql";
  return [
    lineNumbers(),
    history(),
    highlightActiveLine(),
    indentOnInput(),
    bracketMatching(),
    EditorView.lineWrapping,
    syntaxHighlighting(classHighlighter),
    LANGUAGES[textarea.dataset.editor],
    keymap.of([...standardKeymap, ...historyKeymap]), // Tab is left alone: it leaves the field, as everywhere
    EditorView.contentAttributes.of(attributes),
    EditorView.cspNonce.of(nonce), // pages allow no other styles than their own
    keepInStep(textarea),
    isSql ? [completion(), marks] : [],
  ];
}

function upgrade(textarea) {
  const state = EditorState.create({ doc: textarea.value, extensions: extensions(textarea) });
  const view = new EditorView({ state });
  textarea.after(view.dom);
  textarea.hidden = true;
  views.set(textarea.id, view);
}

function upgradeAll() {
  document.querySelectorAll("textarea[data-editor]:not([hidden])").forEach(upgrade);
}

const theSelect = () => {
  const view = views.get("f-source_query");
  return view?.dom.isConnected ? view : null;
};

upgradeAll();
followForm(() => views.forEach((view) => view.requestMeasure()));
followTables((text, isTable, byPointer) => {
  const view = theSelect();
  if (view) insertText(view, text, isTable, byPointer);
});
document.addEventListener("htmx:afterSettle", () => {
  upgradeAll();
  const found = document.querySelector("[data-marks]");
  const view = theSelect();
  if (!found || !view) return;
  mark(view, JSON.parse(found.dataset.marks));
  found.removeAttribute("data-marks");
});
document.addEventListener("click", (event) => {
  const place = event.target.closest("[data-go]");
  const view = theSelect();
  if (place && view) goTo(view, Number(place.dataset.go));
});
