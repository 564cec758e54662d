/** What all sockets, those of one frontend and those of one client may take of something. */
import type { ServedFrontend } from './frontends.ts';

/** What was used up: the part of all sockets, of one frontend, or of one client address. */
export const bounds = ['all', 'frontend', 'client'] as const;
export type Bound = (typeof bounds)[number];
export type Shares = Readonly<Record<Bound, number>>;

/** One frontend gets half, and one client a quarter. */
export function sharesOf(all: number): Shares {
  return { all, frontend: Math.floor(all / 2), client: Math.floor(all / 4) };
}

/**
 * There is no room: for `descriptors`, a new connection was closed or a datagram dropped; for
 * `bytes` in buffers, a connection was reset.
 */
export interface NoRoom {
  readonly of: 'descriptors' | 'bytes';
  readonly bound: Bound;
  readonly frontend: ServedFrontend;
  /** Its address. */
  readonly client: string;
  /** Descriptors or bytes that this bound allows. */
  readonly max: number;
}
