/**
 * How long is the longest turn of the event loop when an event of the node concerns all Services?
 * It is measured in each mode that this kernel can run.
 */
import { builtModes } from '../src/modes/index.ts';
import { type Size, sizeName } from './lib/cluster.ts';
import { inNamespace } from './lib/namespace.ts';
import { number, table } from './lib/stats.ts';

const size: Size = { services: 8000, endpoints: 30 };

const measurement = new URL('./lib/turns-of-mode.ts', import.meta.url).pathname;

/** As in `bin/fairlead`: what collections of the heap take of a turn depends on them. */
const heapFlags = ['--max-semi-space-size=4', '--max-old-space-size=1024'];

export async function turns(): Promise<string> {
  const rows: string[][] = [];
  const missing: string[] = [];
  let events: readonly string[] = [];
  for (const { name } of builtModes().values()) {
    const taken = await inNamespace('turns', (namespace): Record<string, number> | null => {
      const args = [...heapFlags, measurement, name, String(size.services), String(size.endpoints)];
      namespace.run('ip', ['link', 'set', 'lo', 'up']);
      return JSON.parse(namespace.run(process.execPath, args));
    });
    if (taken === null) {
      missing.push(name);
      continue;
    }
    events = Object.keys(taken);
    rows.push([name, ...Object.values(taken).map(number)]);
  }
  const cannot = missing.map((name) => `; this kernel cannot run mode ${name}`).join('');
  const title = `The longest turn at ${sizeName(size)}, CPU time; ms${cannot}`;
  return [title, table(['mode', ...events], rows)].join('\n\n');
}
