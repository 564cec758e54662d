import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { terminalSvg } from '../../../scripts/terminal-svg.ts';

it('the terminal SVG shows lines in their colours, all of them from its first frame', () => {
  const svg = terminalSvg('demo', ['\u001b[32m0 failed\u001b[39m; a < b & c']);
  expect(svg).toContain('>$ demo</text>');
  expect(svg).toContain('><tspan class="g">0 failed</tspan>; a &lt; b &amp; c</text>');
  expect(svg).not.toContain('animation');
  expect(svg).not.toContain('\u001b');
});

it('the terminal SVG is of a demo in which nothing failed', () => {
  const svg = readFileSync('docs/demo.svg', 'utf8');
  expect(svg.match(/<tspan class="g">0 failed<\/tspan>/g)).toHaveLength(3);
  expect(svg).toContain('map ip fairlead endpoints-');
  // Times would be those of the demo's own load.
  expect(svg).not.toMatch(/\d (?:ms|µs|s)\b/);
  expect(svg).not.toContain('animation');
  expect(svg.length).toBeLessThan(16_384);
});
