import type { Socket } from './addon.ts';
import { errnoName } from './errno.ts';
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
