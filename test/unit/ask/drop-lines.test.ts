/** What is printed of drops; the kernel tests find them. */
import { expect, it } from 'vitest';
import { DropLines } from '../../../src/cli/ask/drops.ts';
import type { Terminal } from '../../../src/cli/terminal.ts';
import type { Drop } from '../../../src/tools/trace/drops.ts';

const drop: Drop = {
  ...{
    protocol: 'TCP',
    client: Uint8Array.of(10, 244, 1, 4),
    address: Uint8Array.of(10, 96, 0, 1),
  },
  ...{ port: 80, interface: 'cni0', outcome: 'dropped', because: 'By rule 5.', isOurs: false },
};
const service = { namespace: 'shop', name: 'web', port: 'http', frontend: 'clusterIP' } as const;
const said = { service: { ...service, inForce: true }, summary: 'No endpoint.', warnings: [] };

function printer(outcome: 'endpoint' | 'rejected' | 'nobody', isPending = false) {
  const printed = { lines: '', notes: '', nowMs: 0 };
  const stdout = { isPending, write: (text: string) => (printed.lines += text) };
  const lines = new DropLines({
    stdout: stdout as unknown as Terminal,
    stderr: { write: (text: string) => (printed.notes += text) } as unknown as Terminal,
    ...{ asJson: false, own: new Set(['10.244.1.4']), now: () => printed.nowMs },
    explain: async (to, from) => ({ ...said, outcome, summary: `${to} from ${from}: refused.` }),
  });
  return { lines, printed };
}

const unseen = { outcome: 'unknown', because: undefined, isOurs: undefined } as const;

it.each([
  ['endpoint', {}, 'dropped by another program: By rule 5.'],
  ['rejected', {}, 'dropped by another program: By rule 5.'],
  ['rejected', { isOurs: true }, 'dropped by fairlead: 10.96.0.1:80/TCP from node: refused.'],
  ['rejected', unseen, 'rejected by fairlead: 10.96.0.1:80/TCP from node: refused.'],
  ['nobody', unseen, 'did not get through: 10.96.0.1:80/TCP from node: refused.'],
  [
    'endpoint',
    unseen,
    'did not get through: It did not get through; a second packet would show where.',
  ],
  ['endpoint', { outcome: 'lost', isOurs: undefined }, 'did not get through: By rule 5.'],
] as const)('where rules say %s, %j is a line', async (outcome, given, words) => {
  const { lines, printed } = printer(outcome);
  await lines.print({ ...drop, ...given });
  const [, ...rest] = printed.lines.trimEnd().split(' ');
  expect(rest.join(' ')).toBe(`10.244.1.4 to 10.96.0.1:80/TCP (shop/web:http) ${words}`);
});

it('at most twenty lines are printed in a second, and none while the reader is behind', async () => {
  const { lines, printed } = printer('endpoint');
  for (let i = 0; i < 25; i += 1) await lines.print(drop);
  expect([printed.lines.split('\n').length - 1, lines.found, printed.notes]).toEqual([20, 20, '']);
  printed.nowMs = 1000;
  await lines.print(drop);
  expect([lines.found, printed.notes]).toEqual([21, '5 more were not shown.\n']);
  const behind = printer('endpoint', true);
  await behind.lines.print(drop);
  expect([behind.printed.lines, behind.lines.found]).toEqual(['', 0]);
});
