/**
 * The turns of one mode in the network namespace of this process, where its sockets are, too. It
 * prints the longest turn at each event as JSON: an object of milliseconds, `null` where the kernel
 * has not what the mode needs.
 *
 *     node turns-of-mode.ts MODE
 */
import { openKernel } from '../../src/kernel/native-kernel.ts';
import { builtModes } from '../../src/modes/index.ts';
import type { Environment } from '../../src/modes/mode.ts';
import type { ProxyMode } from '../../src/modes/proxy-mode.ts';
import { type Address, parseAddress, parseCIDR } from '../../src/net/address.ts';
import { objects, type Size, slice } from './cluster.ts';
import { LongestTurn } from './longest-turn.ts';
import { type Rig, withRig } from './rig.ts';

const [name, services, endpoints] = process.argv.slice(2);
const size: Size = { services: Number(services), endpoints: Number(endpoints) };
const inThisNamespace = { path: '/proc/self/ns/net' };

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

/** The events in order. Each changes what the one before has left. */
const events: Readonly<Record<string, (rig: Rig) => Promise<void>>> = {
  'an address comes to the machine': (rig) =>
    rig.changeEnvironment(environment(2, 1, '10.96.0.0/12')),
  'an address accepts node ports': (rig) =>
    rig.changeEnvironment(environment(2, 2, '10.96.0.0/12')),
  'the ServiceCIDR changes': (rig) => rig.changeEnvironment(environment(2, 2, '10.64.0.0/10')),
  'an audit': (rig) => rig.audit(),
  'the kernel refuses a batch': (rig) => rig.refused({ kind: 'slice', slice: slice(0, 30, 1) }),
};

async function isAble(mode: ProxyMode): Promise<boolean> {
  const kernel = openKernel({ netns: inThisNamespace.path });
  const missing = await mode.probe(kernel);
  kernel.close();
  return missing.length === 0;
}

async function measured(rig: Rig): Promise<Record<string, number>> {
  await rig.load(objects(size));
  const longest = new LongestTurn();
  const taken: Record<string, number> = {};
  for (const [event, happen] of Object.entries(events)) {
    longest.take();
    await happen(rig);
    taken[event] = longest.take();
  }
  longest.close();
  return taken;
}

const mode = [...builtModes().values()].find((one) => one.name === name)!;
const initial = environment(1, 1, '10.96.0.0/12');
const turns = (await isAble(mode)) ? await withRig(inThisNamespace, measured, mode, initial) : null;
process.stdout.write(JSON.stringify(turns));
process.exit(0);
