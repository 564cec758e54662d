/** Endpoints that stop answering, as packets show it, in any mode. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished } from 'vitest';
import type { LoggedMessage } from '../../scripts/log-messages.ts';
import type { ModeName } from '../../src/config/config.ts';
import type { ConnectTimePaths } from '../../src/connect-time/maps/choice.ts';
import { clusterIp, NODE_BRIDGE_IP } from '../lab/addresses.ts';
import { Caller } from '../lab/caller.ts';
import type { Lab } from '../lab/lab.ts';
import { monotonicMs, serveLoad } from '../lab/load.ts';
import { BASELINE, DEFAULT_CLUSTER_CIDR, type KubernetesObject, slice } from '../lab/objects.ts';
import { paced } from '../lab/pace.ts';
import { annotated, web, weighted } from './balancing-rig.ts';
import { vip } from './common.ts';
import { fairleadInside } from './fairlead-inside.ts';
import { cleanup, type LogLine, type MeasuredProxy } from './fairlead-proxy.ts';

export const ejected = 'Endpoint does not answer; it gets no new connections';
export const returned = 'Endpoint gets new connections again';
export const longestMs = 240_000;

const settings = { detectLocalMode: 'ClusterCIDR', clusterCIDR: DEFAULT_CLUSTER_CIDR } as const;
/** Addresses of pod-a, each an endpoint. */
export const hosts = [2, 101, 102, 103].map((host) => `10.244.1.${host}`);

/** Gives pod-a its addresses, and a server at all of them. */
export async function prepare(lab: Lab): Promise<() => void> {
  const commands = hosts.slice(1).map((address) => `addr add ${address}/32 dev eth0`);
  await lab.actors['pod-a'].run(['ip', '-batch', '-'], commands.join('\n'));
  const server = await serveLoad(lab.actors['pod-a'], 8080);
  return () => server.kill();
}

export function service(
  annotations: Record<string, string>,
  weights: readonly number[] = [100, 100, 100, 100],
): KubernetesObject[] {
  return [annotated(web(undefined), annotations), ...weighted(weights)];
}

/** Packets to these addresses are lost in the pod, without an answer: all, or those `of` one. */
export async function silence(lab: Lab, addresses: readonly string[], of?: string): Promise<void> {
  const from = of === undefined ? '' : `ip saddr ${of} `;
  const set = addresses.length === 0 ? '' : `${from}ip daddr { ${addresses.join(', ')} } drop`;
  const table = `table ip silence
delete table ip silence
table ip silence { chain input { type filter hook input priority -50; ${set}; }; }`;
  await lab.actors['pod-a'].run(
    ['nft', '-f', '-'],
    set === '' ? 'table ip silence\ndelete table ip silence' : table,
  );
}

/** A proxy that is asked for failure detection, and a client of its Service. */
export class Watched {
  readonly lines: LogLine[] = [];
  readonly caller: Caller;
  readonly #lab: Lab;

  readonly #proxy: MeasuredProxy;

  private constructor(lab: Lab, proxy: MeasuredProxy, lines: LogLine[], caller: Caller) {
    this.#proxy = proxy;
    this.#lab = lab;
    this.lines = lines;
    this.caller = caller;
  }

  static async start(
    lab: Lab,
    mode: ModeName,
    annotations: Record<string, string>,
    {
      beside = [],
      connectTime,
      from = 'client',
      maxEjected,
      timeoutMs = 1000,
      weights,
    }: {
      /** Other objects. */
      readonly beside?: readonly KubernetesObject[];
      readonly connectTime?: ConnectTimePaths;
      readonly from?: 'client' | 'pod-b';
      /** In percent; default: that of the product. */
      readonly maxEjected?: number;
      /** When clients give up, on a machine as fast as usual. */
      readonly timeoutMs?: number;
      /** Of its endpoints; default: all have the same. */
      readonly weights?: readonly number[];
    } = {},
  ): Promise<Watched> {
    const lines: LogLine[] = [];
    const log = (line: LogLine) => void lines.push(line);
    const proxy = fairleadInside(mode, { log, ...(connectTime && { connectTime }) });
    const asked = {
      ...settings,
      ...(connectTime && { connectTime: 'all' as const }),
      ...(maxEjected !== undefined && { failureDetectionMaxEjected: maxEjected }),
    };
    const objects = [...BASELINE, ...service(annotations, weights), ...beside];
    const running = await proxy.start(lab.node, asked, objects);
    const to = { address: vip.IPv4, port: 80 };
    const how = { perSecond: 60 / paced(1), timeoutMs: paced(timeoutMs) };
    const caller = new Caller(lab.actors[from].pid, { ...to, ...how });
    const watched = new Watched(lab, running, lines, caller);
    onTestFinished(async () => {
      await silence(lab, []);
      await caller.end();
      await running.stop();
      await cleanup(lab.node);
      await lab.actors.node.flushConntrack();
    });
    await watched.until('all answer', () => {
      const found = new Set(caller.calls.map(({ by }) => by));
      return hosts.every((host, i) => weights?.[i] === 0 || found.has(host));
    });
    return watched;
  }

  /** As Prometheus reads them. */
  metrics(): Promise<string> {
    return this.#proxy.metrics();
  }

