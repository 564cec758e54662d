/** Element changes of one batch, grouped by set: the kernel looks a set up once a message. */
import { VERDICT } from '../../kernel/nft/constants.ts';
import { Lane, writeLane } from '../../kernel/nft/lane.ts';
import { isConcatInterval, type SetDefinition } from '../../kernel/nft/sets.ts';
import type { nftOps } from '../../kernel/ops.ts';
import type { RecordWriter } from '../../kernel/records.ts';
import type { Family } from '../../state/address.ts';
import type { Interval } from '../../state/interval.ts';
import { rejectChain } from './chains.ts';
import { type SetName, setNames, tableName } from './layout.ts';

/** All lanes of a batch. */
export class Lanes {
  readonly #sets: Readonly<Record<SetName, SetDefinition>>;
  readonly #lanes = new Map<string, Lane>();

  constructor(sets: Readonly<Record<SetName, SetDefinition>>) {
    this.#sets = sets;
  }

  get count(): number {
    let count = 0;
    for (const lane of this.#lanes.values()) count += lane.count;
    return count;
  }

  get byteLength(): number {
    let bytes = 0;
    for (const lane of this.#lanes.values()) bytes += lane.byteLength;
    return bytes;
  }

  to(purpose: 'add' | 'delete', set: SetName, owner: string): Lane {
    const id = `${purpose} ${set}`;
    let lane = this.#lanes.get(id);
    if (lane === undefined) {
      lane = new Lane(this.#sets[set], purpose);
      this.#lanes.set(id, lane);
    }
    lane.own(owner);
    return lane;
  }

  /**
   * Writes the ops of all lanes: deletions first, so that a key can be given other data in one
   * transaction. Returns the lane behind each op index.
   */
  write(writer: RecordWriter<typeof nftOps>, family: Family): Map<number, Lane> {
    const written = new Map<number, Lane>();
    for (const purpose of ['delete', 'add'] as const) {
      for (const set of setNames) {
        const lane = this.#lanes.get(`${purpose} ${set}`);
        if (lane === undefined || lane.count === 0) continue;
        written.set(writeLane(writer, { family, table: tableName }, lane, purpose), lane);
      }
    }
    return written;
  }
}

/** Writes a no-endpoint element. */
export function writeRefusal(lane: Lane, key: Uint8Array, refusal: 'reject' | 'drop'): void {
  if (refusal === 'drop') lane.verdict(key, VERDICT.drop, '');
  else lane.verdict(key, VERDICT.goto, rejectChain);
}

/** Writes the ranges of `clients` for the frontend `key` into a `source-ranges` lane. */
export function writeClients(lane: Lane, key: Uint8Array, clients: readonly Interval[]): void {
  if (!isConcatInterval(lane.set)) throw new Error(`set ${lane.set.name} holds no ranges`);
  for (const range of clients) lane.concatRange(key, range);
}
