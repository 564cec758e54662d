import { expect, it } from 'vitest';
import { lookedUp, lookedUpWithin } from '../../../src/serve/ask/lookups.ts';
import { LookupError } from '../../../src/source/lookup.ts';

/** A source that answers nothing, and ends as streams of files do. */
function silent(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}

it('a lookup names the source that does not answer in time', async () => {
  const error = await lookedUpWithin(1, silent).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(LookupError);
  expect(error).toMatchObject({
    fault: 'source',
    message: 'the source of objects gave no answer within 0.001 s',
  });
});

it('a lookup passes on what the source says, and hides no error of the program', async () => {
  const absent = async () => {
    throw new LookupError('absence', 'there is no pod');
  };
  await expect(lookedUp(absent)).rejects.toMatchObject({ status: 404, message: 'there is no pod' });
  const broken = async () => {
    throw new TypeError('x is not a function');
  };
  await expect(lookedUp(broken)).rejects.toThrow(TypeError);
});
