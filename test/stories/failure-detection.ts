/** Endpoints that stop answering, as packets show it, in any mode. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import type { LoggedMessage } from '../../scripts/log-messages.ts';
import type { ModeName } from '../../src/config/config.ts';
import { removeConnectTime } from '../../src/connect-time/maps/choice.ts';
import { clusterIp, NODE_BRIDGE_IP, POD_B_IP } from '../lab/addresses.ts';
import { askKernel } from '../lab/ask-kernel.ts';
import { type Call, Caller } from '../lab/caller.ts';
import type { ConnectTimePlace } from '../lab/connect-time.ts';
import type { Lab } from '../lab/lab.ts';
import { monotonicMs, serveLoad } from '../lab/load.ts';
import { BASELINE, inNamespace, type KubernetesObject, settings, slice } from '../lab/objects.ts';
import { hangsMs, paced } from '../lab/pace.ts';
import { until } from '../process/program.ts';
import { annotated, web, weighted } from './balancing-rig.ts';
import { vip } from './common.ts';
import { fairleadInside } from './fairlead-inside.ts';
import { cleanup, type LogLine, type MeasuredProxy } from './fairlead-proxy.ts';

const ejected = 'Endpoint does not answer; it gets no new connections';
const returned = 'Endpoint gets new connections again';
const longestMs = Math.max(240_000, paced(120_000));

/** Addresses of pod-a, each an endpoint. */
const hosts = [2, 101, 102, 103].map((host) => `10.244.1.${host}`);

/** Gives pod-a its addresses, and a server at all of them. */
export async function prepare(lab: Lab): Promise<() => void> {
  const commands = hosts.slice(1).map((address) => `addr add ${address}/32 dev eth0`);
  await lab.actors['pod-a'].run(['ip', '-batch', '-'], commands.join('\n'));
  const server = await serveLoad(lab.actors['pod-a'], 8080);
  return () => server.kill();
}

function service(
  annotations: Record<string, string>,
  weights: readonly number[] = [100, 100, 100, 100],
): KubernetesObject[] {
  return [annotated(web(undefined), annotations), ...weighted(weights)];
}

