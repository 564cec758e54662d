/** What is said of clients that limits refuse. */
import { expect, it } from 'vitest';
import { limitProblems } from '../../../src/serve/ask/limit-problems.ts';
import type { Refused } from '../../../src/state/limits.ts';
import { service } from '../state/build.ts';

function textsOf(refused: readonly Refused[], limits?: Parameters<typeof service>[0]): string[] {
  const refusals = { refresh: async () => {}, of: () => refused, counts: () => [] };
  const connectionLimits = { obstacleOf: () => undefined, refusals };
  const found = limitProblems({ connectionLimits }, service({ name: 'web', ...limits }));
  return found.map(({ text }) => text());
}

const intro = 'Clients were refused in the last two minutes';

it('names the worst clients of each limit with their pods, also without limits of the Service', () => {
  const [client, packets] = ['10.244.0.5', 7];
  expect(
    textsOf([
      { reason: 'client_limit', client: '10.244.0.4', packets: 1 },
      { reason: 'client_limit', client, packets, pod: 'shop/cart-7' },
      { reason: 'namespace_limit', client, packets, pod: 'shop/cart-7' },
    ]),
  ).toEqual([
    `${intro} (settings connectionLimits.client…): ${client} (pod shop/cart-7, 7 packets), 10.244.0.4 (pod not known, 1 packet).`,
    `${intro} (settings connectionLimits.namespace…): ${client} (pod shop/cart-7, 7 packets).`,
  ]);
});

it('names three clients, and the value of a limit that the Service has', () => {
  const refused = [1, 2, 3, 4].map((i): Refused => {
    return { reason: 'max_connections', client: `10.244.0.${i}`, packets: i };
  });
  const [text] = textsOf(refused, { limits: { max_connections: 30 } });
  expect(text).toContain('(fairlead.io/max-connections: 30): 10.244.0.4 (');
  expect(text).not.toContain('10.244.0.1');
  expect(textsOf([])).toEqual([]);
});
