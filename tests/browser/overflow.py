"""What does not fit: pages wider than their window, things that stick out of it, words broken amid their letters."""

from playwright.sync_api import Page

# What scrolls by itself may be wider than it is shown; what is for screen readers alone is nowhere.
OVERFLOW = r"""() => {
  const found = [];
  const name = (e) => `<${e.tagName.toLowerCase()}${e.id ? "#" + e.id : ""} class="${e.getAttribute("class") ?? ""}">`;
  const scrolls = (e) => e && e !== document.documentElement && (
    /auto|scroll|hidden|clip/.test(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
  const shown = (e) => e.checkVisibility() && !e.closest(".unseen, .skip, svg, [hidden]");
  const wide = document.documentElement.scrollWidth;
  if (wide > innerWidth) found.push(`${wide} pixels wide in ${innerWidth}`);
  for (const e of document.body.querySelectorAll("*")) {
    if (!shown(e)) continue;
    const box = e.getBoundingClientRect();
    if (box.width && (box.right > innerWidth + 1 || box.left < -1) && !scrolls(e)) found.push(`sticks out: ${name(e)}`);
    if (/^(BUTTON|A|LABEL|TH|DT|H[1-3]|SUMMARY|LEGEND)$/.test(e.tagName) && e.scrollWidth > e.clientWidth + 1 &&
        e.clientWidth && !scrolls(e)) found.push(`does not hold its text: ${name(e)} ${e.textContent.trim()}`);
  }
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  while (walker.nextNode()) {
    const { data, parentElement } = walker.currentNode;
    if (!data.trim() || !shown(parentElement) || parentElement.closest("code, pre, .cm-editor, .log, td")) continue;
    for (const word of data.matchAll(/\p{L}{2,24}/gu)) {
      range.setStart(walker.currentNode, word.index);
      range.setEnd(walker.currentNode, word.index + word[0].length);
      const lines = new Set([...range.getClientRects()].filter((r) => r.width).map((r) => Math.round(r.top)));
      if (lines.size > 1) found.push(`a broken word: ${word[0]} in ${name(parentElement)}`);
    }
  }
  return [...new Set(found)];
}"""


def overflow(page: Page) -> list[str]:
    """What does not fit the page as it is shown now."""
    return list(page.evaluate(OVERFLOW))
