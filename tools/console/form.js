// The form: fields that do not matter are out of sight, and what is not saved is not left without a question.
const RULE = /^(\w+)([=~])(.*)$/s;

function matters(form, rule) {
  const [, name, how, wanted] = RULE.exec(rule);
  const value = form.elements[name]?.value ?? "";
  return how === "~" ? value.includes(wanted) : wanted.split(",").includes(value.trim());
}

// What differs from its default is seen, whether it matters or not: nothing is saved that nobody saw.
function isSet(field) {
  const input = field.querySelector("[name]");
  const value = input.type === "checkbox" ? (input.checked ? input.value : "") : input.value;
  return value.trim() !== (field.dataset.default ?? "").trim();
}

export function followForm(seen) {
  let unsaved = Boolean(document.querySelector("#editor[data-unsaved]"));
  const look = () => {
    const form = document.getElementById("editor");
    for (const field of form?.querySelectorAll("[data-when]") ?? []) {
      field.hidden = !matters(form, field.dataset.when) && !isSet(field);
    }
    seen();
  };
  for (const kind of ["input", "change"]) {
    document.addEventListener(kind, (event) => {
      const input = event.target.closest("#editor [name]");
      if (!input) return;
      unsaved = true;
      if (kind === "change" || !event.target.closest("[data-editor=yaml]")) look();
    });
  }
  document.addEventListener("htmx:afterSettle", (event) => {
    if (event.target.id !== "editor") return;
    look();
    listZones();
  });
  document.addEventListener("submit", (event) => {
    if (event.target.id === "editor") unsaved = false;
  });
  window.addEventListener("beforeunload", (event) => {
    if (unsaved) event.preventDefault();
  });
  look();
  listZones();
}

function listZones() {
  const list = document.getElementById("zones");
  if (!list || list.options.length) return;
  for (const zone of Intl.supportedValuesOf("timeZone")) list.append(new Option("", zone));
}
