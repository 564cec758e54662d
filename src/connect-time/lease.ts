/**
 * Renews the lease of connect-time programs of one family while the rules and the maps are in the
 * desired state. Without it the programs do not translate, and only rules do.
 */
import { isKernelError } from '../kernel/errors.ts';
import { failureOf } from '../kernel/failures.ts';
import type { Kernel } from '../kernel/kernel.ts';
import { kernelOps } from '../kernel/ops.ts';
import { RecordWriter } from '../kernel/records.ts';
import type { Family } from '../net/address.ts';
import type { FamilyEvent } from '../sync/events.ts';
import type { Clock } from '../time/clock.ts';
import type { ConnectTimeEvent } from './maps/events.ts';
import { addressFamily } from './maps/layout.ts';
import type { Placement } from './maps/placement.ts';

interface LeaseOptions {
  readonly family: Family;
  readonly placement: Placement;
  readonly kernel: Kernel;
  readonly clock: Clock;
  readonly observer: (event: ConnectTimeEvent) => void;
  /** `Clock.now` when rules and maps were last in the desired state; undefined: never. */
  readonly inStepAtMs: () => number | undefined;
  /** Requests a comparison with the kernel; `audited` is called when it is done. */
  readonly verify: () => void;
}

/** How often a lease is renewed before it ends. */
const renewals = 10;

export class ConnectTimeLease {
  readonly #options: LeaseOptions;
  readonly #periodMs: number;
  /** It has expired: maps must be compared before programs use them again. */
  #isEnded = false;
  /** The current renewal. */
  #renewal: Promise<void> | undefined;
  #isStopped = false;
  #renewedAtMs = 0;
  #cancel: (() => void) | undefined;

  constructor(options: LeaseOptions) {
    this.#options = options;
    this.#periodMs = options.placement.leaseMs / renewals;
  }

  /** A comparison is done: programs may translate, whatever they did before. */
  observe(event: FamilyEvent): void {
    const isStarted = event.kind === 'done' && event.ok && event.purpose !== 'changes';
    // It may have created the maps again, and with them the lease.
    const isCompared = event.kind === 'audited';
    if (!isStarted && !isCompared) return;
    if (this.#isInStep) void this.#extend('whatever it is');
    else this.#wait();
  }

  /** A change or a repair may be under way. */
  get #isInStep(): boolean {
    const { clock, inStepAtMs } = this.#options;
    return clock.now() - (inStepAtMs() ?? Number.NEGATIVE_INFINITY) <= 2 * this.#periodMs;
  }

  /** Whether a renewal is under way. */
  get isRenewing(): boolean {
    return this.#renewal !== undefined;
  }

  /** Resolves when the current renewal is done. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancel?.();
    await this.#renewal;
  }

  #wait(): void {
    this.#cancel?.();
    if (this.#isStopped) return;
    this.#cancel = this.#options.clock.after(this.#periodMs, () => void this.#renew());
  }

  async #renew(): Promise<void> {
    if (this.#isInStep) return this.#extend('if it is valid');
    const now = this.#options.clock.now();
    if (now - this.#renewedAtMs > this.#options.placement.leaseMs / 2) {
      this.#reportLate('the maps do not follow what is desired');
    }
    this.#wait();
  }

  async #extend(when: 'if it is valid' | 'whatever it is'): Promise<void> {
    if (this.isRenewing || this.#isStopped) return;
    this.#renewal = this.#renewNow(when === 'if it is valid');
    await this.#renewal;
    this.#renewal = undefined;
  }

  async #renewNow(onlyValid: boolean): Promise<void> {
    const startedMs = this.#options.clock.now();
    const failure = await this.#apply(onlyValid);
    if (this.#isStopped) return;
    if (failure === undefined) {
      this.#renewedAtMs = startedMs;
      this.#isEnded = false;
    } else if (failure.code === 'ETIME') this.#end();
    else this.#reportLate(failure.message);
    this.#wait();
  }

  async #apply(onlyValid: boolean): Promise<{ code: string; message: string } | undefined> {
    const { family, kernel, placement } = this.#options;
    const { directory, leaseMs: milliseconds } = placement;
    const out = new RecordWriter(kernelOps, 256);
    out.write('bpfLeaseExtend', {
      directory,
      family: addressFamily[family],
      milliseconds,
      onlyValid: onlyValid ? 1 : 0,
    });
    try {
      return await failureOf(kernel, out.finish());
    } catch (error) {
      if (isKernelError(error)) return error;
      throw error;
    }
  }

  /** This process or the machine was stopped for longer than the lease. */
  #end(): void {
    const { family, observer, verify } = this.#options;
    if (!this.#isEnded) observer({ kind: 'lease-ended', family });
    this.#isEnded = true;
    verify();
  }

  #reportLate(reason: string): void {
    const { clock, family, observer, placement } = this.#options;
    const endsAtMs = this.#renewedAtMs + placement.leaseMs;
    const leftMs = Math.max(0, Math.round(endsAtMs - clock.now()));
    observer({ kind: 'lease-late', family, reason, leftMs });
  }
}
