/** Measures README.md's picture of the demo in a browser: its text must keep the terminal's columns. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';

/** Fonts place characters at fractions of a pixel. */
const tolerancePx = 0.5;

interface Line {
  readonly text: string;
  /** Where each drawn character starts. Collapsed spaces are missing. */
  readonly startsPx: readonly number[];
}

const measure = `[...document.querySelectorAll('text')].map((line) => ({
  text: line.textContent,
  startsPx: Array.from(
    { length: line.getNumberOfChars() },
    (_, i) => line.getStartPositionOfChar(i).x,
  ),
}))`;

/** Throws when a character is not drawn in its column. Leaves a screenshot in `folder`. */
export async function measurePicture(browser: Browser, folder: string): Promise<void> {
  const page = await browser.newPage();
  await page.setContent(readFileSync('docs/demo.svg', 'utf8'));
  const lines = (await page.evaluate(measure)) as Line[];
  await page.screenshot({ path: join(folder, 'demo.png'), fullPage: true });
  await page.close();
  const longest = lines.reduce((a, b) => (b.text.length > a.text.length ? b : a)).startsPx;
  const [firstPx = 0] = longest;
  const columnPx = ((longest.at(-1) ?? 0) - firstPx) / (longest.length - 1);
  assert(columnPx > 1, 'the picture has text');
  for (const { text, startsPx } of lines) {
    assert.equal(startsPx.length, text.length, `spaces are missing in: ${text}`);
    for (const [column, px] of startsPx.entries()) {
      const offPx = Math.abs(px - firstPx - column * columnPx);
      assert(offPx < tolerancePx, `column ${column} is ${offPx} px off in: ${text}`);
    }
  }
  console.log(`demo.svg: ${lines.length} lines keep their columns`);
}
