import type { ServedFrontend } from './frontends.ts';

/** A socket that takes clients of one frontend. */
export interface Listener {
  readonly frontend: ServedFrontend;
  /** The same address, protocol and port are served otherwise from now on. */
  update(next: ServedFrontend): void;
  /** No more clients. */
  close(): void;
}
