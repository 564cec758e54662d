/**
 * Two planners for one family as one: the rules of a mode, and connect-time translation beside
 * them. A batch changes both, the rules first, and is acknowledged when both are in force.
 */
import type { ApplyResult, Kernel, KernelFailure, TableName } from '../kernel/kernel.ts';
import { countRecords } from '../kernel/records.ts';
import type { Family } from '../net/address.ts';
import type { Forwarding } from '../state/types.ts';
import type { BesideUse, LeftToRules } from './beside.ts';
import type {
  Batch,
  Drift,
  Environment,
  Miscount,
  Observation,
  Pause,
  Planner,
  RefusedAddress,
  RuleCount,
} from './mode.ts';

/** What was read of both. */
class PairedObservation implements Observation {
  readonly rules: Observation;
  readonly beside: Observation;

  constructor(rules: Observation, beside: Observation) {
    this.rules = rules;
    this.beside = beside;
  }

  get generation(): number | undefined {
    return this.rules.generation;
  }

  get intact(): boolean {
    return this.rules.intact && this.beside.intact;
  }

  get besideBatches(): boolean {
    return this.rules.besideBatches === true && this.beside.besideBatches === true;
  }

  /** Where both have an order, that of the rules: to change theirs costs more. */
  adopt(next: Forwarding): Forwarding {
    return this.rules.adopt(this.beside.adopt(next));
  }
}

export class PairedPlanner implements Planner {
  readonly family: Family;
  readonly #rules: Planner;
  readonly #beside: Planner;

  constructor(rules: Planner, beside: Planner) {
    this.family = rules.family;
    this.#rules = rules;
    this.#beside = beside;
  }

  get pendingBytes(): number {
    return this.#rules.pendingBytes + this.#beside.pendingBytes;
  }

  get indivisible(): boolean {
    return this.#rules.indivisible === true || this.#beside.indivisible === true;
  }

  get batchBytesMax(): number | undefined {
    return this.#rules.batchBytesMax;
  }

  get deferred(): boolean {
    return this.#rules.deferred;
  }

  get sweepDue(): boolean {
    return this.#rules.sweepDue;
  }

  get exposed(): readonly TableName[] {
    return this.#rules.exposed ?? [];
  }

  change(previous: Forwarding | undefined, next: Forwarding | undefined): void {
    this.#rules.change(previous, next);
    this.#beside.change(previous, next);
  }

