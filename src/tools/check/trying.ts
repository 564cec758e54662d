/** Tries an endpoint or a frontend, and looks up why it does not answer. */
import type { ServiceCheck } from '../../ask/check.ts';
import { counted } from '../../ask/words.ts';
import type { ReadableFiles } from '../../host/files.ts';
import { type Reached, reach } from '../../host/reach.ts';
import {
  type DeadHops,
  deadHopTo,
  type Routing,
  routesFrom,
  routesOf,
} from '../../host/routing.ts';
import { waitingAt } from '../../host/tcp-sockets.ts';
import { type Address, parseAddress } from '../../net/address.ts';
import type { Attempt } from './attempts.ts';
import { greet } from './greeting.ts';

type Answered = Pick<
  ServiceCheck['tried'][number],
  'answer' | 'error' | 'means' | 'speaks' | 'tookMs'
>;

export interface TryOptions {
  readonly timeoutMs: number;
  /** See `greet`. */
  readonly silenceMs: number;
  /** Lengths of the greetings to send to endpoints, the shortest first; none: send nothing. */
  readonly greetings: readonly number[];
  readonly machine: ReadableFiles;
  readonly deadHops: Routing['deadHops'];
  /** Addresses of this machine. */
  readonly own: readonly Address[];
}

/** `attempt`: not of SCTP, and no health check. */
export async function tryOne(attempt: Attempt, options: TryOptions): Promise<Answered> {
  const { address, family, number: port, protocol, what } = attempt;
  const { answer, error, tookMs } = (await reach(
    protocol,
    { address, family, port },
    options.timeoutMs,
  ))!;
  const reached = { answer, tookMs: Math.round(tookMs * 10) / 10, error };
  if (what !== 'endpoint') return reached;
  if (answer === 'connected') return { ...reached, ...(await greeted(attempt, options)) };
  return { ...reached, means: await meaningOf(attempt, answer, options) };
}

async function greeted(
  { address, family, number: port }: Attempt,
  options: TryOptions,
): Promise<Partial<Answered>> {
  let speaks: Answered['speaks'];
  for (const [i, sizeBytes] of options.greetings.entries()) {
    const greeting = await greet({ address, family, port }, { ...options, sizeBytes });
    if (i === 0) ({ speaks } = greeting);
    if (greeting.isReset) return { answer: 'reset', speaks, means: meanings.reset };
    if (greeting.unacknowledged === 0) continue;
    if (i === 0) return { answer: 'timeout', means: meanings.deaf };
    const means = `${sizeBytes} bytes do not arrive: the MTU of the way is smaller, and no router says so`;
    return { answer: 'too_large', speaks, means };
  }
  return { speaks };
}

export const meanings = {
  refused: 'nothing listens there, or a firewall rejects it',
  reset: 'a program accepts connections and resets them',
  deaf: 'a connection is accepted and no byte is: its accept queue is full',
  filtered:
    'its address answers at another port: its accept queue is full, or a policy or firewall drops this port',
  silent: 'nothing at its address answers: the pod is gone, or a policy or firewall drops it',
  no_route: 'this node has no route to it, or no port left to connect from',
  unreachable: 'its route is "unreachable", or a firewall rejects it',
  blackhole: 'its route is a blackhole (ip route get)',
  prohibited: 'its route is "prohibit", or a rule of this node forbids it',
  failed: 'see the error with -o json',
} as const;

/** What a failure means; undefined: it is a success. */
async function meaningOf(
  attempt: Attempt,
  answer: Reached['answer'],
  { deadHops, machine, own, timeoutMs }: TryOptions,
): Promise<string | undefined> {
  if (answer === 'connected' || answer === 'answered' || answer === 'silent') return undefined;
  const address = parseAddress(attempt.address)!;
  if (answer === 'unreachable' || answer === 'timeout') {
    const at = { address, port: attempt.number };
    const cause = causeOf(machine, at, own, await deadHops());
    if (cause !== undefined) return cause;
  }
  if (answer !== 'timeout') return meanings[answer];
  const { family, number } = attempt;
  const other = { address: attempt.address, family, port: number === 1 ? 2 : 1 };
  const { answer: there } = (await reach('TCP', other, timeoutMs))!;
  return there === 'refused' || there === 'connected' ? meanings.filtered : meanings.silent;
}

/** `own`: addresses of this machine. Undefined: nothing of it explains it. */
export function causeOf(
  machine: ReadableFiles,
  { address, port }: { readonly address: Address; readonly port: number },
  own: readonly Address[],
  dead: DeadHops,
): string | undefined {
  if (own.some(({ key }) => key === address.key)) {
    const waiting = waitingAt(machine, address, port);
    if (waiting === 0) return undefined;
    return `its accept queue is full: ${counted(waiting, 'connection')} wait for its program`;
  }
  const routes = routesFrom(address.family, routesOf(machine));
  return deadHopTo(address.latin1, routes, dead);
}
