import type { Kernel } from '../kernel/kernel.ts';
import type { Balance, DealingHere } from '../state/deal.ts';

/** How a mode can share connections out. */
export interface ModeDealing extends DealingHere {
  /**
   * What this kernel lacks for one of `unknown`; undefined: nothing, or it cannot answer now. Leaves
   * nothing behind. Called once a Service asks for the balance: the question loads modules.
   */
  readonly lack?: (kernel: Kernel, balance: Balance) => Promise<string | undefined>;
}
