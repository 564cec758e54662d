/**
 * How a command proves to the running Fairlead that it has CAP_NET_ADMIN: by an abstract Unix
 * socket that it holds while it asks, as the holder of the lock does (`instance-lock.ts`). Where
 * there can be no proof, a process of user 0 or of the same user counts.
 */
import { randomBytes } from 'node:crypto';
import { closeSync } from 'node:fs';
import { type Listener, loadAddon } from '../kernel/addon.ts';
import { mayAdminister } from './instance-lock.ts';

interface Proof {
  /** Of the socket, without the byte 0 that makes it abstract. */
  readonly name: string;
  close(): void;
}

const proofName = /^fairlead-asker-[0-9a-f]{32}$/;

/** Undefined: this process cannot make such a socket. */
export function openProof(): Proof | undefined {
  const name = `fairlead-asker-${randomBytes(16).toString('hex')}`;
  try {
    const fd = loadAddon().openListener(name);
    return { name, close: () => closeSync(fd) };
  } catch {
    return undefined;
  }
}

/** Whether a process that may administer this network namespace holds the socket of this name. */
export function isProof(
  name: string,
  findListener: (name: string) => Listener | undefined = loadAddon().findListener,
): boolean {
  if (!proofName.test(name)) return false;
  try {
    const listener = findListener(name);
    return listener !== undefined && mayAdminister(listener);
  } catch {
    return false;
  }
}
