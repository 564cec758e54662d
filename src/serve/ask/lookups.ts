/** Asks the source for objects that are not kept, while a question waits. */
import { setTimeout as sleep } from 'node:timers/promises';
import { isProof } from '../../host/asker.ts';
import { LookupError } from '../../source/lookup.ts';
import { Refusal } from './refusal.ts';

const patienceMs = 5000;
/** The time between two checks of askers: the kernel may have to list thousands of sockets. */
const restMs = 100;

const statusOf = { permission: 403, absence: 404, source: 503 } as const;

/** It does not keep the process alive. */
function waited(ms: number): Promise<void> {
  return sleep(ms, undefined, { ref: false });
}

/**
 * Who may have the source asked: the API server sees the node's credentials, and not those of the
 * process that asks. Any process of the node reaches this server.
 */
export class Askers {
  readonly #isProof: (name: string) => boolean;
  readonly #wait: (ms: number) => Promise<void>;
  #last: Promise<unknown> = Promise.resolve();

  constructor(isProven: (name: string) => boolean = isProof, wait = waited) {
    this.#isProof = isProven;
    this.#wait = wait;
  }

  /** Rejects with a LookupError unless `proof` is one (`host/asker.ts`). Checks one at a time. */
  async admit(proof: string | null): Promise<void> {
    if (proof !== null) {
      const check = this.#last.then(() => this.#isProof(proof));
      this.#last = check.then(() => this.#wait(restMs));
      if (await check) return;
    }
    const words =
      'it would be asked with the credentials of the node, which is for processes with ' +
      'CAP_NET_ADMIN: use the command fairlead as root';
    throw new LookupError('permission', words);
  }
}

/** What a lookup is for. */
interface Asking {
  readonly askers: Pick<Askers, 'admit'>;
  readonly query: URLSearchParams;
}

/** Rejects with a LookupError, also if there is no answer within `ms`. */
export async function lookedUpWithin<T>(
  ms: number,
  { askers, query }: Asking,
  ask: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  await askers.admit(query.get('proof'));
  const signal = AbortSignal.timeout(ms);
  try {
    return await ask(signal);
  } catch (error) {
    if (!signal.aborted || error instanceof LookupError) throw error;
    throw new LookupError('source', `the source of objects gave no answer within ${ms / 1000} s`);
  }
}

/** Throws a Refusal. */
export async function lookedUp<T>(
  asking: Asking,
  ask: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  try {
    return await lookedUpWithin(patienceMs, asking, ask);
  } catch (error) {
    if (!(error instanceof LookupError)) throw error;
    throw new Refusal(statusOf[error.fault], error.message);
  }
}
