/** The report of a packet that this node sends, and that `fairlead trace` follows. */
import type { Trace } from '../../ask/trace.ts';
import type { Line } from '../../serve/ask/report/lines.ts';
import { run } from '../ask/trace.ts';
import type { Given } from '../command.ts';
import { Terminal } from '../terminal.ts';

/** Rejects as `fairlead trace` does. */
export async function traceLines(given: Given): Promise<readonly Line[]> {
  let said = '';
  let complaint = '';
  const [, ...words] = given.words;
  const values = { ...given.values, from: 'node', timeout: '10s', output: 'json' };
  await run(
    { ...given, words: words.length === 0 ? [''] : words, values },
    {
      stdout: new Terminal(() => ({ write: (text) => (said += text) })),
      stderr: new Terminal(() => ({ write: (text) => (complaint += text) })),
    },
  );
  if (said === '') return [['refused', complaint.trim().split('\n').at(-1) ?? '']];
  const { packets, probe = '' } = JSON.parse(said) as Trace;
  return [
    ['packets', packets.length],
    ...packets.map(({ destination, ended, failed, outcome }) => [
      ...['packet', outcome, destination, ended, failed ? 'failed' : 'fine'],
    ]),
    ['sent', probe],
  ];
}
