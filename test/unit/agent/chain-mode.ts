/** A mode for tests: a table `chains`, in it one chain for each Forwarding. */
import type { Kernel, KernelReader } from '../../../src/kernel/kernel.ts';
import { NFPROTO } from '../../../src/kernel/nft/constants.ts';
import { nftOps } from '../../../src/kernel/ops.ts';
import { RecordWriter } from '../../../src/kernel/records.ts';
import { generationOfOthers } from '../../../src/kernel/steady.ts';
import type {
  Batch,
  Drift,
  Environment,
  ModeName,
  Observation,
  Repair,
} from '../../../src/modes/mode.ts';
import { nftablesMode } from '../../../src/modes/nftables/mode.ts';
import type { Planner } from '../../../src/modes/planner.ts';
import type { ProxyMode } from '../../../src/modes/proxy-mode.ts';
import type { Family } from '../../../src/net/address.ts';
import { type Forwarding, forwardingKey } from '../../../src/state/types.ts';

export const table = 'chains';
const families = ['IPv4', 'IPv6'] as const;

export function chainMode(name: ModeName): ProxyMode {
  return {
    ...nftablesMode,
    name,
    probe: async () => [],
    planner: ({ family }, environment) => new ChainPlanner(family, environment),
    owned: async (kernel) => {
      const objects = [];
      for (const family of families) {
        const { isThere } = await read(kernel, family);
        if (isThere) objects.push({ object: `table ${family} ${table}`, because: 'of its name' });
      }
      return objects;
    },
    cleanup: async (kernel) => {
      const writer = new RecordWriter(nftOps);
      for (const family of families) {
        const { isThere } = await read(kernel, family);
        if (isThere) writer.write('tableDelete', { family: NFPROTO[family], table });
      }
      await kernel.apply(writer.finish());
    },
  };
}

async function read(kernel: KernelReader, family: Family) {
  const tables = await kernel.dump({ kind: 'tablesDump', family: NFPROTO[family] });
  const chains = await kernel.dump({ kind: 'chainsDump', family: NFPROTO[family], table });
  return {
    isThere: tables.records.some((one) => one.kind === 'table' && one.table === table),
    chains: new Set(chains.records.flatMap((one) => (one.kind === 'chain' ? one.chain : []))),
  };
}

function chainOf({ servicePort }: Forwarding): string {
  return forwardingKey(servicePort).replaceAll(/[^a-zA-Z]/g, '-');
}

const none: Drift = { missing: 0, wrong: 0, unwanted: 0 };

class ChainPlanner implements Planner {
  cloneEmpty(): Planner {
    throw new Error('nobody compares');
  }

  describe(): string[] {
    return [];
  }

  readonly family: Family;
  environment: Environment;
  readonly exposed = [];
  readonly batchBytesMax = undefined;
  readonly indivisible = false;
  readonly takeDeferred = undefined;
  readonly unswept = undefined;
  readonly takeSweep = undefined;
  readonly #inTable: { readonly family: number; readonly table: string };
  #writer = new RecordWriter(nftOps);
  readonly #wanted = new Set<string>();

  constructor(family: Family, environment: Environment) {
    this.environment = environment;
    this.family = family;
    this.#inTable = { family: NFPROTO[family], table };
  }

  get pendingBytes(): number {
    return this.#writer.byteLength;
  }

  change(previous: Forwarding | undefined, next: Forwarding | undefined): void {
    if (next !== undefined) this.#want(chainOf(next), previous !== undefined);
    else if (previous !== undefined) this.#drop(chainOf(previous));
  }

  changeEnvironment(next: Environment): void {
    this.environment = next;
  }

  take(): Batch | undefined {
    const { count: writes } = this.#writer;
    if (writes === 0) return undefined;
    const ops = this.#writer.finish();
    this.#writer = new RecordWriter(nftOps);
    return { ops, writes, culprits: () => [], committed: () => {}, refused: () => {} };
  }

  async miscounts(): Promise<undefined> {
    return undefined;
  }

  takeReport() {
    return { refused: [], rules: [] };
  }

  async prepare() {
    return { observe: (kernel: Kernel) => this.observe(kernel) };
  }

  async observe(kernel: Kernel): Promise<Observation> {
    const { chains, isThere } = await read(kernel, this.family);
    const generation = await generationOfOthers(kernel);
    const repair = async () => this.#repair(chains, isThere);
    return {
      generation,
      isStale: false,
      allowsBatches: false,
      adopt: (next) => next,
      leave: () => false,
      stage: () => undefined,
      restore: repair,
      repair,
      drop: () => {},
    };
  }

  #repair(chains: ReadonlySet<string>, isThere: boolean): Repair {
    this.#wanted.clear();
    this.#writer = new RecordWriter(nftOps);
    if (!isThere) this.#writer.write('tableAdd', { ...this.#inTable, comment: '' });
    return {
      drift: isThere ? none : { ...none, missing: 1 },
      compare: (desired) => {
        const chain = chainOf(desired);
        this.#want(chain, chains.has(chain));
        return chains.has(chain) ? none : { ...none, missing: 1 };
      },
      finish: async () => {
        const unwanted = [...chains].filter((chain) => !this.#wanted.has(chain));
        for (const chain of unwanted) this.#drop(chain);
        return { ...none, unwanted: unwanted.length };
      },
    };
  }

  async resume(): Promise<void> {
    this.#writer = new RecordWriter(nftOps);
  }

  #want(chain: string, isThere: boolean): void {
    this.#wanted.add(chain);
    if (!isThere) this.#writer.write('chainAdd', { ...this.#inTable, chain, comment: '' });
  }

  #drop(chain: string): void {
    this.#wanted.delete(chain);
    this.#writer.write('chainDelete', { ...this.#inTable, chain });
  }
}
