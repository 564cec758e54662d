import type { ServedFrontend } from './frontends.ts';

/** A socket that takes clients of one frontend. */
export interface Listener {
  readonly frontend: ServedFrontend;
  /** Serves the same address, protocol and port as `next` says. */
  update(next: ServedFrontend): void;
  /** Takes no more clients. */
  close(): void;
}
