/** Runs the demo in a terminal and writes docs/demo.svg, the picture of it that README.md shows. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { terminalSvg } from './terminal-svg.ts';

const main = fileURLToPath(new URL('demo/main.ts', import.meta.url));
const program = fileURLToPath(new URL('../src/main.ts', import.meta.url));
const picture = fileURLToPath(new URL('../docs/demo.svg', import.meta.url));

/** `script` (util-linux) gives the demo a terminal, so that it uses colours. */
const demo = spawn('script', ['-qec', `${process.execPath} ${main} ${program}`, '/dev/null'], {
  stdio: ['ignore', 'pipe', 'inherit'],
  env: { ...process.env, NO_COLOR: undefined, FORCE_COLOR: '1' },
});
const ended = once(demo, 'close');
const lines = (await text(demo.stdout)).trimEnd().split(/\r?\n/);
const [exitCode] = await ended;
if (exitCode !== 0) throw new Error(`the demo failed: ${lines.at(-1)}`);
// The rules of the kernel would make the picture twice as high.
const end = lines.findIndex((line) => line.includes('what the kernel holds'));
writeFileSync(picture, terminalSvg('npm run demo', [...lines.slice(0, end), '…']));
