import { expect, it } from 'vitest';
import { excludedBy, excludedMax } from '../../../src/fast-path/excluded.ts';
import { resolve } from '../../../src/state/resolve.ts';
import type { Forwarding, Service } from '../../../src/state/types.ts';
import { context, portsOf, service } from '../state/build.ts';

/** Services, with what is desired of them, and how often the work paused. */
async function excluded(...services: readonly Service[]) {
  const desired = new Map<string, Forwarding>();
  for (const of of services) for (const one of resolve(of, [], context)) desired.set(one.key, one);
  let pauses = 0;
  const pause = async (): Promise<void> => {
    pauses += 1;
  };
  const keys = await excludedBy(services, [{ family: 'IPv4', desired }], pause);
  return { keys, pauses };
}

it('one namespace has room for a number of frontends, whatever others have', async () => {
  const names = ['a', 'b', 'c'];
  const large = names.map((name, i) => {
    return service({
      name,
      namespace: 'large',
      clusterIPs: [`10.96.1.${i}`],
      ports: portsOf(9000),
    });
  });
  const small = service({ namespace: 'small', clusterIPs: ['10.96.2.1'] });
  const { keys, pauses } = await excluded(...large, small);
  expect(keys.IPv4.size).toBe(excludedMax + 1);
  expect(pauses).toBeGreaterThan(excludedMax);
});
