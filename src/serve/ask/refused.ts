/**
 * Connections that endpoints refuse. Connection tracking forgets those immediately, so that the
 * kernel counts them in a table of its own: for some seconds after a person has asked, and again as
 * long as there are any. The kernel removes the table with this process.
 */
import { ConntrackEntries } from '../../kernel/conntrack-entries.ts';
import { isKernelError, orElse } from '../../kernel/errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { baseChain, writeChain, writeRules } from '../../kernel/nft/chain.ts';
import { NF_INET, NFPROTO, NFT_SET } from '../../kernel/nft/constants.ts';
import {
  directionReply,
  matchOutputInterface,
  matchProtocol,
  matchRefusal,
  originalDaddr,
  originalDport,
  replySaddr,
  replySport,
  type Statement,
  statusYoungDNAT,
  updateSet,
} from '../../kernel/nft/rule.ts';
import { dumpShape, fieldsOfSet, type SetDefinition } from '../../kernel/nft/sets.ts';
import { nftOps } from '../../kernel/ops.ts';
import { RecordWriter } from '../../kernel/records.ts';
import { binary } from '../../modes/elements.ts';
import { addressType } from '../../modes/nft-table/parts.ts';
import { eachEntry } from '../../modes/nft-table/traffic.ts';
import type { Family } from '../../net/address.ts';
import type { Protocol } from '../../net/protocol.ts';
import type { Clock } from '../../time/clock.ts';
import { answerPacer } from './answer-pacer.ts';

/** Fewer connections without an answer say nothing: a client may have given up. */
export const failedLeast = 5;

interface Known {
  readonly clock: Pick<Clock, 'after' | 'now' | 'turn'>;
  readonly kernel: Pick<Kernel, 'apply' | 'dump'>;
}

/** How long it counts, how long it rests if there were none, and how long the result serves. */
const countsMs = 10_000;
const restsMs = 20_000;
const servesMs = 60_000;
/** Packets make them: more are not counted. */
const pairsMax = 4096;
const table = 'fairlead-refused';
const comment = 'connections that endpoints refuse, for some seconds, by Fairlead';
const none = new ConntrackEntries('IPv4', new Uint8Array(0));

export class RefusedConnections {
  readonly #known: Known;
  #found: readonly ConntrackEntries[] = [];
  /** When the last count ended; undefined: one is under way. */
  #endedMs: number | undefined = -Infinity;

  constructor(known: Known) {
    this.#known = known;
  }

  /** A frontend and an endpoint each, where the frontend had several in the last count. */
  of(family: Family, protocol: Protocol): ConntrackEntries {
    return (protocol === 'TCP' && this.#found.find((one) => one.family === family)) || none;
  }

  /** Counts again where the last result names any, and where a person asks and it is old. */
  async count(families: readonly Family[], isAsked: boolean): Promise<void> {
    const { clock, kernel } = this.#known;
    if (this.#endedMs === undefined || families.length === 0) return;
    const ageMs = clock.now() - this.#endedMs;
    if (ageMs >= servesMs) this.#found = [];
    const isDue = isAsked && ageMs >= restsMs;
    if (!isDue && !this.#found.some(({ length }) => length > 0)) return;
    const [begin, end] = [new RecordWriter(nftOps), new RecordWriter(nftOps)];
    for (const family of families) {
      writeTable(begin, family);
      end.write('tableDelete', { family: NFPROTO[family], table });
    }
    this.#endedMs = undefined;
    const isBegun = await orElse(kernel.apply(begin.finish()), undefined, isKernelError);
    if (isBegun?.kind !== 'applied') this.#endedMs = clock.now();
    else clock.after(countsMs, () => void this.#end(families, end.finish()).catch(() => {}));
  }

  async #end(families: readonly Family[], removal: Uint8Array): Promise<void> {
    this.#found = [];
    const found = families.map((family) => orElse(this.#read(family), none, isKernelError));
    try {
      // It goes also if it cannot be read: nothing is to be left that counts.
      this.#found = await Promise.all(found).finally(() => this.#known.kernel.apply(removal));
    } finally {
      this.#endedMs = this.#known.clock.now();
    }
  }

  async #read(family: Family): Promise<ConntrackEntries> {
    const { family: number, keyLength, set } = fieldsOfSet(family, table, pairsOf(family));
    const shape = { shape: dumpShape(pairsOf(family)), keyLength, dataLength: 0 };
    const request = { kind: 'elementsDump', family: number, table, set, ...shape } as const;
    const { records } = await this.#known.kernel.dump(request);
    const half = keyLength / 2;
    // A client's address and port, which are not known, and what else an entry has.
    const [client, tail] = [Buffer.alloc(half - 2), Buffer.alloc(half + 10)];
    const { pause } = answerPacer(this.#known);
    const byFrontend = new Map<string, { count: number; parts: Uint8Array[] }>();
    for (const one of records) {
      if (one.kind !== 'elements') continue;
      await eachEntry(one, pause, (pair, refused) => {
        const [to, by] = [0, half].map((i) => pair.subarray(i, i + half - 2));
        const { count, parts } = byFrontend.get(binary(to!)) ?? { count: 0, parts: [] };
        parts.push(client, to!, by!, tail);
        byFrontend.set(binary(to!), { count: count + refused, parts });
      });
    }
    const often = [...byFrontend.values()].filter(({ count }) => count >= failedLeast);
    return new ConntrackEntries(family, Buffer.concat(often.flatMap(({ parts }) => parts)));
  }
}

function pairsOf(family: Family): SetDefinition {
  const side = [addressType(family), 'inet_service'] as const;
  const flags = { flags: NFT_SET.EVAL, size: pairsMax, isCounted: true };
  return { name: 'pairs', key: [...side, ...side], data: undefined, ...flags, comment: 'counts' };
}

/** Each refusal passes one of these hooks, as in `countsTraffic` of mode nftables. */
function writeTable(writer: RecordWriter<typeof nftOps>, family: Family): void {
  const at = { family: NFPROTO[family], table };
  // A table that is left is made again.
  writer.write('tableBorrow', { ...at, comment });
  writer.write('tableDelete', at);
  writer.write('tableBorrow', { ...at, comment });
  writer.write('setAdd', fieldsOfSet(family, table, pairsOf(family)));
  const frontend = [originalDaddr(family), originalDport];
  const count = updateSet('pairs', [...frontend, replySaddr(family), replySport]);
  const refusal = [statusYoungDNAT, directionReply, matchProtocol('TCP'), matchRefusal, count];
  const hook = (name: string, number: number, ...first: Statement[]): void => {
    const chain = { name, base: baseChain('filter', number, 0), rules: [[...first, ...refusal]] };
    writeChain(writer, at, chain);
    writeRules(writer, at, chain);
  };
  hook('input', NF_INET.LOCAL_IN);
  hook('postrouting', NF_INET.POST_ROUTING, matchOutputInterface('!=', 'lo'));
}