/** Packets to these addresses are lost in the pod, without an answer: all, or those `of` one. */
async function silence(lab: Lab, addresses: readonly string[], of?: string): Promise<void> {
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

const rulesMeet = 'rules-meet-nothing';

/**
 * The node drops what pod-b sends to frontends: only connections that its sockets translate
 * succeed.
 */
async function dropToFrontends(lab: Lab): Promise<void> {
  const rule = `ip saddr ${POD_B_IP.IPv4} ip daddr { ${vip.IPv4}, ${other.IPv4} } drop`;
  const chain = `chain prerouting { type filter hook prerouting priority -400; ${rule}; }`;
  await lab.node.run(['nft', '-f', '-'], `table ip ${rulesMeet} {\n${chain}\n}`);
}

/** The address of a second Service. */
const other = clusterIp(11);

/** How a proxy is watched. */
interface Watching {
  /** Other objects. */
  readonly beside?: readonly KubernetesObject[];
  /**
   * Connections of pod-b are translated at connect time, and rules pass none of it to a frontend.
   * A client outside of the cluster meets the rules of the mode.
   */
  readonly place?: ConnectTimePlace;
  /** In percent; default: that of the product. */
  readonly maxEjected?: number;
  /** When clients give up, on a machine as fast as usual. */
  readonly timeoutMs?: number;
  /** Of its endpoints; default: all have the same. */
  readonly weights?: readonly number[];
}

/** A proxy that is asked for failure detection, and a client of its Service. */
class Watched {
  readonly lines: LogLine[] = [];
  readonly caller: Caller;
  /** A client in each way in which connections are led to endpoints. */
  readonly ways: readonly Caller[];
  readonly #lab: Lab;
  readonly #proxy: MeasuredProxy;
  readonly #call: (address: string) => Caller;

  private constructor(
    lab: Lab,
    proxy: MeasuredProxy,
    lines: LogLine[],
    call: (address: string, from?: number) => Caller,
    outside: number | undefined,
  ) {
    this.#proxy = proxy;
    this.#lab = lab;
    this.lines = lines;
    this.#call = call;
    this.caller = call(vip.IPv4);
    this.ways = outside === undefined ? [this.caller] : [this.caller, call(vip.IPv4, outside)];
  }

  static async start(
    lab: Lab,
    mode: ModeName,
    annotations: Record<string, string>,
    { beside = [], maxEjected, place, timeoutMs = 1000, weights }: Watching = {},
  ): Promise<Watched> {
    const lines: LogLine[] = [];
    const log = (line: LogLine) => void lines.push(line);
    const proxy = fairleadInside(mode, { log, ...(place && { connectTime: place }) });
    const asked = {
      ...settings,
      failureDetection: 'by-annotation' as const,
      ...(place && { connectTime: 'all' as const }),
      ...(maxEjected !== undefined && { failureDetectionMaxEjected: maxEjected }),
    };
    const objects = [...BASELINE, ...service(annotations, weights), ...beside];
    const running = await proxy.start(lab.node, asked, objects);
    if (place !== undefined) await dropToFrontends(lab);
    const how = { port: 80, perSecond: 60 / paced(1), timeoutMs: paced(timeoutMs) };
    const outside = lab.actors.client.pid;
    const inside = place === undefined ? outside : lab.actors['pod-b'].pid;
    const callers: Caller[] = [];
    const call = (address: string, pid = inside): Caller => {
      const cgroup = pid === inside ? place?.cgroup : undefined;
      const caller = new Caller(pid, { address, cgroup, ...how });
      callers.push(caller);
      return caller;
    };
    const second = place === undefined ? undefined : outside;
    const watched = new Watched(lab, running, lines, call, second);
    onTestFinished(async () => {
      await silence(lab, []);
      await Promise.all(callers.map((caller) => caller.end()));
      await running.stop();
      await cleanup(lab.node);
      if (place !== undefined) {
        await askKernel(lab.node, (kernel) => removeConnectTime(kernel, place.directory));
        await lab.node.run(['nft', 'delete', 'table', 'ip', rulesMeet]);
      }
      await lab.actors.node.flushConntrack();
    });
    await watched.until('all answer', () => {
      return watched.ways.every(({ calls }) => {
        const found = new Set(calls.map(({ by }) => by));
        return hosts.every((host, i) => weights?.[i] === 0 || found.has(host));
      });
    });
    return watched;
  }

  /** Another client, of a frontend with this address. */
  call(address: string): Caller {
    return this.#call(address);
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
  endpointsIn(msg: LoggedMessage, of?: string): unknown[] {
    const lines = this.lines.filter((line) => line.msg === msg);
    const own = lines.filter(({ service: name }) => of === undefined || name === of);
    return own.map(({ endpoint }) => endpoint);
  }

  async until(what: string, isSo: () => boolean): Promise<void> {
    await until(isSo, what);
  }

  /**
   * Resolves when 80 calls in a row were answered of those that begin from now on, in each way.
   * Where one of four endpoints is silent and gets calls, that happens once in 10^10 times. A
   * single call may be late because the machine is busy.
   */
  async served(): Promise<void> {
    const fromMs = monotonicMs();
    await this.until('80 calls in a row are answered', () => {
      return this.ways.every((way) => {
        const last = way.since(fromMs).slice(-80);
        return last.length === 80 && last.every(({ by }) => by !== undefined);
      });
    });
  }

  switchTo(mode: ModeName): Promise<void> {
    return this.#proxy.switchTo(mode);
  }

  /** A number of calls that begin from now on, once they are over. */
  async next(count: number, caller = this.caller): Promise<readonly Call[]> {
    const fromMs = monotonicMs();
    await this.until(`${count} calls`, () => caller.since(fromMs).length >= count);
    return caller.since(fromMs);
  }
}

/** One endpoint goes silent, is left out, also in later modes, and comes back. */
async function leavesAndReturns(watched: Watched, later: readonly ModeName[]): Promise<void> {
  const [, lost] = hosts as [string, string];
  await watched.silence(lost);
  await watched.until('ejected', () => watched.endpointsIn(ejected).length === 1);
  await watched.served();
  for (const mode of later) {
    await watched.switchTo(mode);
    await watched.served();
  }
  expect(watched.endpointsIn(ejected)).toEqual([`${lost}:8080`]);
  await watched.silence();
  await watched.until('returned', () => watched.endpointsIn(returned).length === 1);
  expect(watched.endpointsIn(returned)).toEqual([`${lost}:8080`]);
  const sinceMs = monotonicMs();
  await watched.until('serves', () => {
    return watched.ways.every((way) => way.since(sinceMs).some(({ by }) => by === lost));
  });
}

const eject = { 'fairlead.io/failure-detection': 'eject' };

/** A Service of another namespace, whose endpoints are the same pods. */
function ofAnother(annotations: Record<string, string>): KubernetesObject[] {
  const endpoints = hosts.map((host) => ({ at: { IPv4: host } }));
  return inNamespace('other-tenant', [
    annotated(web(undefined, 'other', other), annotations),
    slice('IPv4', 'other', endpoints),
  ]);
}

/**
 * The endpoints of a Service of another namespace are the same pods. It has them probed, and one
 * that has no clients stops to answer the node: it is left out there, and nowhere else.
 */
async function isLeftOutByAnother(lab: Lab, mode: ModeName, how: Watching = {}): Promise<void> {
  const beside = ofAnother({ ...eject, 'fairlead.io/probe': 'tcp' });
  const weights = [100, 0, 100, 100];
  const watched = await Watched.start(lab, mode, eject, { ...how, beside, weights });
  const [, idle] = hosts as [string, string];
  const counted = /^fairlead_endpoint_probes_total\{result="succeeded"\} (\d+)$/m;
  const succeeded = async () => Number(counted.exec(await watched.metrics())?.[1] ?? 0);
  const proven = 2 * hosts.length;
  await expect.poll(succeeded, { timeout: hangsMs }).toBeGreaterThanOrEqual(proven);
  await watched.silenceForNode(idle);
  await watched.until('ejected', () => watched.endpointsIn(ejected).length > 0);
  await watched.next(100);
  expect(watched.endpointsIn(ejected, 'other-tenant/other')).toEqual([`${idle}:8080`]);
  expect(watched.endpointsIn(ejected)).toHaveLength(1);
}

/**
 * An endpoint goes silent and is left out. A Service of another namespace has the same pods, and
 * does not ask for that: its clients still try the endpoint.
 */
async function anotherKeepsIt(lab: Lab, mode: ModeName, how: Watching = {}): Promise<void> {
  const beside = ofAnother({ 'fairlead.io/failure-detection': 'off' });
  const watched = await Watched.start(lab, mode, eject, { ...how, beside });
  const [, lost] = hosts as [string, string];
  const another = watched.call(other.IPv4);
  await watched.until('another is answered', () => another.calls.some(({ by }) => by === lost));
  await watched.silence(lost);
  await watched.until('ejected', () => watched.endpointsIn(ejected).length === 1);
  await watched.served();
  const theirs = await watched.next(100, another);
  // A fourth of them is sent there, and fails, or is sent to another one later.
  expect(theirs.some(({ by, tookMs }) => by === undefined || tookMs >= secondTryMs[mode])).toBe(
    true,
  );
  expect(theirs.some(({ by }) => by !== undefined)).toBe(true);
  expect(watched.endpointsIn(ejected)).toHaveLength(1);
}

/**
 * No client is sent to another endpoint sooner: the kernel repeats the first packet after a second,
 * and the process of mode userspace tries another endpoint after 250 ms.
 */
const secondTryMs = { nftables: 900, iptables: 900, ipvs: 900, userspace: 240 } as const;

/**
 * The first packet is repeated after 1, 3, 7, 15 and 31 seconds. So a client is answered also where
 * a busy machine leaves the endpoint out late.
 */
const patientMs = 60_000;

/**
 * An endpoint goes silent. Clients that wait get another one when it is left out, also those that
 * had begun before. A connection whose handshake the silence cuts in two has no other endpoint to
 * go to: those that begin from then on are judged.
 */
async function laterByAnother(lab: Lab, mode: ModeName): Promise<void> {
  const watched = await Watched.start(lab, mode, eject, { timeoutMs: patientMs });
  const { caller } = watched;
  await watched.silence(hosts[1]!);
  const silentMs = monotonicMs();
  await watched.until('ejected', () => watched.endpointsIn(ejected).length === 1);
  const ejectedMs = monotonicMs();
  await watched.until('all that began before are over', () => caller.areOver(ejectedMs));
  const before = caller.since(silentMs).filter(({ startedMs }) => startedMs < ejectedMs);
  expect(before.some(({ tookMs }) => tookMs >= secondTryMs[mode])).toBe(true);
  expect(caller.since(silentMs).filter(({ by }) => by === undefined)).toEqual([]);
}

/** Where all endpoints go silent, all stay in; where most do, half of them stay. */
async function halfStays(watched: Watched): Promise<void> {
  const lost = hosts.slice(1);
  await watched.silence(...lost);
  await watched.until('half is out', () => watched.endpointsIn(ejected).length === 2);
  await sleep(paced(3000));
  expect(watched.endpointsIn(ejected)).toHaveLength(2);
  expect((await watched.next(60)).some(({ by }) => by === hosts[0])).toBe(true);
}

/** Where all may be left out but one, and all go silent, one stays in. */
async function lastStays(watched: Watched): Promise<void> {
  await watched.silence(...hosts.slice(1));
  await watched.until('all but one are out', () => watched.endpointsIn(ejected).length === 3);
  await watched.silence(...hosts);
  await watched.next(60);
  await sleep(paced(3000));
  expect(watched.endpointsIn(ejected)).toHaveLength(3);
  await watched.silence(...hosts.slice(1));
  await watched.until('it serves', () => watched.caller.calls.at(-1)?.by === hosts[0]);
}

/** One that answers nothing gets connections as before, and is shown. */
async function isObserved(watched: Watched): Promise<void> {
  await watched.silence(hosts[1]!);
  const silent = /^fairlead_followed_endpoints\{state="silent"\} 1$/m;
  await expect.poll(() => watched.metrics(), { timeout: hangsMs }).toMatch(silent);
  await watched.next(60);
  expect(watched.endpointsIn(ejected)).toEqual([]);
}

/** The mode is changed to `later` ones while the endpoint is out. */
export function firstFailureStory(
  lab: () => Lab,
  mode: ModeName,
  { how, later = [] }: { readonly how?: () => Watching; readonly later?: readonly ModeName[] } = {},
): void {
  test(
    'an endpoint that answers nothing is left out, and comes back when it answers',
    async () => leavesAndReturns(await Watched.start(lab(), mode, eject, how?.()), later),
    longestMs,
  );
}

/** Who gets connections, as each way of packets is to obey it. */
export function failureStories(lab: () => Lab, mode: ModeName, how?: () => Watching): void {
  firstFailureStory(lab, mode, { ...(how && { how }) });

  test(
    'a Service of another namespace keeps an endpoint that is left out',
    async () => anotherKeepsIt(lab(), mode, how?.()),
    longestMs,
  );
}

/**
 * What is decided, which is the same for all ways: they take minutes, so all ways but one have them
 * with `FAIRLEAD_STORIES=all` only.
 */
export function decisionStories(lab: () => Lab, mode: ModeName, how?: () => Watching): void {
  test(
    'half of the endpoints stay, whatever they do',
    async () => halfStays(await Watched.start(lab(), mode, eject, how?.())),
    longestMs,
  );

  test(
    'one endpoint stays where all others may be left out',
    async () => lastStays(await Watched.start(lab(), mode, eject, { ...how?.(), maxEjected: 100 })),
    longestMs,
  );

  test(
    'an endpoint that another Service leaves out by its own probes stays',
    async () => isLeftOutByAnother(lab(), mode, how?.()),
    longestMs,
  );

  test(
    'endpoints of a Service that only observes stay, and the metric counts what is silent',
    async () => {
      const observe = { 'fairlead.io/failure-detection': 'observe' };
      await isObserved(await Watched.start(lab(), mode, observe, how?.()));
    },
    longestMs,
  );
}

/** Sockets that were translated at connect time have no other endpoint to go to. */
export function packetFailureStories(lab: () => Lab, mode: ModeName): void {
  test(
    'clients that try an endpoint when it is left out reach another one',
    async () => laterByAnother(lab(), mode),
    longestMs,
  );
}
