/** Asks the source for objects that are not kept, while a question waits. */
import { LookupError } from '../../source/lookup.ts';
import { Refusal } from './refusal.ts';

const patienceMs = 5000;

const statusOf = { question: 400, absence: 404, source: 503 } as const;

/** Rejects with a LookupError, also if there is no answer within `ms`. */
export async function lookedUpWithin<T>(
  ms: number,
  ask: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const signal = AbortSignal.timeout(ms);
  try {
    return await ask(signal);
  } catch (error) {
    if (!signal.aborted || error instanceof LookupError) throw error;
    throw new LookupError('source', `the source of objects gave no answer within ${ms / 1000} s`);
  }
}

/** Throws a Refusal. */
export async function lookedUp<T>(ask: (signal: AbortSignal) => Promise<T>): Promise<T> {
  try {
    return await lookedUpWithin(patienceMs, ask);
  } catch (error) {
    if (!(error instanceof LookupError)) throw error;
    throw new Refusal(statusOf[error.fault], error.message);
  }
}
