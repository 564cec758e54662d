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
import { fieldsOfSet, type SetDefinition } from '../../kernel/nft/sets.ts';
import { nftOps } from '../../kernel/ops.ts';
import { RecordWriter } from '../../kernel/records.ts';
import { addressType } from '../../modes/nft-table/parts.ts';
import { readCountings } from '../../modes/nft-table/traffic.ts';
import type { Family } from '../../net/address.ts';
import { addCount } from '../../net/counts.ts';
import type { Protocol } from '../../net/protocol.ts';
import type { FrontendsByFamily } from '../../state/frontends-in-force.ts';
import type { Clock } from '../../time/clock.ts';
import { answerPacer } from './answer-pacer.ts';

/** Fewer connections without an answer say nothing: a client may have given up. */
export const failedLeast = 5;

interface Known {
  readonly clock: Pick<Clock, 'after' | 'now' | 'turn'>;
  /** Undefined: no mode runs. */
  readonly engine: { readonly frontends: FrontendsByFamily } | undefined;
  readonly kernel: Pick<Kernel, 'apply' | 'dump'>;
}

/** How long it counts, how long it rests if there were none, and how long the result serves. */
const countsMs = 10_000;
const restsMs = 20_000;
const servesMs = 60_000;
/** It reads this often in that time: each reading makes room in a set that one namespace fills. */
const readings = 5;
/** Packets make them: more are not counted. */
const pairsMax = 4096;
const pairs = { set: 'pairs', parts: ['address', 'port'], of: 'resets' } as const;
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
    else void this.#count(families, end.finish()).catch(() => {});
  }

  async #count(families: readonly Family[], removal: Uint8Array): Promise<void> {
    const { clock, kernel } = this.#known;
    const found = Promise.all(families.map((family) => this.#countOf(family)));
    try {
      // It goes also if it cannot be read: nothing is to be left that counts.
      this.#found = await found.finally(() => kernel.apply(removal));
    } finally {
      this.#endedMs = clock.now();
    }
  }

  async #countOf(family: Family): Promise<ConntrackEntries> {
    const { clock, engine, kernel } = this.#known;
    const { pause } = answerPacer(this.#known);
    const layout = { family, table, comment, sets: { pairs: pairsOf(family) } };
    const counts = new Map<string, number>();
    for (let i = 0; i < readings; i += 1) {
      await new Promise<void>((resolve) => void clock.after(countsMs / readings, resolve));
      const read = readCountings(kernel, layout, [pairs], pause, ({ count, destination, id }) => {
        counts.set(id.slice('pairs '.length), count);
        return engine?.frontends[family]?.at({ ...destination, protocol: 'TCP' }).namespace ?? '';
      });
      await orElse(read, undefined, isKernelError);
    }
    const byFrontend = new Map<string, number>();
    for (const [pair, count] of counts) addCount(byFrontend, frontendOf(pair), count);
    const entries = Array.from(counts.keys(), (pair) => {
      const frontend = frontendOf(pair);
      if (byFrontend.get(frontend)! < failedLeast) return '';
      // A client's address and port, which are not known, and what else an entry has.
      const [client, tail] = [-2, 10].map((more) => '\0'.repeat(frontend.length + more));
      return [client, frontend.slice(0, -2), pair.slice(frontend.length, -2), tail].join('');
    });
    return new ConntrackEntries(family, Buffer.from(entries.join(''), 'latin1'));
  }
}

function frontendOf(pair: string): string {
  return pair.slice(0, pair.length / 2);
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
