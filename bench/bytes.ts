/**
 * What does it cost to count the bytes of connections, are any lost, and do they agree with those
 * of the client's interface? Two nodes forward new connections, one of them with `serviceBytes`,
 * which changes places each round. Connections through both in turns show what one costs more.
 */
import { execFileSync, spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { buildPrograms, connectLoop } from './connect.ts';
import { NodeStage, near } from './lib/node-stage.ts';
import { processorTime } from './lib/processor-time.ts';
import { number, table } from './lib/stats.ts';

const flood = { perSecond: 20_000, seconds: 5 };
/** Student's factor of 95 % is that of this number of rounds. */
const [rounds, student] = [10, 2.262];
/** Of 500 pairs of connections. */
const blocks = 30;
/** At the second port nothing listens: a connection ends with the first answer. */
const [port, closed] = [8080, 9999];
const [loaded, flooded] = ['10.96.0.1', '10.96.0.2'];

export async function bytes(): Promise<string> {
  buildPrograms();
  const stages = [new NodeStage('first'), new NodeStage('second')] as const;
  const runs: Record<'off' | 'on', number[][]> = { off: [], on: [] };
  try {
    const addresses = near.slice(0, 4);
    for (const stage of stages) {
      await stage.open('veth', port);
      stage.say(
        { name: 'loaded', clusterIP: loaded, target: port, addresses },
        { name: 'flooded', clusterIP: flooded, target: closed, addresses },
      );
    }
    for (let round = 0; round < rounds; round += 1) {
      const [off, on] = round % 2 === 0 ? stages : [stages[1], stages[0]];
      const floods = [await started(off), await started(on, '--service-bytes')];
      const us = inTurns(off, on);
      runs.off.push([...floods[0]!, us[0]]);
      runs.on.push([...floods[1]!, us[1]]);
      for (const stage of stages) await stage.stop();
    }
  } finally {
    for (const stage of stages) await stage.close();
  }
  const median = (own: readonly number[][], i: number): number =>
    own.map((one) => one[i]!).sort((a, b) => a - b)[Math.floor(rounds / 2)]!;
  const ratios = runs.on.map((own, i) => own[4]! / runs.off[i]![4]!);
  const rows = Object.entries(runs).map(([name, own]) => {
    const cells = [0, 1, 2, 3, 4].map((i) => number(median(own, i)));
    return [name, ...cells, name === 'on' ? interval(ratios) : '1.000'];
  });
  const head = ['new connections/s', 'cores', 'not counted', 'bytes to interface'];
  return `${flood.perSecond} connections a second for ${flood.seconds} s, and the processor time of a connection in turns; medians of ${rounds}, and their mean with 95 % confidence

${table(['serviceBytes', ...head, 'µs a connection', 'by off'], rows)}`;
}

/** Starts the program, and floods its node. */
async function started(stage: NodeStage, ...flags: readonly string[]): Promise<number[]> {
  const { far } = stage.sides;
  // Another start has set it.
  stage.node.run('sysctl', ['-qw', 'net.netfilter.nf_conntrack_acct=0']);
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
  return [perSecond, cores, metric('service_bytes_missed_connections_total'), share];
}

/** The microseconds that a client's thread takes for a connection, with what the kernel does in it. */
function inTurns(...stages: readonly [NodeStage, NodeStage]): [number, number] {
  const paths = stages.map(({ sides }) => sides.far.path);
  const argv = ['turns', ...paths, loaded, '80', `${blocks}`];
  const all = JSON.parse(execFileSync(connectLoop, argv, { encoding: 'utf8' })) as number[][];
  const mean = (i: number): number => all.reduce((sum, one) => sum + one[i]!, 0) / all.length;
  return [mean(0), mean(1)];
}

/** `1.004 (1.001–1.007)`. */
function interval(values: readonly number[]): string {
  const mean = values.reduce((a, b) => a + b) / values.length;
  const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  const off = student * Math.sqrt(squares / (values.length - 1) / values.length);
  return `${mean.toFixed(3)} (${(mean - off).toFixed(3)}–${(mean + off).toFixed(3)})`;
}

/** In packets of IP that the client has sent, without the headers of Ethernet. */
function sentBytes(stage: NodeStage): number {
  const said = stage.node.run('ip', ['-s', '-j', 'link', 'show', 'to-far']);
  const [{ stats64 }] = JSON.parse(said) as [{ stats64: { rx: Record<string, number> } }];
  return stats64.rx.bytes! - 14 * stats64.rx.packets!;
}
