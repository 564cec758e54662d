/** Mode nftables for one family: all Services in one table whose chains and sets are constant. */
import type { KernelReader } from '../../kernel/kernel.ts';
import { NFPROTO } from '../../kernel/nft/constants.ts';
import { ElementBuffers } from '../../kernel/nft/element-buffer.ts';
import { printComment, printVerdict } from '../../kernel/nft/print-verdict.ts';
import { familyWord } from '../../kernel/nft/words.ts';
import { nftOps, unknownIndex } from '../../kernel/ops.ts';
import { RecordWriter } from '../../kernel/records.ts';
import { formatAddress } from '../../net/address.ts';
import type { EndpointList } from '../../net/endpoint-list.ts';
import { localhost } from '../../net/special-address.ts';
import { keyPort } from '../../state/frontend-key.ts';
import type { Forwarding, Frontend } from '../../state/types.ts';
import { inTurns, type Pause } from '../../time/pacer.ts';
import {
  type Backend,
  type Difference,
  type ObjectDifference,
  type ObjectOf,
  type RepairPart,
  signOf,
  type Tally,
  type WriteLater,
  type Writer,
} from '../backend.ts';
import { hairpinKeys } from '../elements.ts';
import type { Applied, Environment, Miscount, ModeConfig, WrittenBatch } from '../mode.ts';
import { EarlyTransaction, inOrder } from '../nft-table/early-transaction.ts';
import { inTable, type TableLayout } from '../nft-table/layout.ts';
import { isNamedSet } from '../nft-table/objects.ts';
import { TableOwnership } from '../nft-table/ownership.ts';
import { addMissingSets, isUsable, recreateTable } from '../nft-table/repair.ts';
import { fixedChain, fixedRanges, sharedContent, type TableObject } from '../nft-table/shared.ts';
import { selfClientKeys } from '../nft-table/source-ranges.ts';
import { TableWriter } from '../nft-table/writer.ts';
import { AffinityKeeper } from './affinity.ts';
import { ChainClasses } from './chain-classes.ts';
import { fixedChains, opensLoopback } from './chains.ts';
import { FrontendWriter } from './frontend-writer.ts';
import {
  commentOf,
  elementOf,
  type FrontendElements,
  frontendElements,
  objectsOfFrontend,
  verdictKinds,
  verdictParts,
} from './frontends.ts';
import { type SetName, type SharedSet, sharedElements, tableLayout } from './layout.ts';
import { NFTablesObservation } from './observation.ts';
import type { NFTablesObjects } from './observed.ts';

export interface NFTablesTypes extends NFTablesObjects {
  readonly found: NFTablesObservation;
  readonly writer: NFTablesBatchWriter;
}

export class NFTablesBackend implements Backend<NFTablesTypes> {
  readonly allowsBatches = true;
  readonly tables: TableOwnership;
  readonly tally: Tally<NFTablesTypes>;
  readonly #config: ModeConfig;
  readonly #layout: TableLayout<SetName>;
  readonly #classes: ChainClasses;
  readonly #counts = new ElementCounts();
  readonly #affinity: AffinityKeeper;

