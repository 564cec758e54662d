import { expect, test } from 'vitest';
import { KernelError } from '../../../../src/kernel/errors.ts';
import type { Kernel } from '../../../../src/kernel/kernel.ts';
import { ipvsMode } from '../../../../src/modes/ipvs/mode.ts';
import { type Balance, balances } from '../../../../src/state/deal.ts';
import { FakeKernel } from '../../../fake/kernel.ts';
import { kernelWith } from '../../../fake/kernel-with.ts';
import { scriptOf } from '../../../print/script.ts';

test('a probe leaves nothing, whenever its process is killed or an answer is lost', async () => {
  const states = new Set<string>();
  let script = '';
  const kernel = new FakeKernel();
  const apply = kernel.apply.bind(kernel);
  kernel.apply = async (ops) => {
    script += scriptOf('ipvs', ops);
    const result = await apply(ops);
    const links = kernel.links.answer({ kind: 'linksDump' });
    states.add(kernel.ipvs.text() + links.map((reply) => 'link' in reply && reply.link).join());
    return result;
  };
  expect(await ipvsMode.probe(kernel)).toEqual([]);
  expect(kernel.ipvs.text() + kernel.ruleset()).toBe('');
  expect([...states]).toEqual(['lo']);
  // An address for documentation.
  expect(script).toContain('ipvsadm -A -t 198.51.100.0:20000 -s rr\n');
});

test('a probe fails where it may not ask', async () => {
  const kernel = new FakeKernel();
  const denied = { operation: 'ipvs', subject: 'info', code: 'EPERM', words: 'no' };
  const dump: Kernel['dump'] = async (request) => {
    if (request.kind === 'ipvsInfoGet') throw new KernelError(denied);
    return kernel.dump(request);
  };
  await expect(ipvsMode.probe(kernelWith(kernel, { dump }))).rejects.toThrow('EPERM');
});

test('a probe finds the scheduler where another probe deletes its virtual service first', async () => {
  const kernel = new FakeKernel();
  const apply = kernel.apply.bind(kernel);
  kernel.apply = async (ops) => {
    const before = kernel.writes;
    const result = await apply(ops);
    if (result.kind === 'failed' || kernel.writes - before !== 2) return result;
    const failures = [{ op: 1, entry: undefined, code: 'ESRCH', message: 'no such service' }];
    return { kind: 'failed', failures, partly: true };
  };
  expect(await ipvsMode.probe(kernel)).toEqual([]);
});

test.each(['ENOMEM', 'EBUSY'])('a kernel that answers %s may have the scheduler', async (code) => {
  const kernel = new FakeKernel();
  kernel.failNext({ code });
  await expect(ipvsMode.dealing.lack?.(kernel, 'random')).rejects.toThrow(code);
});

test('a kernel without a scheduler lacks it for the balance that needs it', async () => {
  const needed = {
    maglev: 'mh',
    'source-hash': 'sh',
    'round-robin': 'wrr',
    random: 'wrr',
  } as const;
  for (const [balance, scheduler] of Object.entries(needed)) {
    const kernel = new FakeKernel();
    kernel.ipvs.schedulers.delete(scheduler);
    const lacks = await Promise.all(balances.map((one) => ipvsMode.dealing.lack?.(kernel, one)));
    expect(lacks[balances.indexOf(balance as Balance)]).toBe(
      `scheduler ${scheduler} of IPVS (ENOENT)`,
    );
    expect(lacks).toContain(undefined);
  }
});
