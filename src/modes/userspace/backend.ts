/** Mode userspace for one family: sockets for frontends, addresses that all share. */

import { applyLaterPart } from '../../kernel/failures.ts';
import type { ApplyResult, Kernel, KernelFailure, KernelReader } from '../../kernel/kernel.ts';
import { kernelOps } from '../../kernel/ops.ts';
import { RecordWriter } from '../../kernel/records.ts';
import { IFA_F } from '../../kernel/route-ops.ts';
import type { Family } from '../../net/address.ts';
import { formatFrontend } from '../../state/conflict.ts';
import type { Forwarding } from '../../state/types.ts';
import {
  type Backend,
  countDifference,
  type Difference,
  type ObjectDifference,
  type ObjectOf,
  type RepairPart,
  type WriteLater,
  type Writer,
} from '../backend.ts';
import { bytesOf } from '../elements.ts';
import type { Environment, ModeConfig, WrittenBatch } from '../mode.ts';
import { addressFields, boundAddresses } from '../own-addresses.ts';
import { type ServedFrontend, sameFrontend, servedFrontends } from '../sockets/frontends.ts';
import type { Sockets } from '../sockets/switchboard.ts';
import { LingeringAddresses } from './lingering.ts';
import { addLink, hasLink, linkName } from './link.ts';
import {
  addressesOf,
  type BoundAddress,
  boundAddress,
  type UserspaceObjects,
  UserspaceObservation,
} from './observation.ts';

export interface UserspaceTypes extends UserspaceObjects {
  readonly found: UserspaceObservation;
  readonly writer: UserspaceBatchWriter;
}

export class UserspaceBackend implements Backend<UserspaceTypes> {
  readonly #config: ModeConfig;
  readonly #sockets: Sockets;
  readonly #lingering: LingeringAddresses;

  constructor(config: ModeConfig, sockets: Sockets) {
    this.#config = config;
    this.#sockets = sockets;
    this.#lingering = new LingeringAddresses(sockets);
  }

