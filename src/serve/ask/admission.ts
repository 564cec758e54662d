/** Who may ask: programs on this machine, but not a page of another site in a browser on it. */
import { isIP } from 'node:net';
import { splitHostPort } from '../../net/host-port.ts';
import { type Asked, type Routes, textReply } from '../reply.ts';
import { Refusal } from './refusal.ts';

/** Throws a Refusal, or rejects with one, unless the client may have an answer at this path. */
export type Admit = (asked: Asked, path: string) => void | Promise<void>;

/** Admits programs on this machine, because names of Services should not leave it. */
export function admitLocal(asked: Asked): void {
  admitAsker(asked);
  checkMethod(asked, ['GET']);
}

/** Throws a Refusal unless all parameters are known. */
export function checkParameters({ query }: Asked, known: readonly string[]): void {
  const unknown = [...query.keys()].find((key) => !known.includes(key));
  if (unknown !== undefined) throw new Refusal(400, `unknown parameter "${unknown}"`);
}

/** Throws a Refusal. */
export function checkMethod({ method }: Asked, allowed: readonly string[]): void {
  if (allowed.includes(method)) return;
  throw new Refusal(405, `method ${method} is not allowed: ${allowed.join(' or ')}`);
}

/** The same routes, which answer only requests that `admit` allows. */
export function forThisNode(routes: Routes): Routes {
  const guarded = Object.entries(routes).map(([path, route]) => {
    return [path, (asked: Asked) => refusalBy(() => admitAsker(asked)) ?? route(asked)] as const;
  });
  return Object.fromEntries(guarded);
}

/** The answer if `check` throws a Refusal. */
export function refusalBy(check: () => void) {
  try {
    check();
    return undefined;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return textReply(error.status, `${error.message}\n`);
  }
}

function admitAsker({ host, peer }: Asked): void {
  if (!isLoopbackText(peer)) {
    throw new Refusal(403, `answers are for this node: ${peer} is not a loopback address`);
  }
  // A page of another site may resolve its own name to this server (DNS rebinding), but the name
  // cannot be an address.
  if (!isAddressed(host)) {
    throw new Refusal(403, `the Host header must be an address or localhost, not "${host}"`);
  }
}

function isLoopbackText(address: string): boolean {
  return /^(::ffff:)?127\./i.test(address) || address === '::1';
}

function isAddressed(host: string): boolean {
  const name = splitHostPort(host)?.host ?? host.replace(/^\[(.*)\]$/, '$1');
  return name.toLowerCase() === 'localhost' || isIP(name) !== 0;
}
