/** What a reader sees of a page: nothing is cut off, hidden, or over something else. */
import assert from 'node:assert/strict';
import type { Page } from 'playwright-core';

interface Layout {
  /** Wider than the screen, or than the part of it that they have. */
  readonly wide: readonly string[];
  /** Cells with a text that is not shown. */
  readonly hidden: readonly string[];
  /** Cells of a card without the name of their column. */
  readonly nameless: readonly string[];
  /** Pairs of texts, one over the other. */
  readonly over: readonly string[];
  /** Pieces of text that were compared. */
  readonly pieces: number;
}

/** Runs in the browser, which has no types of Node. */
const measure = `(() => {
  const rightPx = document.documentElement.clientWidth;
  const name = (one) => one.textContent.trim().replace(/\\s+/g, ' ').slice(0, 60);
  const isShown = (one) => one.checkVisibility() && one.getBoundingClientRect().width > 0;
  const inner = [...document.querySelectorAll('.wide')];
  const cells = [...document.querySelectorAll('tbody th, tbody td')].filter(name);
  const pieces = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (!node.textContent.trim() || node.parentElement.closest('pre, script, option')) continue;
    if (!node.parentElement.checkVisibility()) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const { left, right, top, bottom } of range.getClientRects()) {
      const text = name(node);
      if (right > left) pieces.push({ text, left, right, top: top + 3, bottom: bottom - 3 });
    }
  }
  pieces.sort((a, b) => a.top - b.top);
  const over = [];
  pieces.forEach((a, i) => {
    for (let k = i + 1; k < pieces.length && pieces[k].top < a.bottom; k += 1) {
      const b = pieces[k];
      const sharedPx = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      if (sharedPx > 1) over.push(a.text + ' | ' + b.text);
    }
  });
  const isNameless = (cell) =>
    cell.tagName === 'TD' && getComputedStyle(cell.parentElement).display === 'flex' &&
    !getComputedStyle(cell, '::before').content.includes(cell.dataset.name);
  return {
    wide: [
      ...pieces.filter((one) => one.left < 0 || one.right > rightPx + 1).map((one) => one.text),
      ...[...inner, ...document.querySelectorAll('pre')]
        .filter((one) => one.scrollWidth > one.clientWidth + 1)
        .map(name),
    ],
    hidden: cells.filter((cell) => !isShown(cell)).map(name),
    nameless: cells.filter(isNameless).map(name),
    over,
    pieces: pieces.length,
  };
})()`;

/** Throws an AssertionError that names the texts. `what`: the page and the size. */
export async function checkLayout(page: Page, what: string): Promise<void> {
  const { pieces, ...faults } = (await page.evaluate(measure)) as Layout;
  assert(pieces > 10, `${what} has text`);
  const none = { wide: [], hidden: [], nameless: [], over: [] };
  assert.deepEqual(faults, none, `${what}: texts that cannot be read`);
}
