/** Asks the source for objects that are not kept, while a question waits. */
import { LookupError } from '../../source/lookup.ts';
import { Refusal } from './refusal.ts';

const patienceMs = 5000;

const statusOf = { question: 400, absence: 404, source: 503 } as const;

/** Throws a Refusal. */
export async function lookedUp<T>(ask: (signal: AbortSignal) => Promise<T>): Promise<T> {
  try {
    return await ask(AbortSignal.timeout(patienceMs));
  } catch (error) {
    if (!(error instanceof LookupError)) throw error;
    throw new Refusal(statusOf[error.fault], error.message);
  }
}
