/**
 * What becomes of connections when a pod vanishes without a word, one of ten: without failure
 * detection for as long as its EndpointSlice names it, and with it. And whether an endpoint is left
 * out wrongly while packets are lost, endpoints are slow, restart, come and go. `--minutes` says
 * how long the latter takes, 1 by default.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Caller } from '../test/lab/caller.ts';
import { monotonicMs } from '../test/lab/load.ts';
import { far, NodeStage, near, type StagedService } from './lib/node-stage.ts';
import { table } from './lib/stats.ts';

const perSecond = 100;
/** As long as a node controller takes to notice that a node has gone. */
const lostMs = 40_000;
/** When clients give up: some early, some late. */
const patienceMs = [1000, 5000] as const;
const longestMs = 5000;
const clusterIP = '10.96.0.1';
const ports = [8080, 8081] as const;

function web(addresses: readonly string[]): StagedService {
  return { name: 'web', clusterIP, target: ports[0], addresses };
}

/** A client of the Service, once all of these endpoints have answered it. */
function called(stage: NodeStage, addresses: readonly string[]): Promise<Caller> {
  const to = { address: clusterIP, port: 80, perSecond, timeoutMs: longestMs };
  return stage.caller(to, addresses);
}

async function vanish(stage: NodeStage, detection: 'off' | 'eject'): Promise<string[]> {
  const all = [...near, far[0]!];
  stage.say(web(all));
  stage.start(`--failure-detection=${detection}`);
  const caller = await called(stage, all);
  const goneMs = monotonicMs();
  stage.disturb('far', { loss: 100, delayMs: 0 });
  await sleep(lostMs + longestMs);
  const calls = caller.since(goneMs).filter(({ startedMs }) => startedMs < goneMs + lostMs);
  const failed = patienceMs.map((ms) => {
    const lost = calls.filter(({ by, tookMs }) => by === undefined || tookMs > ms).length;
    return `${((100 * lost) / calls.length).toFixed(2)} %`;
  });
  const late = calls.filter(({ by, tookMs }) => by === undefined || tookMs > patienceMs[0]);
  const lastMs = Math.max(0, ...late.map(({ startedMs }) => startedMs - goneMs));
  const [ejection] = stage.ejections;
  const after = ejection === undefined ? 'never' : seconds(ejection.atMs - goneMs);
  await caller.end();
  await stage.stop();
  stage.disturb('far', { loss: 0, delayMs: 0 });
  return [detection, after, ...failed, seconds(lastMs)];
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}

/** When an endpoint refused connections, by `monotonicMs`. */
interface Outage {
  readonly address: string;
  readonly fromMs: number;
  untilMs: number;
}

/** What was refused this long ago may be the reason for which an endpoint is left out. */
const lagMs = 2000;

/** Endpoints that are restarted take this long, in turn. */
const restartsMs = [300, 1000, 4000] as const;

async function chaos(stage: NodeStage, durationMs: number): Promise<string> {
  const all = [...near.slice(1), ...far];
  const probed = { name: 'probed', clusterIP: '10.96.0.2', target: ports[1] };
  const say = (addresses: readonly string[]): void => {
    const annotations = { 'fairlead.io/probe': 'tcp' };
    stage.say(web(addresses), { ...probed, addresses, annotations });
  };
  const outages: Outage[] = [];
  const during = async (addresses: readonly string[], work: () => Promise<void>): Promise<void> => {
    const fromMs = monotonicMs();
    const own = addresses.map((address) => ({
      address,
      fromMs,
      untilMs: Number.POSITIVE_INFINITY,
    }));
    outages.push(...own);
    await work();
    for (const outage of own) outage.untilMs = monotonicMs();
  };
  const refuse = async (address: string, ms: number): Promise<void> => {
    stage.refuse('near', [address]);
    await sleep(ms);
    stage.refuse('near', []);
  };
  const restart = async (): Promise<void> => {
    await stage.stopServing('near');
    await sleep(300);
    await stage.serve('near', ports);
  };
  say(all);
  stage.start('--failure-detection=eject');
  const caller = await called(stage, all);
  stage.disturb('near', { loss: 5, delayMs: 0 });
  stage.disturb('far', { loss: 5, delayMs: 900 });
  const beganMs = monotonicMs();
  let rounds = 0;
  for (; monotonicMs() - beganMs < durationMs; rounds += 1) {
    await sleep(2000);
    say(all.filter((_, i) => i % 4 !== rounds % 4));
    await sleep(2000);
    say(all);
    const refusing = all[rounds % (near.length - 1)]!;
    const ms = restartsMs[rounds % restartsMs.length]!;
    await during([refusing], () => refuse(refusing, ms));
    await sleep(1000);
    await during(near, restart);
  }
  const tookMs = monotonicMs() - beganMs;
  const { calls } = caller;
  const failed = calls.filter(({ by }) => by === undefined);
  // A timer is never early.
  const unanswered = failed.filter(({ tookMs }) => tookMs >= longestMs).length;
  const isRight = ({ atMs, endpoint }: (typeof stage.ejections)[number]): boolean =>
    outages.some(({ address, fromMs, untilMs }) => {
      return endpoint.startsWith(`${address}:`) && fromMs < atMs && atMs < untilMs + lagMs;
    });
  const wrong = stage.ejections.filter((one) => !isRight(one));
  const right = stage.ejections.length - wrong.length;
  await caller.end();
  await stage.stop();
  return [
    `Chaos of ${seconds(tookMs)}: 5 % of packets are lost each way, two of ten endpoints answer after 900 ms,`,
    `${rounds} times some left, one refused connections for 0.3 to 4 s, and eight were restarted together.`,
    `${calls.length} connections, of which ${failed.length - unanswered} were refused, and ${unanswered} not answered in ${seconds(longestMs)};`,
    `${right} endpoints were left out while they refused, and ${wrong.length} wrongly${listed(wrong, beganMs)}.`,
  ].join('\n');
}

/** `: 11.254.0.2:8080 after 12.3 s`; empty when there is none. */
function listed(ejections: NodeStage['ejections'], beganMs: number): string {
  const each = ejections.map(({ atMs, endpoint }) => {
    return `${endpoint} after ${seconds(atMs - beganMs)}`;
  });
  return each.length === 0 ? '' : `: ${each.join(', ')}`;
}

export async function failures(minutes: number): Promise<string> {
  const stage = new NodeStage();
  try {
    await stage.open('process', ...ports);
    const rows = [await vanish(stage, 'off'), await vanish(stage, 'eject')];
    const given = patienceMs.map((ms) => `failed, given up after ${ms / 1000} s`);
    return [
      `One of ten endpoints vanishes; ${perSecond} connections a second, of ${lostMs / 1000} s from then on`,
      '',
      table(['detection', 'left out after', ...given, 'last one late after'], rows),
      '',
      await chaos(stage, minutes * 60_000),
    ].join('\n');
  } finally {
    await stage.close();
  }
}
