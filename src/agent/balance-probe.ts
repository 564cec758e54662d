/** Asks the kernel whether it can do a balance, once a Service asks for it. */
import type { Kernel } from '../kernel/kernel.ts';
import type { ModeDealing } from '../modes/mode.ts';
import type { Balance, DealingHere } from '../state/deal.ts';
import type { Balances } from '../sync/desired.ts';

interface BalanceProbeOptions {
  readonly kernel: Kernel;
  /** Called after `here` has changed: what Services get that ask for the balance may differ. */
  readonly answered: (balance: Balance) => void;
}

export class BalanceProbe implements Balances {
  readonly #dealing: ModeDealing;
  readonly #options: BalanceProbeOptions;
  readonly #asked = new Set<Balance>();
  /** Those of `#asked` that the kernel has not answered. */
  readonly #waiting = new Set<Balance>();
  #answers: Promise<void> | undefined;
  #here: DealingHere;

  constructor(dealing: ModeDealing, options: BalanceProbeOptions) {
    this.#dealing = dealing;
    this.#options = options;
    this.#here = dealing;
  }

  /** What is known. It is the same object until the kernel has answered again. */
  get here(): DealingHere {
    return this.#here;
  }

  get answers(): Promise<void> | undefined {
    return this.#answers;
  }

  /** Questions follow one another: those of a mode may share what they make in the kernel. */
  ask(balance: Balance): void {
    if (!this.#here.unknown?.has(balance) || this.#asked.has(balance)) return;
    this.#asked.add(balance);
    this.#waiting.add(balance);
    this.#answers ??= this.#answerAll();
  }

  async #answerAll(): Promise<void> {
    for (const balance of this.#waiting) {
      await this.#answer(balance);
      this.#waiting.delete(balance);
    }
    this.#answers = undefined;
  }

  async #answer(balance: Balance): Promise<void> {
    const lack = await this.#lack(balance);
    const unknown = new Set(this.#here.unknown);
    unknown.delete(balance);
    const lacks = new Map(this.#here.lacks);
    if (lack !== undefined) lacks.set(balance, lack);
    this.#here = { ...this.#here, unknown, lacks };
    this.#options.answered(balance);
  }

  /**
   * A kernel that cannot answer (ENOMEM) is taken to lack nothing: at worst it refuses the ports of
   * Services that ask, which is reported.
   */
  async #lack(balance: Balance): Promise<string | undefined> {
    try {
      return await this.#dealing.lack?.(this.#options.kernel, balance);
    } catch {
      return undefined;
    }
  }
}