  silence(...addresses: readonly string[]): Promise<void> {
    return silence(this.#lab, addresses);
  }

  /** The same for packets of the node itself, and for clients whose address is masqueraded. */
  silenceForNode(...addresses: readonly string[]): Promise<void> {
    return silence(this.#lab, addresses, NODE_BRIDGE_IP.IPv4);
  }

  /** Endpoints that were left out, or came back, in this order: of all Services, or of one. */
  told(msg: LoggedMessage, of?: string): unknown[] {
    const lines = this.lines.filter((line) => line.msg === msg);
    const own = lines.filter(({ service: name }) => of === undefined || name === of);
    return own.map(({ endpoint }) => endpoint);
  }

  async until(what: string, isSo: () => boolean): Promise<void> {
    const endMs = performance.now() + paced(60_000);
    while (!isSo()) {
      if (performance.now() > endMs) throw new Error(`not in time: ${what}`);
      await sleep(20);
    }
  }

  /** A number of calls that begin from now on, once they are over. */
  async next(count: number) {
    const fromMs = monotonicMs();
    await this.until(`${count} calls`, () => this.caller.since(fromMs).length >= count);
    return this.caller.since(fromMs);
  }
}

/** One endpoint goes silent, is left out, and comes back; then all do, and most stay. */
export async function leavesAndReturns(watched: Watched): Promise<void> {
  const [, lost] = hosts as [string, string];
  await watched.silence(lost);
  await watched.until('ejected', () => watched.told(ejected).length === 1);
  expect(watched.told(ejected)).toEqual([`${lost}:8080`]);
  // What was begun before is over by then.
  await sleep(paced(1200));
  const without = await watched.next(100);
  expect(without.filter(({ by }) => by === undefined)).toEqual([]);
  expect(without.filter(({ by }) => by === lost)).toEqual([]);
  await watched.silence();
  await watched.until('returned', () => watched.told(returned).length === 1);
  expect(watched.told(returned)).toEqual([`${lost}:8080`]);
  await watched.until('serves', () =>
    watched.caller.calls.slice(-200).some(({ by }) => by === lost),
  );
}

/**
 * The endpoints of a Service of another namespace are the same pods. It has them probed, and one
 * that has no clients stops to answer the node: it is left out there, and nowhere else.
 */
export async function isLeftOutByAnother(lab: Lab, mode: ModeName): Promise<void> {
  const eject = { 'fairlead.io/failure-detection': 'eject' };
  const at = clusterIp(11);
  const objects = [
    annotated(web(undefined, 'other', at), { ...eject, 'fairlead.io/probe': 'tcp' }),
    slice(
      'IPv4',
      'other',
      hosts.map((host) => ({ at: { IPv4: host } })),
    ),
  ];
  const beside = objects.map((one) => {
    return { ...one, metadata: { ...one.metadata, namespace: 'other-tenant' } };
  });
  const weights = [100, 0, 100, 100];
  const watched = await Watched.start(lab, mode, eject, { beside, weights });
  const [, idle] = hosts as [string, string];
  const counted = /^fairlead_endpoint_probes_total\{result="succeeded"\} (\d+)$/m;
  const succeeded = async () => Number(counted.exec(await watched.metrics())?.[1] ?? 0);
  const proven = 2 * hosts.length;
  await expect.poll(succeeded, { timeout: paced(60_000) }).toBeGreaterThanOrEqual(proven);
  await watched.silenceForNode(idle);
  await watched.until('ejected', () => watched.told(ejected).length > 0);
  await watched.next(100);
  expect(watched.told(ejected, 'other-tenant/other')).toEqual([`${idle}:8080`]);
  expect(watched.told(ejected)).toHaveLength(1);
}

/** More than the seconds after which a client repeats its first packet until another answers. */
const patientMs = 10_000;

/**
 * An endpoint goes silent. Clients that wait get another one when it is left out, also those that
 * had begun before.
 */
export async function laterByAnother(
  lab: Lab,
  mode: ModeName,
  annotations: Record<string, string>,
): Promise<void> {
  const watched = await Watched.start(lab, mode, annotations, { timeoutMs: patientMs });
  const { caller } = watched;
  const silentMs = monotonicMs();
  await watched.silence(hosts[1]!);
  await watched.until('ejected', () => watched.told(ejected).length === 1);
  const ejectedMs = monotonicMs();
  // Those that began before have failed by the time at which one is over that began then.
  await watched.until('all are over', () => {
    return caller.since(ejectedMs + paced(patientMs)).length > 0;
  });
  const before = caller.since(silentMs).filter(({ startedMs }) => startedMs < ejectedMs);
  expect(before.some(({ tookMs }) => tookMs >= 900)).toBe(true);
  expect(caller.since(silentMs).filter(({ by }) => by === undefined)).toEqual([]);
}

/** Where all endpoints go silent, all stay in; where most do, half of them stay. */
export async function halfStays(watched: Watched): Promise<void> {
  const lost = hosts.slice(1);
  await watched.silence(...lost);
  await watched.until('half is out', () => watched.told(ejected).length === 2);
  await sleep(paced(3000));
  expect(watched.told(ejected)).toHaveLength(2);
  expect((await watched.next(60)).some(({ by }) => by === hosts[0])).toBe(true);
}

/** Where all may be left out but one, and all go silent, one stays in. */
export async function lastStays(watched: Watched): Promise<void> {
  await watched.silence(...hosts.slice(1));
  await watched.until('all but one are out', () => watched.told(ejected).length === 3);
  await watched.silence(...hosts);
  await watched.next(60);
  await sleep(paced(3000));
  expect(watched.told(ejected)).toHaveLength(3);
  await watched.silence(...hosts.slice(1));
  await watched.until('it serves', () => watched.caller.calls.at(-1)?.by === hosts[0]);
}

/** What answers nothing is only shown. */
export async function isObserved(watched: Watched): Promise<void> {
  await watched.silence(hosts[1]!);
  await sleep(paced(5000));
  expect(watched.told(ejected)).toEqual([]);
  expect(await watched.metrics()).toMatch(/^fairlead_followed_endpoints\{state="silent"\} 1$/m);
}
