/** A node whose connections are translated when they are made, on which versions take turns. */
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type AttachedProgram, findAttached } from '../../src/connect-time/maps/attached.ts';
import { askKernel } from '../lab/ask-kernel.ts';
import type { ConnectTimePlace } from '../lab/connect-time.ts';
import type { Lab } from '../lab/lab.ts';
import { DEFAULT_CLUSTER_CIDR } from '../lab/objects.ts';
import { Place, type Program, until } from '../process/program.ts';
import { start, type Version } from './versions.ts';

/** Of the Service that a `Place` has. */
export const frontend = { address: '10.96.0.10', port: 80 } as const;

/** Mounts what the place has where a node has it, and hides the root of the hierarchy. */
const mounts =
  'mount --bind "$1" /sys/fs/bpf && mount --bind "$2" /sys/fs/cgroup && umount "$3" && ' +
  'shift 3 && exec "$@"';
const hook = pathToFileURL(join(import.meta.dirname, 'root-cgroup.mjs'));

/** Sees connections to the frontend that no program has translated, before any rule does. */
const observer = `
  table ip observer {
    chain from-node {
      type filter hook output priority -400;
      ip daddr ${frontend.address} tcp flags & (syn | ack) == syn counter
    }
    chain from-pods {
      type filter hook prerouting priority -400;
      ip daddr ${frontend.address} tcp flags & (syn | ack) == syn counter
    }
  }`;

/** Of both families, at connect and at getpeername. */
const programCount = 6;
const maps = ['frontends', 'endpoints', 'settings', 'secret'].flatMap((name) => [
  `${name}4`,
  `${name}6`,
]);

export class TranslatingNode {
  readonly place: Place;
  readonly #lab: Lab;
  readonly #paths: ConnectTimePlace;
  readonly #within: readonly string[];

  private constructor(lab: Lab, paths: ConnectTimePlace) {
    const { namespace: name, namespacePath: path, run } = lab.node;
    this.place = new Place({
      ...{ name, path },
      run: (program, args, input) => run([program, ...args], input),
    });
    this.place.configure({
      ...{ mode: 'nftables', clusterCIDR: DEFAULT_CLUSTER_CIDR, connectTime: 'all' },
    });
    this.#lab = lab;
    this.#paths = paths;
    const { cgroup, directory } = paths;
    this.#within = [
      ...['sh', '-c', mounts, 'sh', dirname(directory), cgroup, dirname(cgroup)],
      ...['env', `NODE_OPTIONS=--import=${hook}`],
    ];
  }

  static async make(lab: Lab, paths: ConnectTimePlace): Promise<TranslatingNode> {
    await lab.node.run(['nft', '-f', '-'], observer);
    return new TranslatingNode(lab, paths);
  }

  /** Starts a version, and waits until it is ready and programs are attached. */
  async start(version: Version): Promise<Program> {
    const program = await start(this.place, version, this.#within);
    const translates = async () => (await this.programs()).size === programCount;
    await until(translates, `${version} has attached its programs`);
    return program;
  }

  /** Whether all programs are attached, and none of these is: each is replaced by itself. */
  async hasReplaced(earlier: ReadonlyMap<string, number>): Promise<boolean> {
    const now = await this.programs();
    return now.size === programCount && [...now].every(([name, id]) => earlier.get(name) !== id);
  }

  /** Attached programs that have a pin of a known name: names with ids in the kernel. */
  async programs(): Promise<ReadonlyMap<string, number>> {
    const pinned = (await this.#attached()).filter(({ isPinned }) => isPinned);
    return new Map(pinned.map(({ name, program }) => [name, program]));
  }

  /** The number of attached programs of whatever version. */
  async attached(): Promise<number> {
    return (await this.#attached()).length;
  }

  async #attached(): Promise<readonly AttachedProgram[]> {
    const found = await askKernel(this.#lab.node, (kernel) => findAttached(kernel, this.#paths));
    if (found.kind !== 'ours') throw new Error('attached programs need CAP_SYS_ADMIN to be read');
    return found.programs;
  }

  /** The elements of the maps, as bytes. */
  elements(): Promise<Record<string, string>> {
    return askKernel(this.#lab.node, async (kernel) => {
      const { directory } = this.#paths;
      const all = maps.map(async (map): Promise<[string, string]> => {
        const { records } = await kernel.dump({ kind: 'bpfElementsDump', directory, map });
        const bytes = records.flatMap((one) =>
          one.kind === 'bpfElements' ? [one.keys, one.values] : [],
        );
        return [map, Buffer.concat(bytes).toString('hex')];
      });
      return Object.fromEntries(await Promise.all(all));
    });
  }

  /** Connections that the rules have handled so far. */
  async byRules(): Promise<number> {
    const text = await this.#lab.node.run(['nft', 'list', 'table', 'ip', 'observer']);
    const counts = [...text.matchAll(/counter packets (\d+)/g)];
    return counts.reduce((sum, [, count]) => sum + Number(count), 0);
  }
}
