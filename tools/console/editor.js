// Stream modes, not grammars: they colour as well, at a fifth less weight.
// Turns <textarea data-editor="sql|yaml"> into a CodeMirror; the textarea stays the form's field and is kept in step.
import { history, historyKeymap, standardKeymap } from "@codemirror/commands";
import { StreamLanguage, bracketMatching, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { pgSQL } from "@codemirror/legacy-modes/mode/sql";
import { yaml } from "@codemirror/legacy-modes/mode/yaml";
import { EditorState } from "@codemirror/state";
import { EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { classHighlighter } from "@lezer/highlight";

const { nonce } = document.currentScript.dataset;
const LANGUAGES = { sql: StreamLanguage.define(pgSQL), yaml: StreamLanguage.define(yaml) };

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
  ];
}

function upgrade(textarea) {
  const state = EditorState.create({ doc: textarea.value, extensions: extensions(textarea) });
  const view = new EditorView({ state });
  textarea.after(view.dom);
  textarea.hidden = true;
}

document.querySelectorAll("textarea[data-editor]").forEach(upgrade);
