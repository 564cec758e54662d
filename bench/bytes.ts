/**
 * What does it cost to count the bytes of connections, are any lost, and do they agree with those
 * of the client's interface? A node forwards new connections, without and with `serviceBytes` in turns.
 */
import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { buildLoad } from '../test/lab/native/build.ts';
import { buildPrograms, connectLoop } from './connect.ts';
import { NodeStage, near } from './lib/node-stage.ts';
import { processorTime } from './lib/processor-time.ts';
import { number, ratio, table } from './lib/stats.ts';

const flood = { perSecond: 20_000, seconds: 10 };
const rounds = 3;
/** At the second port nothing listens: a connection ends with the first answer. */
const [port, closed] = [8080, 9999];
const [loaded, flooded] = ['10.96.0.1', '10.96.0.2'];

export async function bytes(): Promise<string> {
  buildPrograms();
  const stage = new NodeStage();
  const runs: Record<'off' | 'on', number[][]> = { off: [], on: [] };
  try {
    await stage.open('veth', port);
    const addresses = near.slice(0, 4);
    stage.say(
      { name: 'loaded', clusterIP: loaded, target: port, addresses },
      { name: 'flooded', clusterIP: flooded, target: closed, addresses },
    );
    for (let round = 0; round < rounds; round += 1) {
      runs.off.push(await measured(stage));
      runs.on.push(await measured(stage, '--service-bytes'));
    }
  } finally {
    await stage.close();
  }
  const median = (own: readonly number[][], i: number): number =>
    own.map((one) => one[i]!).sort((a, b) => a - b)[Math.floor(rounds / 2)]!;
  const rows = Object.entries(runs).map(([name, own]) => {
    const cells = [0, 1, 2, 3, 4].map((i) => number(median(own, i)));
    return [name, ...cells, ratio(median(own, 4), median(runs.off, 4))];
  });
  const head = ['new connections/s', 'cores', 'not counted', 'bytes to interface'];
  return `${flood.perSecond} connections a second for ${flood.seconds} s, then as many as possible; medians of ${rounds}

${table(['serviceBytes', ...head, 'most connections/s', ''], rows)}`;
}

async function measured(stage: NodeStage, ...flags: readonly string[]): Promise<number[]> {
  const { far } = stage.sides;
  stage.start('--proxy-mode=nftables', ...flags);
  const curl = ['-s', '--retry', '200', '--retry-connrefused', '--retry-delay', '1'];
  const metric = (name: string): number => {
    const said = stage.node.run('curl', [...curl, 'http://127.0.0.1:10249/metrics']);
    return Number(new RegExp(`^fairlead_${name} (\\d+)`, 'm').exec(said)?.[1]);
  };
  while (metric('healthy') !== 1) await sleep(500);
  far.run(connectLoop, ['until', loaded, '80', '50', '120000']);
  const before = { ms: processorTime(stage.proxyPid).all, sent: sentBytes(stage) };
  const of = [flooded, '1', '80', `${flood.perSecond}`, `${flood.seconds}`];
  const argv = ['netns', 'exec', far.name, connectLoop, 'flood', ...of];
  const flooder = spawn('ip', argv, { stdio: ['ignore', 'pipe', 'inherit'] });
  const { perSecond } = JSON.parse(await text(flooder.stdout)) as { perSecond: number };
  // A reading takes half a second.
  await sleep(2000);
  const cores = (processorTime(stage.proxyPid).all - before.ms) / 1000 / flood.seconds;
  const counted = metric('service_bytes_total\\{.*"flooded".*direction="in"\\}');
  const share = counted / (sentBytes(stage) - before.sent);
  const missed = metric('service_bytes_missed_connections_total');
  const load = far.run(buildLoad(), ['connect', loaded, '80', '5', '8', '/dev/null']);
  const { perSecond: most } = JSON.parse(load) as { perSecond: number };
  await stage.stop();
  return [perSecond, cores, missed, share, most];
}

/** In packets of IP that the client has sent, without the headers of Ethernet. */
function sentBytes(stage: NodeStage): number {
  const said = stage.node.run('ip', ['-s', '-j', 'link', 'show', 'to-far']);
  const [{ stats64 }] = JSON.parse(said) as [{ stats64: { rx: Record<string, number> } }];
  return stats64.rx.bytes! - 14 * stats64.rx.packets!;
}
