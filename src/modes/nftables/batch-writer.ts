/** Collects the ops of one transaction on our table and puts them into an order that works. */
import type { KernelFailure } from '../../kernel/kernel.ts';
import { type Lane, SetLanes } from '../../kernel/nft/lane.ts';
import { nftOps } from '../../kernel/ops.ts';
import { RecordWriter } from '../../kernel/records.ts';
import type { Difference, Writer } from '../backend.ts';
import { binary } from '../elements.ts';
import type { Batch, Environment, ModeConfig } from '../mode.ts';
import type { TableLayout } from '../nft-table/layout.ts';
import { replaceRanges } from '../nft-table/repair.ts';
import type { TableObject } from '../nft-table/shared.ts';
import { TableWriter } from '../nft-table/writer.ts';
import { environmentChains, fixedChains } from './chains.ts';
import type { NFTablesObjects } from './held.ts';
import { type SetName, type SharedSet, sharedElements } from './layout.ts';

/** What writes the differences of frontends into lanes. */
type WriteFrontend = (lanes: SetLanes<SetName>, difference: Difference<NFTablesObjects>) => void;

export class BatchWriter implements Writer<NFTablesObjects> {
  readonly lanes: SetLanes<SetName>;
  /** Writes what there is beside elements. */
  readonly table: TableWriter<SetName>;
  readonly #out = new RecordWriter(nftOps);
  readonly #config: ModeConfig;
  readonly #writeFrontend: WriteFrontend;
  /** Ids of chains and sets. */
  readonly #unused: string[] = [];

  constructor(layout: TableLayout<SetName>, config: ModeConfig, writeFrontend: WriteFrontend) {
    this.#config = config;
    this.lanes = new SetLanes(layout, layout.sets);
    this.table = new TableWriter(layout, this.#out, this.lanes);
    this.#writeFrontend = writeFrontend;
  }

  get byteLength(): number {
    return this.#out.byteLength + this.lanes.byteLength;
  }

  frontend(difference: Difference<NFTablesObjects>): void {
    this.#writeFrontend(this.lanes, difference);
  }

  add(shared: TableObject<SharedSet>, _owner: string, isThere: boolean): void {
    if ('object' in shared) this.table.putObject(shared.object, isThere);
    else this.lanes.to('add', shared.set, '').key(shared.key);
  }

  delete(id: string): void {
    const element = sharedElements.find(id);
    if (element === undefined) this.#unused.push(id);
    else this.lanes.to('delete', element.set, '').key(element.key);
  }

  environment(before: Environment, next: Environment): void {
    replaceRanges(this.lanes, 'service-cidrs', before.serviceCIDRs, next.serviceCIDRs);
    const [old, wanted] = [nodePortKeys(before), nodePortKeys(next)];
    for (const [id, key] of old) {
      if (!wanted.has(id)) this.lanes.to('delete', 'nodeport-ips', '').key(key);
    }
    for (const [id, key] of wanted) {
      if (!old.has(id)) this.lanes.to('add', 'nodeport-ips', '').key(key);
    }
    if ((before.nodePortAddresses === 'all') === (next.nodePortAddresses === 'all')) return;
    for (const chain of fixedChains(this.#config, next)) {
      if (environmentChains.has(chain.name)) this.table.putChain(chain);
    }
  }

  /** The transaction. */
  batch(): Batch | undefined {
    const lanes = this.lanes.write(this.#out);
    this.table.deleteObjects(this.#unused);
    if (this.#out.count === 0) return undefined;
    return {
      ops: this.#out.finish(),
      writes: this.table.count + this.lanes.count,
      culprits: (failure) => culprits(lanes, failure),
    };
  }
}

/** Keys of `nodeport-ips`, each once. */
export function nodePortKeys({ nodePortAddresses }: Environment): Map<string, Uint8Array> {
  const addresses = nodePortAddresses === 'all' ? [] : nodePortAddresses;
  return new Map(addresses.map(({ bytes }) => [binary(bytes), bytes]));
}

function culprits(lanes: ReadonlyMap<number, Lane>, failure: KernelFailure): string[] {
  const lane = failure.op === undefined ? undefined : lanes.get(failure.op);
  const owner = lane?.ownerOf(failure.entry);
  return owner === undefined || owner === '' ? [] : [owner];
}
