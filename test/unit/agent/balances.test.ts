/** What the kernel is asked about balances, when, and what its answers change. */
import { expect, it, onTestFinished } from 'vitest';
import { NFPROTO } from '../../../src/kernel/nft/constants.ts';
import type { ModeName } from '../../../src/modes/mode.ts';
import { nftablesMode } from '../../../src/modes/nftables/mode.ts';
import type { ProxyMode } from '../../../src/modes/proxy-mode.ts';
import { resources } from '../../../src/state/change.ts';
import type { Balance } from '../../../src/state/deal.ts';
import { ready, service, slice } from '../state/build.ts';
import { quiet } from '../sync/double.ts';
import { ClosableKernel, configOf, Running } from './running.ts';

/** A kernel that counts the transactions that it applied. */
class Counting extends ClosableKernel {
  applied = 0;

  override async apply(ops: Uint8Array): ReturnType<ClosableKernel['apply']> {
    const result = await super.apply(ops);
    if (result.kind === 'applied') this.applied += 1;
    return result;
  }
}

type Answer = (balance: Balance) => Promise<string | undefined>;

class Rig {
  readonly asked: Balance[] = [];
  readonly #answer: Answer;

  constructor(answer: Answer = async () => undefined) {
    this.#answer = answer;
  }

  async start(balance: Balance | undefined, kernel = new Counting()) {
    const lack = async (_kernel: unknown, asked: Balance): Promise<string | undefined> => {
      this.asked.push(asked);
      return this.#answer(asked);
    };
    const mode: ProxyMode = { ...nftablesMode, dealing: { ...nftablesMode.dealing, lack } };
    const app = new Running(await configOf('--manifests=/anywhere', '--proxy-mode=nftables'));
    await app.start({ kernel, modes: new Map<ModeName, ProxyMode>([['nftables', mode]]) });
    onTestFinished(() => app.stop());
    const say = (asks: Balance | undefined): void => {
      const balancing = asks && { balance: asks };
      app.source.say({ kind: 'service', service: service({ balancing }) });
    };
    say(balance);
    const endpoints = { '10.244.0.1': ready, '10.244.0.2': ready };
    app.source.say({ kind: 'slice', slice: slice(endpoints) });
    app.source.listed(...resources);
    await quiet();
    const goesTo = () => kernel.elements(NFPROTO.IPv4, 'fairlead', 'services')[0]?.split(' : ')[1];
    return { app, kernel, say, goesTo };
  }
}

const log = 'Balance of Service cannot be done here';

it('nothing is asked while no Service asks for a balance, and once for many', async () => {
  const rig = new Rig();
  const { goesTo, say } = await rig.start(undefined);
  expect(rig.asked).toEqual([]);
  expect(goesTo()).toBe('goto cluster-2-e');
  for (const balance of ['maglev', undefined, 'maglev', 'source-hash'] as const) {
    say(balance);
    await quiet();
  }
  expect(goesTo()).toBe('goto cluster-source-2-e');
  expect(rig.asked).toEqual(['maglev', 'source-hash']);
});

it('a Service falls to random where the kernel lacks what its balance needs', async () => {
  const rig = new Rig(async () => 'expression hash (ENOENT)');
  const { app, goesTo } = await rig.start('source-hash');
  expect(goesTo()).toBe('goto cluster-2-e');
  expect(app.lines.filter(({ msg }) => msg === log)).toMatchObject([
    {
      service: 'ns/web',
      err: 'balance source-hash is not done: this kernel lacks expression hash (ENOENT); connections are shared out as without it',
    },
  ]);
});

it('a kernel that cannot answer is taken to lack nothing', async () => {
  const rig = new Rig(async () => {
    throw new Error('ENOMEM');
  });
  const { app, goesTo } = await rig.start('source-hash');
  expect(goesTo()).toBe('goto cluster-source-2-e');
  expect(app.lines.filter(({ msg }) => msg === log)).toEqual([]);
});

it('a restart waits for the answers, and writes nothing where nothing has changed', async () => {
  const kernel = new Counting();
  const first = await new Rig().start('source-hash', kernel);
  await first.app.stop();
  const before = [kernel.applied, kernel.ruleset()];
  let answer = (): void => {};
  const answered = new Promise<void>((resolve) => {
    answer = resolve;
  });
  const second = await new Rig(() => answered.then(() => undefined)).start('source-hash', kernel);
  expect(second.app.app.upToDate).toBe(false);
  answer();
  await quiet();
  expect(second.app.app.upToDate).toBe(true);
  expect([kernel.applied, kernel.ruleset()]).toEqual(before);
});
