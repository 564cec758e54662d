/**
 * What does a range of 10,000 ports cost, compared with one port? Elements and rules in the kernel,
 * and connecting to a port of it.
 */
import { iptablesMode } from '../src/modes/iptables/mode.ts';
import { nftablesMode } from '../src/modes/nftables/mode.ts';
import type { ProxyMode } from '../src/modes/proxy-mode.ts';
import type { Change } from '../src/state/change.ts';
import { buildPrograms, type Cost, port, Stage, target } from './connect.ts';
import { objects, slice } from './lib/cluster.ts';
import { withRig } from './lib/rig.ts';
import { number, ratio, table } from './lib/stats.ts';

const size = { services: 1000, endpoints: 10 };
const rounds = 5;
/** The server listens at one port, which is within the range. */
const [first, last] = [1000, 10_999];
const modes = { nftables: () => nftablesMode, iptables: () => iptablesMode() };

interface Measured extends Cost {
  /** Elements and rules in the kernel. */
  readonly held: number;
}

export async function portRanges(): Promise<string> {
  buildPrograms();
  const stage = new Stage();
  const rows: string[][] = [];
  try {
    await stage.ready();
    for (const [name, mode] of Object.entries(modes)) {
      const [ones, ranges]: Measured[][] = [[], []];
      for (let round = 0; round < rounds; round += 1) {
        ones!.push(await measured(stage, mode(), false));
        ranges!.push(await measured(stage, mode(), true));
      }
      const [one, range] = [ones!, ranges!].map(best);
      const of = ({ held, p50Us, p99Us }: Measured): string[] => [held, p50Us, p99Us].map(number);
      rows.push([name, ...of(one!), ...of(range!), ratio(range!.p50Us, one!.p50Us)]);
    }
  } finally {
    stage.close();
  }
  const cells = ['elements and rules', 'p50 µs', 'p99 µs'];
  const head = ['mode', ...cells, ...cells.map((cell) => `${cell}, range`), 'p50 to one port'];
  const title = `Connecting to a port of a Service of 10 endpoints among 1,000 Services; best of ${rounds}`;
  return `${title}\n\n${table(head, rows)}`;
}

function best(all: readonly Measured[]): Measured {
  return all.reduce((a, b) => (a.p50Us < b.p50Us ? a : b));
}

async function measured(stage: Stage, mode: ProxyMode, isRange: boolean): Promise<Measured> {
  const found = await withRig(
    stage.node,
    async (rig): Promise<Measured> => {
      await rig.load(changes(isRange));
      return { ...stage.connect({ ...target, port }), held: heldBy(stage) };
    },
    mode,
  );
  stage.node.run('nft', ['flush', 'ruleset']);
  return found;
}

function heldBy(stage: Stage): number {
  const { nftables } = JSON.parse(stage.node.run('nft', ['-j', 'list', 'ruleset'])) as {
    nftables: { rule?: object; map?: { elem?: unknown[] }; set?: { elem?: unknown[] } }[];
  };
  return nftables.reduce((sum, { map, rule, set }) => {
    return sum + (rule ? 1 : (map?.elem?.length ?? set?.elem?.length ?? 0));
  }, 0);
}

/** The cluster. The port of Service 0, or the first of its range, is that of its endpoints, too. */
function* changes(isRange: boolean): Generator<Change> {
  const number = isRange ? first : Number(port);
  const ports = [{ name: 'http', protocol: 'TCP', port: number, nodePort: 0 }] as const;
  for (const change of objects(size)) {
    if (change.kind === 'service' && change.service.name === 'service-0') {
      const portRange = isRange ? { first, last } : undefined;
      yield { kind: 'service', service: { ...change.service, portRange, ports } };
    } else if (change.kind === 'slice' && change.slice.service === 'bench/service-0')
      yield { kind: 'slice', slice: { ...slice(0, size.endpoints), ports } };
    else yield change;
  }
}
