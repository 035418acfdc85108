// Where something is wrong in the SELECT: the word is underlined, and its line has a tint.
import { StateEffect, StateField } from "@codemirror/state";
import { Decoration, EditorView } from "@codemirror/view";

const put = StateEffect.define();
const WORD = /^(?:(?:"[^"]*"|[\p{L}\p{N}_$]+)(?:\.(?:"[^"]*"|[\p{L}\p{N}_$]+))*|\S)/u;

// The server counts characters from 1, the editor UTF-16 units from 0.
function unitOf(text, at) {
  let unit = 0;
  for (let seen = 1; seen < at && unit < text.length; seen += 1) unit += text.codePointAt(unit) > 0xffff ? 2 : 1;
  return unit;
}

function decorate(state, found) {
  const text = state.doc.toString();
  const ranges = found.flatMap(({ at, text: said, level }) => {
    const from = Math.min(unitOf(text, at), Math.max(text.trimEnd().length - 1, 0));
    const to = Math.min(from + Math.max(WORD.exec(text.slice(from))?.[0].length ?? 1, 1), text.length);
    if (from >= to) return [];
    const word = Decoration.mark({ class: `cm-wrong is-${level}`, attributes: { title: said } });
    return [Decoration.line({ class: "cm-wrongLine" }).range(state.doc.lineAt(from).from), word.range(from, to)];
  });
  return Decoration.set(ranges, true);
}

export const marks = StateField.define({
  create: () => Decoration.none,
  update(shown, transaction) {
    const fresh = transaction.effects.find((effect) => effect.is(put));
    return fresh ? decorate(transaction.state, fresh.value) : shown.map(transaction.changes);
  },
  provide: (field) => EditorView.decorations.from(field),
});

export function mark(view, found) {
  view.dispatch({ effects: put.of(found) });
}

export function goTo(view, at) {
  const anchor = Math.min(unitOf(view.state.doc.toString(), at), view.state.doc.length);
  view.dispatch({ selection: { anchor }, scrollIntoView: true });
  view.focus();
}
