/**
 * What does a new connection pay in mode ipvs for the look-up in the set `resets`, which only
 * Services with `end-connections` need, and all connections make? One is too little to be seen, so
 * the rule is repeated. Needs a kernel with IPVS:
 * `npm run test:vm -- --only 6.1-uml --memory 4096 -- node bench/main.ts ipvs-resets`.
 */
import { ipvsLooking } from './lib/path-contenders.ts';
import { type Costs, inTurns, median, withReady } from './lib/path-turns.ts';
import { number, ratio, table } from './lib/stats.ts';

const many = 4096;
const services = 1000;
const rounds = 40;
const roundMs = 100;

export async function ipvsResets(): Promise<string> {
  const all = [0, 1, many].map(ipvsLooking);
  const lack = all[0]!.lack(services);
  if (lack !== undefined) return `Look-ups of mode ipvs: not measured, ${lack}`;
  let costs: ReadonlyMap<string, Costs> = new Map();
  await withReady(all, services, (ready) => {
    costs = inTurns(ready, ['connect'], rounds, roundMs, 'IPv4', median);
  });
  const of = ({ name }: (typeof all)[number]) => costs.get(name)!.connect;
  const [none, one, most] = all.map(of);
  const eachUs = (most!.processorUs - one!.processorUs) / (many - 1);
  const rows = all.map((contender) => {
    const { perSecond, processorUs } = of(contender);
    const rate = [number(perSecond), ratio(perSecond, none!.perSecond)];
    return [contender.name, ...rate, number(processorUs)];
  });
  return [
    `A new connection among ${number(services)} Services; median of ${rounds} rounds of ${roundMs} ms`,
    table(['in the set resets', 'connections/s', 'of none', 'processor time of each, µs'], rows),
    `A look-up takes ${eachUs.toFixed(2)} µs, ${share(eachUs, none!.processorUs)} of a connection.`,
  ].join('\n\n');
}

function share(part: number, whole: number): string {
  return `${((100 * part) / whole).toFixed(2)} %`;
}
