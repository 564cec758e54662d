import { constants } from 'node:os';

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