  describe(forwarding: Forwarding, environment: Environment): readonly string[] {
    return servedFrontends(forwarding, { config: this.#config, environment }).map(
      (frontend) => `socket ${formatFrontend(frontend.protocol, frontend)}`,
    );
  }

  objects(forwarding: Forwarding, environment: Environment): ObjectOf<UserspaceTypes>[] {
    return [
      ...boundAddresses(forwarding, environment).map(({ bytes }) => boundAddress(bytes)),
      ...servedFrontends(forwarding, { config: this.#config, environment }),
    ];
  }

  /** Nothing: all that the environment changes belongs to Forwardings. */
  ofEnvironment(): readonly never[] {
    return [];
  }

  writer(): UserspaceBatchWriter {
    return new UserspaceBatchWriter(this.#config.family, this.#sockets, this.#lingering);
  }

  async read(kernel: KernelReader): Promise<UserspaceObservation> {
    return new UserspaceObservation({
      hasLink: await hasLink(kernel),
      addresses: await addressesOf(kernel, this.#config.family),
      sockets: this.#sockets.frontends(this.#config.family),
      isLingering: (id) => this.#lingering.has(id),
    });
  }

  get deferred(): WriteLater<UserspaceBatchWriter> | undefined {
    return this.#lingering.isAny ? this.#unbindIdle : undefined;
  }

  readonly #unbindIdle: WriteLater<UserspaceBatchWriter> = (_kernel, writer) => {
    const idle = this.#lingering.takeIdle();
    for (const [, key] of idle) writer.unbind(key);
    return idle.map(([id]) => id);
  };

  async repairFixed(
    { hasLink }: UserspaceObservation,
    { drift, writer }: RepairPart<UserspaceTypes>,
  ): Promise<undefined> {
    if (hasLink) return undefined;
    writer.addLink();
    drift.missing += 1;
    return undefined;
  }
}

interface Planned<T> {
  readonly owner: string;
  readonly value: T;
}

/** Sockets opened in one turn of the event loop. */
const socketsPerTurn = 64;

/**
 * Collects what one batch changes. What can fail comes first, and is done whole or undone:
 * addresses are added and sockets opened. Then sockets that stay are updated, others are closed,
 * and addresses are deleted.
 */
class UserspaceBatchWriter implements Writer<UserspaceObjects> {
  readonly #family: Family;
  readonly #sockets: Sockets;
  readonly #lingering: LingeringAddresses;
  /** By frontend id; undefined = nothing is to listen. */
  readonly #planned = new Map<string, Planned<ServedFrontend | undefined>>();
  readonly #bound: Planned<Uint8Array>[] = [];
  readonly #unbound: Uint8Array[] = [];
  #link: 'is there' | 'missing' = 'is there';

  constructor(family: Family, sockets: Sockets, lingering: LingeringAddresses) {
    this.#family = family;
    this.#sockets = sockets;
    this.#lingering = lingering;
  }

  addLink(): void {
    this.#link = 'missing';
  }

  write(difference: ObjectDifference<UserspaceObjects>): void {
    if (difference.of === 'frontend') this.#frontend(difference);
    else if (difference.after === undefined) this.#delete(difference.id);
    else this.#add(difference.after, difference.owner);
  }

  #frontend(difference: Difference<UserspaceObjects>): void {
    const { before, after, owner } = difference;
    if (after === undefined) {
      if (before !== undefined) this.#planned.set(before.id, { owner: '', value: undefined });
    } else if (before === undefined || !sameFrontend(before, after)) {
      this.#planned.set(after.id, { owner, value: after });
    } else return;
    if (difference.from === 'kernel') countDifference(difference);
  }

  #add({ id, key }: BoundAddress, owner: string): void {
    if (!this.#lingering.revive(id)) this.#bound.push({ owner, value: key });
  }

  #delete(id: string): void {
    const key = bytesOf(id);
    if (!this.#lingering.keep(key)) this.unbind(key);
  }

  unbind(key: Uint8Array): void {
    this.#unbound.push(key);
  }

  batch(): WrittenBatch | undefined {
    const links = this.#link === 'missing' ? 1 : 0;
    const addresses = this.#bound.length + this.#unbound.length;
    const writes = links + addresses + this.#planned.size;
    if (writes === 0) return undefined;
    const bound = this.#bound.map(({ value }) => value);
    const ops = addressOps('addressesAdd', this.#family, bound);
    return {
      ops,
      writes,
      apply: (kernel) => this.#apply(kernel, ops),
      culprits: (failure) => this.#culprits(failure),
    };
  }

  async #apply(kernel: Kernel, ops: Uint8Array): Promise<ApplyResult> {
    if (this.#link === 'missing') {
      const failure = await addLink(kernel, linkName);
      if (failure !== undefined) return refused([failure]);
    }
    const answer = await kernel.apply(ops);
    const added = this.#added(answer);
    const binding = without('EEXIST', answer);
    if (binding.kind === 'failed') return undo(kernel, added, binding.failures);
    const bound = this.#bound.map(({ value }) => value);
    if (this.#family === 'IPv6') await this.#sockets.untilLocal(bound);
    const { failures, opened } = await this.#open();
    if (failures.length > 0) {
      for (const id of opened) this.#sockets.close(id);
      return undo(kernel, added, failures);
    }
    for (const [id, { value }] of this.#planned) {
      if (value === undefined) this.#sockets.close(id);
      else this.#sockets.update(value);
    }
    const unbinding = this.#deletion(this.#unbound);
    return applyLaterPart(async () => without('EADDRNOTAVAIL', await kernel.apply(unbinding)));
  }

  /** Opens the new sockets. Failures number them after the ops of addresses. */
  async #open(): Promise<{ failures: KernelFailure[]; opened: string[] }> {
    const failures: KernelFailure[] = [];
    const opened: string[] = [];
    const missing = [...this.#planned.values()].map(({ value }, i) => [i, value] as const);
    const todo = missing.flatMap(([i, value]) =>
      value === undefined || this.#sockets.get(value.id) !== undefined ? [] : [{ i, value }],
    );
    for (let at = 0; at < todo.length; at += socketsPerTurn) {
      const turn = todo.slice(at, at + socketsPerTurn).map(async ({ i, value }) => {
        const refusal = await this.#sockets.open(value);
        if (refusal === undefined) opened.push(value.id);
        else failures.push({ op: 1 + i, entry: undefined, ...refusal, isOfSocket: true });
      });
      await Promise.all(turn);
    }
    return { failures, opened };
  }

  #deletion(addresses: readonly Uint8Array[]): Uint8Array {
    return addressOps('addressesDelete', this.#family, addresses);
  }

  /** Ops that delete the addresses which were not there before. */
  #added(result: ApplyResult): Uint8Array {
    const failures = result.kind === 'applied' ? [] : result.failures;
    const refused = new Set(failures.map(({ entry }) => entry));
    const added = this.#bound.filter((_, i) => !refused.has(i));
    return this.#deletion(added.map(({ value }) => value));
  }

  #culprits({ op, entry }: KernelFailure): string[] {
    const planned = op === 0 ? this.#bound : [...this.#planned.values()];
    const index = op === 0 ? entry : op === undefined ? undefined : op - 1;
    const owner = index === undefined ? undefined : planned[index]?.owner;
    return owner === undefined || owner === '' ? [] : [owner];
  }
}

/** Its failure is ignored: the link is read again anyway. */
async function undo(
  kernel: Kernel,
  deletion: Uint8Array,
  failures: readonly KernelFailure[],
): Promise<ApplyResult> {
  await kernel.apply(deletion);
  return refused(failures);
}

function refused(failures: readonly KernelFailure[]): ApplyResult {
  return { kind: 'failed', failures, partly: false };
}

/**
 * The result without failures of this code: the kernel already has what was added, or lacks what
 * was deleted.
 */
function without(code: string, result: ApplyResult): ApplyResult {
  if (result.kind === 'applied') return result;
  const failures = result.failures.filter((failure) => failure.code !== code);
  return failures.length === 0 ? { kind: 'applied' } : { ...result, failures };
}

/** One op, or none without addresses. */
function addressOps(
  kind: 'addressesAdd' | 'addressesDelete',
  family: Family,
  addresses: readonly Uint8Array[],
): Uint8Array {
  const out = new RecordWriter(kernelOps);
  if (addresses.length === 0) return out.finish();
  const fields = addressFields(family, linkName, addresses);
  if (kind === 'addressesAdd') out.write(kind, { ...fields, flags: IFA_F.NODAD });
  else out.write(kind, fields);
  return out.finish();
}
