import type { Kernel, KernelReader } from '../kernel/kernel.ts';
import type { MissingFeature } from '../kernel/nft/probe.ts';
import type { Forwarding } from '../state/types.ts';
import type {
  Environment,
  IPVSSettings,
  ModeConfig,
  ModeDealing,
  ModeFacts,
  OwnedObject,
} from './mode.ts';
import type { Planner } from './planner.ts';

/** A mode, for those who run it. */
export interface ProxyMode extends ModeFacts {
  readonly dealing: ModeDealing;
  /** Asks the kernel whether it can do what this mode needs, without leaving anything behind. */
  probe(kernel: Kernel, ipvs?: IPVSSettings): Promise<readonly MissingFeature[]>;
  planner(config: ModeConfig, environment: Environment): Planner;
  /** Of rules that it has in a table of iptables in addition to its own, if it has any. */
  filterPlanner?(config: ModeConfig): Planner;
  /** What `cleanup` would remove. */
  owned(kernel: KernelReader): Promise<readonly OwnedObject[]>;
  /** Removes everything that this mode ever owns; not an error when nothing is there. */
  cleanup(kernel: Kernel): Promise<void>;
  /**
   * As `cleanup`, after another mode has taken over: what carries connections stays until they have
   * ended, and gets no new ones. Resolves to the number of connections; 0 = all is removed. Only
   * for modes whose connections `cleanup` would cut.
   */
  retire?(kernel: Kernel): Promise<number>;
  /** A change is in force; for modes that carry connections themselves. */
  changed?(previous: Forwarding | undefined, next: Forwarding | undefined): void;
  /** Closes the sockets of a mode that has any. Rules stay. */
  close?(): void;
}
