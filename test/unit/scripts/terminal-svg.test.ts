import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { terminalSvg } from '../../../scripts/terminal-svg.ts';

it('the terminal SVG shows lines in their colours, when they were printed', () => {
  const svg = terminalSvg('demo', [
    { atSeconds: 1.234, text: '\u001b[32m0 failed\u001b[39m; a < b & c' },
  ]);
  expect(svg).toContain('style="animation-delay:0.00s">$ demo</text>');
  const line = '<tspan class="g">0 failed</tspan>; a &lt; b &amp; c';
  expect(svg).toContain(`style="animation-delay:1.23s">${line}</text>`);
  expect(svg).not.toContain('\u001b');
});

it('the terminal SVG is of a demo in which nothing failed', () => {
  const svg = readFileSync('docs/demo.svg', 'utf8');
  expect(svg.match(/<tspan class="g">0 failed<\/tspan>/g)).toHaveLength(3);
  expect(svg).toContain('map endpoints-');
  expect(svg.length).toBeLessThan(16_384);
});
