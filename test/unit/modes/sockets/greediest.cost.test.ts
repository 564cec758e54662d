/** Which connections end first, where there are very many. */
import { expect, it } from 'vitest';
import { Greediest } from '../../../../src/modes/sockets/greediest.ts';
import { growth } from '../../state/steps-taken.ts';

it.each([
  ['of one client', () => '192.0.2.1'],
  ['of as many clients', (i: number) => `2001:db8::${i}`],
  ['of as many networks', (i: number) => `2001:db8:${i}::1`],
])('ending connections %s takes little more for each where there are many', (_, clientOf) => {
  const ending = (size: number) => (): void => {
    const order = new Greediest<number>(10_000_000);
    for (let i = 0; i < size; i += 1)
      order.add(i, clientOf(i), 1 + ((i * 7919) % 10_007), i % 3 === 0);
    let count = 0;
    while (order.take() !== undefined) count += 1;
    expect(count).toBe(size);
  };
  // 4 and a logarithm; it was 16 when each one looked through all clients.
  expect(growth(ending, 1000)).toBeLessThan(6);
});