  describe(forwarding: Forwarding): readonly string[] {
    return [...this.#rules.describe(forwarding), ...this.#beside.describe(forwarding)];
  }

  twin(): Planner {
    return new PairedPlanner(this.#rules.twin(), this.#beside.twin());
  }

  environment(next: Environment, pause: Pause): Promise<void> | void {
    const beside = (): Promise<void> | void => this.#beside.environment(next, pause);
    const rules = this.#rules.environment(next, pause);
    return rules === undefined ? beside() : rules.then(beside);
  }

  take(): Batch | undefined {
    return paired(this.#rules.take(), this.#beside.take());
  }

  /** Beside the rules, nothing is deleted later. */
  takeDeferred(kernel: Kernel): Promise<Batch | undefined> | Batch | undefined {
    return this.#rules.takeDeferred(kernel);
  }

  takeSweep(kernel: Kernel): Promise<Batch | undefined> {
    return this.#rules.takeSweep(kernel);
  }

  takeRefused(): readonly RefusedAddress[] {
    return this.#rules.takeRefused?.() ?? [];
  }

  get unfinished(): boolean {
    return this.#rules.unfinished === true || this.#beside.unfinished === true;
  }

  get use(): BesideUse | undefined {
    return this.#beside.use;
  }

  reasonOf(forwarding: Forwarding): string | undefined {
    return this.#beside.reasonOf?.(forwarding);
  }

  takeLeft(): readonly LeftToRules[] {
    return this.#beside.takeLeft?.() ?? [];
  }

  takeRuleCounts(): readonly RuleCount[] {
    return this.#rules.takeRuleCounts?.() ?? [];
  }

  async prepare(
    kernel: Kernel,
    transact: (ops: Uint8Array) => Promise<ApplyResult>,
  ): Promise<void> {
    await this.#rules.prepare?.(kernel, transact);
  }

  /** Both are staged, or neither. */
  stage(given: Observation): boolean {
    const { rules, beside } = own(given);
    if (this.#rules.stage === undefined || this.#beside.stage?.(beside) !== true) return false;
    if (this.#rules.stage(rules)) return true;
    this.#beside.hook?.();
    return false;
  }

  hook(): void {
    this.#rules.hook?.();
    this.#beside.hook?.();
  }

  async observe(kernel: Kernel, pause: Pause): Promise<Observation> {
    const rules = await this.#rules.observe(kernel, pause);
    return new PairedObservation(rules, await this.#beside.observe(kernel, pause));
  }

  async miscounts(kernel: Kernel): Promise<readonly Miscount[] | undefined> {
    const beside = (await this.#beside.miscounts?.(kernel)) ?? [];
    const rules = await this.#rules.miscounts?.(kernel);
    return rules === undefined && beside.length === 0 ? undefined : [...(rules ?? []), ...beside];
  }

  async repairFixed(given: Observation, pause: Pause): Promise<Drift> {
    const { rules, beside } = own(given);
    const drift = await this.#rules.repairFixed(rules, pause);
    return sum(drift, await this.#beside.repairFixed(beside, pause));
  }

  repair(given: Observation, wanted: Forwarding): Drift {
    const { rules, beside } = own(given);
    return sum(this.#rules.repair(rules, wanted), this.#beside.repair(beside, wanted));
  }

  async prune(given: Observation, pause: Pause): Promise<Drift> {
    const { rules, beside } = own(given);
    const drift = await this.#rules.prune(rules, pause);
    return sum(drift, await this.#beside.prune(beside, pause));
  }

  abandon(given: Observation): void {
    const { rules, beside } = own(given);
    this.#rules.abandon?.(rules);
    this.#beside.abandon?.(beside);
  }

  async reset(inForce: Iterable<Forwarding>, pause: Pause): Promise<void> {
    const all = [...inForce];
    await this.#rules.reset(all, pause);
    await this.#beside.reset(all, pause);
  }
}

/** An Observation is only ever handed back to the planner that made it. */
function own(found: Observation): PairedObservation {
  return found as PairedObservation;
}

function sum(a: Drift, b: Drift): Drift {
  return {
    missing: a.missing + b.missing,
    wrong: a.wrong + b.wrong,
    unwanted: a.unwanted + b.unwanted,
  };
}

function paired(rules: Batch | undefined, beside: Batch | undefined): Batch | undefined {
  if (rules === undefined || beside === undefined) return rules ?? beside;
  return rules.apply === undefined ? joined(rules, beside) : inTurn(rules, beside);
}

/** As one buffer of ops: what follows a refused transaction is not tried. */
function joined(rules: Batch, beside: Batch): Batch {
  const first = countRecords(rules.ops);
  const isBeside = ({ op }: KernelFailure): boolean => op !== undefined && op >= first;
  return {
    ...both(rules, beside),
    culprits: (failure) => {
      if (!isBeside(failure)) return rules.culprits(failure);
      return beside.culprits({ ...failure, op: failure.op! - first });
    },
    refused: (failures) => isBlameless(beside, failures.filter(isBeside)),
  };
}

/** For rules that are not applied by ops alone. */
function inTurn(rules: Batch, beside: Batch): Batch {
  /** Failures of what is beside the rules: ops of both are counted from 0. */
  const failuresBeside = new Set<KernelFailure>();
  return {
    ...both(rules, beside),
    apply: async (kernel) => {
      const result = await rules.apply!(kernel);
      if (result.kind === 'failed') return result;
      const after = await kernel.apply(beside.ops);
      if (after.kind === 'applied') return result;
      for (const failure of after.failures) failuresBeside.add(failure);
      return { ...after, partly: true };
    },
    culprits: (failure) => (failuresBeside.has(failure) ? beside : rules).culprits(failure),
    refused: (failures) =>
      isBlameless(
        beside,
        failures.filter((one) => failuresBeside.has(one)),
      ),
  };
}

function isBlameless(batch: Batch, failures: readonly KernelFailure[]): boolean {
  return failures.length > 0 && batch.refused?.(failures) === true;
}

function both(rules: Batch, beside: Batch): Omit<Batch, 'culprits'> {
  return {
    ops: concatenated(rules.ops, beside.ops),
    transactions: (rules.transactions ?? 1) + (beside.transactions ?? 1),
    writes: rules.writes + beside.writes,
    committed: (result) => {
      rules.committed?.(result);
      beside.committed?.(result);
    },
  };
}

function concatenated(a: Uint8Array, b: Uint8Array): Uint8Array {
  const all = new Uint8Array(a.length + b.length);
  all.set(a);
  all.set(b, a.length);
  return all;
}
