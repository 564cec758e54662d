import { constants } from 'node:os';
import type { Socket } from './addon.ts';
import { KernelError } from './errors.ts';

/** Runs a buffer; rejects with KernelError when nothing could be sent. */
export async function submit(
  socket: Socket,
  buffer: Uint8Array,
  operation: string,
  subject: string,
): Promise<Uint8Array> {
  try {
    return await socket.submit(buffer);
  } catch (error) {
    throw systemCallError(error, operation, subject);
  }
}

/** From an error of the addon. One without `errno` says that the socket is closed. */
export function systemCallError(error: unknown, operation: string, subject: string): KernelError {
  const { errno, message } = error as Error & { readonly errno?: number };
  const code = errno === undefined ? 'EBADF' : errnoName(errno);
  return new KernelError({ operation, subject, code, words: message });
}

/** Numbers that the kernel gives and that Node does not name (asm-generic/errno.h). */
const unnamed: ReadonlyMap<number, string> = new Map([
  [42, 'ENOMSG'],
  [85, 'ERESTART'],
  [524, 'ENOTSUPP'],
]);

const named: ReadonlyMap<number, string> = new Map(
  Object.entries(constants.errno)
    .map(([name, number]) => [number, name] as const)
    // One number, two names: EWOULDBLOCK is EAGAIN, EOPNOTSUPP is ENOTSUP.
    .filter(([, name]) => name !== 'EWOULDBLOCK' && name !== 'ENOTSUP'),
);

/** The symbolic name of an error number, e.g. `ENOENT`; `E<number>` for one without a name. */
export function errnoName(errno: number): string {
  return named.get(errno) ?? unnamed.get(errno) ?? `E${errno}`;
}
