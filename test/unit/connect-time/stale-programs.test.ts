/** Programs of an earlier process, while the configuration changes. */
import { expect, it } from 'vitest';
import { StalePrograms } from '../../../src/connect-time/stale-programs.ts';
import type { Kernel } from '../../../src/kernel/kernel.ts';
import { loggerTo } from '../../../src/serve/log.ts';
import { FakeKernel } from '../../fake/kernel.ts';
import { quiet, ToyClock } from '../sync/double.ts';

const directory = '/nowhere/bpf/fairlead';

it('a search for programs to end leaves those alone that are attached after it was overtaken', async () => {
  const kernel = new FakeKernel();
  const held = Promise.withResolvers<void>();
  const dump: Kernel['dump'] = async (request, take) => {
    await held.promise;
    return kernel.dump(request, take);
  };
  let isFirst = true;
  const slow: Kernel = new Proxy<Kernel>(kernel, {
    get: (target, name) => {
      const value: unknown = name === 'dump' && isFirst ? dump : Reflect.get(target, name);
      if (name === 'dump') isFirst = false;
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
  const clock = new ToyClock();
  const log = loggerTo({ write: () => {} }, 0);
  const events = { aboutNode: () => {} };
  const stale = new StalePrograms(
    { kernel: slow, clock, log, events },
    { directory, cgroup: undefined },
  );
  const off = stale.end(false);
  const on = stale.end(true).then(() => {
    const link = { cgroup: '/nowhere', all: 1, counts: 0, excludes: 0 };
    kernel.bpf.links.set(`${directory} 2`, link);
  });
  await quiet();
  held.resolve();
  await Promise.all([off, on]);
  await clock.pass(60_000);
  expect([...kernel.bpf.links.keys()]).toEqual([`${directory} 2`]);
  await stale.close();
});