  constructor(config: ModeConfig) {
    this.#config = config;
    this.#layout = tableLayout(config.family, config.countsTraffic, config.table);
    this.#classes = new ChainClasses(config);
    this.#affinity = new AffinityKeeper(config.family, this.#layout.table);
    this.tables = new TableOwnership(this.#layout, config.ownTables);
    this.tally = {
      ...tallyOf(this.#counts, this.#affinity),
      miscounts: (kernel) => this.#counts.miscounts(kernel, this.#layout),
    };
  }

  describe(forwarding: Forwarding): readonly string[] {
    return describe(this.#layout.table, forwarding, frontendElements(this.#classes, forwarding));
  }

  objects(forwarding: Forwarding): ObjectOf<NFTablesTypes>[] {
    const frontends = frontendElements(this.#classes, forwarding);
    const objects: ObjectOf<NFTablesTypes>[] = [];
    for (const frontend of frontends) {
      for (const object of objectsOfFrontend(frontend)) objects.push(sharedContent(object));
    }
    for (const { kind, address, lastPort } of forwarding.frontends) {
      if (kind === 'clusterIP' && lastPort === undefined)
        objects.push(sharedElements.ofText('cluster-ips', address!.latin1));
    }
    const { maybeLocal } = forwarding;
    const hairpins = [
      ...hairpinKeys(forwarding),
      // kube-proxy's mode iptables does not ask where an endpoint is.
      ...(this.#config.asIptables && maybeLocal ? hairpinKeys(forwarding, maybeLocal) : []),
    ];
    for (const key of hairpins) objects.push(sharedElements.of('hairpin', key));
    for (const key of selfClientKeys(forwarding)) {
      objects.push(sharedElements.of('self-clients', key));
    }
    for (const frontend of frontends) objects.push(frontend);
    return objects;
  }

  ofEnvironment(environment: Environment): TableObject<SharedSet>[] {
    const { nodePortAddresses, serviceCIDRs } = environment;
    const chains = fixedChains(this.#config, environment);
    const listed = nodePortAddresses === 'all' ? [] : nodePortAddresses;
    const local = opensLoopback(this.#config) && nodePortAddresses !== 'all' ? [localhost] : [];
    const addresses = [...listed, ...local];
    return [
      ...chains.map((one) => fixedChain(one, one.base !== undefined)),
      fixedRanges(this.#layout.sets['service-cidrs'], serviceCIDRs),
      ...addresses.map(({ bytes }) => sharedElements.of('nodeport-ips', bytes)),
    ];
  }

  writer(): NFTablesBatchWriter {
    return new NFTablesBatchWriter(this.#layout, (writer, difference) => {
      FrontendWriter.write(writer, difference);
      if (difference.from === 'belief') this.#affinity.note(difference);
    });
  }

  get sweep(): WriteLater<NFTablesBatchWriter> | undefined {
    return this.#affinity.due ? this.#writeSweep : undefined;
  }

  readonly #writeSweep: WriteLater<NFTablesBatchWriter> = async (kernel, { buffers }) => {
    for (const { set, keys } of await this.#affinity.stale(kernel)) {
      const buffer = buffers.to('delete', set, '');
      for (const key of keys) buffer.key(key);
    }
    return [];
  };

  get unswept(): ((forwarding: Forwarding) => boolean) | undefined {
    return this.#affinity.unswept;
  }

  settle(outcome: Applied | 'nothing to write' | 'refused'): void {
    if (outcome !== 'refused') this.#affinity.settle();
  }

  async read(kernel: KernelReader, pause: Pause): Promise<NFTablesObservation> {
    const found = new NFTablesObservation(this.#layout);
    await found.read(kernel, pause);
    return found;
  }

  async repairFixed(
    found: NFTablesObservation,
    repair: RepairPart<NFTablesTypes>,
  ): Promise<undefined> {
    const { drift, pause, writer } = repair;
    const table = { content: found.table, writer: writer.table, drift };
    if (await isUsable(found.table, repair.shared(), pause)) addMissingSets(table);
    else {
      // The table is recreated, because sets and hooks can't be changed in place.
      repair.startOver(found.table.exists ? 'indivisible' : undefined);
      recreateTable(table, this.tables);
      found.clear();
      this.#affinity.startOver();
    }
    await deleteForeignVerdicts(found, repair);
  }
}

function tallyOf(counts: ElementCounts, affinity: AffinityKeeper): Tally<NFTablesTypes> {
  return {
    count: (object, step) => {
      if (object.isShared === true) {
        if ('set' in object) counts.shared(object.set, signOf(step));
        return;
      }
      counts.frontend(object, signOf(step));
      if (step === 'resumed') affinity.resume(object);
    },
    clear: () => {
      counts.clear();
      affinity.reset();
    },
  };
}

/**
 * Deletes verdicts that jump to chains to which ours never do. Call it before rules are restored:
 * the kernel refuses a rule that a wrong verdict makes reachable from a hook where it is not
 * allowed.
 */
async function deleteForeignVerdicts(
  { frontends }: NFTablesObservation,
  { drift, pause, touched, writer }: RepairPart<NFTablesTypes>,
): Promise<void> {
  const { buffers, early } = writer;
  await inTurns(frontends, pause, ([id, observed]) => {
    if (touched.has(id)) return;
    for (const part of verdictParts) {
      const words = observed.verdicts[part];
      if (words === undefined || verdictKinds[part].usual.test(words)) continue;
      const { set, key } = elementOf(observed.location, part);
      buffers.to('delete', set, '').key(key);
      early.keepWhole();
      observed.verdicts[part] = undefined;
      drift.unwanted += 1;
    }
  });
}

/** What writes the differences of frontends. */
type WriteFrontend = (
  writer: Pick<NFTablesBatchWriter, 'buffers' | 'early' | 'late'>,
  difference: Difference<NFTablesObjects>,
) => void;

/**
 * Collects the ops of one batch on our table, in an order that the kernel accepts. It is one
 * transaction, or up to three.
 */
class NFTablesBatchWriter implements Writer<NFTablesObjects> {
  readonly buffers: ElementBuffers<SetName>;
  /** Chains and sets that elements lead to, and whom a new frontend refuses. */
  readonly early: EarlyTransaction<SetName>;
  /** What packets may be about to look up until the rest is in force. */
  readonly late: ElementBuffers<SetName>;
  /** Writes everything but elements: the table, chains, sets, rules. */
  readonly table: TableWriter<SetName>;
  readonly #out = new RecordWriter(nftOps);
  readonly #writeFrontend: WriteFrontend;
  /** The ids of chains and sets to delete. */
  readonly #unused: string[] = [];

  constructor(layout: TableLayout<SetName>, writeFrontend: WriteFrontend) {
    this.buffers = new ElementBuffers(layout, layout.sets);
    this.late = new ElementBuffers(layout, layout.sets);
    this.table = new TableWriter(layout, this.#out, this.buffers);
    this.early = new EarlyTransaction(layout);
    this.#writeFrontend = writeFrontend;
  }

  write(difference: ObjectDifference<NFTablesObjects>): void {
    if (difference.of === 'frontend') this.#writeFrontend(this, difference);
    else if (difference.after === undefined) this.#delete(difference.id);
    else this.#put(difference.after, difference.isThere);
  }

  #put(shared: TableObject<SharedSet>, isThere: boolean): void {
    if ('object' in shared) this.early.put(shared, isThere, this);
    else this.buffers.to('add', shared.set, '').key(sharedElements.keyOf(shared));
  }

  #delete(id: string): void {
    const element = sharedElements.find(id);
    if (element === undefined) this.#unused.push(id);
    else this.buffers.to('delete', element.set, '').key(element.key);
  }

  batch(): WrittenBatch | undefined {
    const early = this.early.finish(this);
    return inOrder(early, inOrder(this.#rest(), inOrder(this.#last(), undefined)));
  }

  /** Few batches have it, so that the others need no writer for it. */
  #last(): Parameters<typeof inOrder>[0] {
    const writes = this.late.count;
    if (writes === 0) return undefined;
    const out = new RecordWriter(nftOps);
    this.late.write(out);
    return { out, writes };
  }

  #rest(): Parameters<typeof inOrder>[0] {
    this.buffers.write(this.#out);
    this.table.deleteObjects(this.#unused);
    const out = this.#out;
    if (out.count === 0) return undefined;
    return { out, writes: this.table.count + this.buffers.count };
  }
}

/**
 * The elements and chains of a Forwarding, as nft names them. `name`: of the table. `elements` are
 * those of the Forwarding's frontends, in their order.
 */
function describe(
  name: string,
  forwarding: Forwarding,
  elements: readonly FrontendElements[],
): readonly string[] {
  const table = `${familyWord(NFPROTO[forwarding.family])} ${name}`;
  const { protocol } = forwarding.servicePort;
  const lines = elements.flatMap((one, i) => {
    const words = keyWords(forwarding.frontends[i]!, protocol.toLowerCase());
    return elementLines(table, one, words);
  });
  const names = elements.flatMap((one) =>
    objectsOfFrontend(one).map((object) => {
      if (!isNamedSet(object)) return `chain ${table} ${object.name}`;
      const { definition, elements } = object;
      return `${elements === undefined ? 'map' : 'set'} ${table} ${definition.name}`;
    }),
  );
  return [...lines, ...new Set(names)];
}

interface KeyWords {
  readonly key: string;
  /** The protocol, if its name ends that of the map: some maps exist once for each protocol. */
  readonly learnKey: string;
}

function keyWords(frontend: Frontend, protocol: string): KeyWords {
  const { address } = frontend;
  const port = keyPort(frontend);
  const nodePort = `${protocol} . ${port}`;
  if (address === undefined) return { key: nodePort, learnKey: nodePort };
  const text = formatAddress(address.bytes);
  return { key: `${text} . ${nodePort}`, learnKey: `${text} . ${port}` };
}

function elementLines(table: string, one: FrontendElements, { key, learnKey }: KeyWords): string[] {
  const verdicts = verdictParts.flatMap((part) => {
    const verdict = verdictKinds[part].of(one);
    if (verdict === undefined) return [];
    const words = part === 'learn' ? learnKey : key;
    const { set } = elementOf(one, part);
    const left = `${words}${printComment(commentOf(one, part))}`;
    return [`map ${table} ${set} { ${left} : ${printVerdict(verdict.code, verdict.chain)} }`];
  });
  const pool = (set: SetName, endpoints: EndpointList): string[] =>
    endpoints.length === 0
      ? []
      : [`map ${table} ${set}, ${endpoints.length} elements { ${key} . INDEX : ENDPOINT }`];
  return [
    ...verdicts,
    ...pool(one.maps.endpoints, one.endpoints),
    ...pool(one.maps.localEndpoints, one.local),
  ];
}

/**
 * How many elements the maps of the table should hold. They are counted from desired frontends and
 * not from what batches wrote, so that the count shows mistakes of batches.
 */
class ElementCounts {
  readonly #counts = new Map<SetName, { count: number }>();

  /** Counts a frontend. `step` is 1 when it becomes desired, and -1 when it no longer is. */
  frontend(frontend: FrontendElements, step: 1 | -1): void {
    const { endpoints, isCounted, local, maps } = frontend;
    for (const part of verdictParts) {
      if (verdictKinds[part].of(frontend) !== undefined)
        this.#add(elementOf(frontend, part).set, step);
    }
    this.#add(maps.endpoints, step * endpoints.length);
    this.#add(maps.localEndpoints, step * local.length);
    if (isCounted) this.#add(maps.counts, step);
  }

  /** Counts a shared element of the set. */
  shared(set: SetName, step: 1 | -1): void {
    this.#add(set, step);
  }

  clear(): void {
    this.#counts.clear();
  }

  /** The sets for which the kernel has another count; undefined where it does not count. */
  async miscounts(
    kernel: KernelReader,
    layout: Pick<TableLayout, 'family' | 'table'>,
  ): Promise<readonly Miscount[] | undefined> {
    // A change that is planned during the dump counts immediately, before the kernel has it.
    const expected = Array.from(this.#counts, ([set, { count }]) => [set, count] as const);
    const { records, consistent } = await kernel.dump({ kind: 'setsDump', ...inTable(layout) });
    if (!consistent) return undefined;
    const counted = new Map<string, number>();
    for (const record of records) if (record.kind === 'set') counted.set(record.set, record.count);
    if ([...counted.values()].includes(unknownIndex)) return undefined;
    const differing = expected.filter(([set, count]) => (counted.get(set) ?? 0) !== count);
    return differing.map(([set, count]) => ({
      object: `map ${set}`,
      expected: count,
      counted: counted.get(set) ?? 0,
    }));
  }

  #add(set: SetName, count: number): void {
    const known = this.#counts.get(set);
    if (known === undefined) this.#counts.set(set, { count });
    else known.count += count;
  }
}
