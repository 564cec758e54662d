/** Where programs and maps are, and whose connections are translated. */
import type { Reach } from './frontends.ts';

/** Only the node's own Fairlead uses it. */
export const connectTimeDirectory = '/sys/fs/bpf/fairlead';

export interface Placement {
  /** A folder of a bpf file system, which has the pins. */
  readonly directory: string;
  /** The folder of the cgroup2 hierarchy that programs are attached to. */
  readonly cgroup: string;
  readonly reach: Reach;
}
