/**
 * How long is the longest turn of the event loop when an event of the node concerns all Services?
 * It is measured in each mode that this kernel can run.
 */
import { openKernel } from '../src/kernel/native-kernel.ts';
import { builtModes } from '../src/modes/index.ts';
import type { Environment, ProxyMode } from '../src/modes/mode.ts';
import { type Address, parseAddress, parseCIDR } from '../src/net/address.ts';
import { objects, type Size, sizeName, slice } from './lib/cluster.ts';
import { LongestTurn } from './lib/longest-turn.ts';
import { inNamespace, type Namespace } from './lib/namespace.ts';
import { type Rig, withRig } from './lib/rig.ts';
import { number, table } from './lib/stats.ts';

const size: Size = { services: 8000, endpoints: 30 };

const addresses = ['192.0.2.1', '192.0.2.2', '192.0.2.3'].map(
  (one) => parseAddress(one) as Address,
);

/** The environment of a node. */
function environment(own: number, nodePorts: number, serviceCIDR: string): Environment {
  return {
    serviceCIDRs: [parseCIDR(serviceCIDR)!],
    nodePortAddresses: addresses.slice(0, nodePorts),
    hostAddresses: addresses.slice(0, own),
  };
}

interface Happening {
  readonly name: string;
  readonly happen: (rig: Rig) => Promise<void>;
}

/** The events in order. Each changes what the one before has left. */
const happenings: readonly Happening[] = [
  {
    name: 'an address comes to the machine',
    happen: (rig) => rig.changeEnvironment(environment(2, 1, '10.96.0.0/12')),
  },
  {
    name: 'an address accepts node ports',
    happen: (rig) => rig.changeEnvironment(environment(2, 2, '10.96.0.0/12')),
  },
  {
    name: 'the ServiceCIDR changes',
    happen: (rig) => rig.changeEnvironment(environment(2, 2, '10.64.0.0/10')),
  },
  { name: 'an audit', happen: (rig) => rig.audit() },
  {
    name: 'the kernel refuses a batch',
    happen: (rig) => rig.refused({ kind: 'slice', slice: slice(0, 30, 1) }),
  },
];

export async function turns(): Promise<string> {
  const head = ['mode', ...happenings.map(({ name }) => name)];
  const rows: string[][] = [];
  // Sockets of mode userspace would open in the namespace of this process.
  for (const mode of [...builtModes().values()].filter(({ translates }) => translates)) {
    rows.push([mode.name, ...(await inNamespace('turns', (where) => measured(where, mode)))]);
  }
  const title = `The longest turn at ${sizeName(size)}, CPU time; ms (–: the kernel has not what the mode needs)`;
  return [title, table(head, rows)].join('\n\n');
}

async function measured(namespace: Namespace, mode: ProxyMode): Promise<string[]> {
  if (!(await isAble(namespace, mode))) return happenings.map(() => '–');
  const work = async (rig: Rig): Promise<string[]> => {
    const longest = new LongestTurn();
    const taken: number[] = [];
    const measure = async (happen: () => Promise<void>): Promise<void> => {
      longest.take();
      await happen();
      taken.push(longest.take());
    };
    await rig.load(objects(size));
    for (const { happen } of happenings) await measure(() => happen(rig));
    longest.close();
    return taken.map(number);
  };
  return withRig(namespace, work, mode, environment(1, 1, '10.96.0.0/12'));
}

async function isAble(namespace: Namespace, mode: ProxyMode): Promise<boolean> {
  const kernel = openKernel({ netns: namespace.path });
  const missing = await mode.probe(kernel);
  kernel.close();
  return missing.length === 0;
}
