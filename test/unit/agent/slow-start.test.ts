/** How the share of a new endpoint grows, and when it does not have to. */
import { expect, it, onTestFinished } from 'vitest';
import { NFPROTO } from '../../../src/kernel/nft/constants.ts';
import { resources } from '../../../src/state/change.ts';
import { ready, service, slice } from '../state/build.ts';
import { quiet } from '../sync/double.ts';
import { ClosableKernel, configOf, Running } from './running.ts';

/** Ten steps in nine times ten seconds. */
const slowStartMs = 90_000;
const stepMs = 10_000;

class Rig {
  readonly kernel = new ClosableKernel();
  app!: Running;

  async start(...hosts: number[]): Promise<void> {
    this.app = new Running(await configOf('--manifests=/anywhere', '--proxy-mode=nftables'));
    await this.app.start({ kernel: this.kernel });
    onTestFinished(() => this.app.stop());
    this.#sayService(slowStartMs);
    this.#saySlice(hosts);
    this.app.source.listed(...resources);
    await quiet();
  }

  async endpoints(...hosts: number[]): Promise<void> {
    this.#saySlice(hosts);
    await quiet();
  }

  async slowStart(ms: number | undefined): Promise<void> {
    this.#sayService(ms);
    // Elements that packets may still need go later.
    await this.app.clock.pass(stepMs);
  }

  #sayService(ms: number | undefined): void {
    const balancing = ms === undefined ? undefined : { balance: undefined, slowStartMs: ms };
    this.app.source.say({ kind: 'service', service: service({ balancing }) });
  }

  #saySlice(hosts: readonly number[]): void {
    const endpoints = Object.fromEntries(hosts.map((host) => [`10.244.0.${host}`, ready]));
    this.app.source.say({ kind: 'slice', slice: slice(endpoints) });
  }

  /** The part of the slots that each host has in the kernel, and the number of slots. */
  shares(): { slots: number; of: Record<string, number> } {
    const { kernel } = this;
    const maps = ['endpoints', 'endpoints-b', 'endpoints-c', 'endpoints-d', 'endpoints-e'];
    const elements = maps.flatMap((map) => {
      return kernel.elements(NFPROTO.IPv4, 'fairlead', map);
    });
    const of: Record<string, number> = {};
    for (const element of elements) {
      const host = /: 10\.244\.0\.(\d+)/.exec(element)![1]!;
      of[host] = (of[host] ?? 0) + 1 / elements.length;
    }
    return { slots: elements.length, of };
  }
}

it('a new endpoint begins with a tenth of its share, which grows in steps', async () => {
  const rig = new Rig();
  await rig.start(1, 2);
  expect(rig.shares().slots).toBe(2);
  await rig.app.clock.pass(stepMs / 2);
  await rig.endpoints(1, 2, 3);
  for (let step = 1; step < 10; step += 1) {
    const { of, slots } = rig.shares();
    // Elements change only, and their number stays.
    expect(slots).toBe(256);
    expect(Math.abs(of['3']! - step / (20 + step))).toBeLessThan(1 / 256);
    expect(Math.abs(of['1']! - of['2']!)).toBeLessThan(1.5 / 256);
    await rig.app.clock.pass(stepMs);
  }
  expect(rig.shares().slots).toBe(3);
});

it('endpoints that were there at the start, or when it was asked for, have their share', async () => {
  const rig = new Rig();
  await rig.start(1, 2, 3);
  expect(rig.shares().slots).toBe(3);
  await rig.slowStart(undefined);
  await rig.endpoints(1, 2, 3, 4);
  await rig.slowStart(slowStartMs);
  expect(rig.shares().slots).toBe(4);
});

it('ends when it is no longer asked for, and its timers with the Service', async () => {
  const rig = new Rig();
  await rig.start(1, 2);
  await rig.endpoints(1, 2, 3);
  expect(rig.shares().slots).toBe(256);
  await rig.slowStart(undefined);
  expect(rig.shares().slots).toBe(3);
  await rig.slowStart(slowStartMs);
  await rig.endpoints(1, 2, 3, 4);
  rig.app.source.say({ kind: 'service-gone', key: 'ns/web' });
  await quiet();
  await rig.app.clock.pass(2 * stepMs);
  expect(rig.shares().slots).toBe(0);
});
