import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { isProof, openProof } from '../../../src/host/asker.ts';
import type { Listener } from '../../../src/kernel/addon.ts';
import { Askers, lookedUp, lookedUpWithin } from '../../../src/serve/ask/lookups.ts';
import { LookupError } from '../../../src/source/lookup.ts';
import { ToyClock } from '../sync/double.ts';

const asking = {
  askers: new Askers(() => true),
  query: new URLSearchParams({ proof: 'x' }),
};

/** A source that answers nothing, and ends as streams of files do. */
function silent(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}

it('a lookup names the source that does not answer in time', async () => {
  const error = await lookedUpWithin(1, asking, silent).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(LookupError);
  expect(error).toMatchObject({
    fault: 'source',
    message: 'the source of objects gave no answer within 0.001 s',
  });
});

it('a question waits for the source for five seconds', async () => {
  const clock = new ToyClock();
  const timeout = vi.spyOn(AbortSignal, 'timeout').mockImplementation((ms) => {
    const controller = new AbortController();
    clock.after(ms, () => controller.abort(new DOMException('too late', 'TimeoutError')));
    return controller.signal;
  });
  onTestFinished(() => timeout.mockRestore());
  let answer: unknown = 'waits';
  const admitted = { ...asking, askers: { admit: async () => {} } };
  const asked = lookedUp(admitted, silent).catch((error: unknown) => (answer = error));
  await clock.pass(4999);
  expect(answer).toBe('waits');
  await clock.pass(1);
  await asked;
  const message = 'the source of objects gave no answer within 5 s';
  expect(answer).toMatchObject({ status: 503, message });
});

it('a lookup passes on what the source says, and hides no error of the program', async () => {
  const absent = async () => {
    throw new LookupError('absence', 'there is no pod');
  };
  await expect(lookedUp(asking, absent)).rejects.toMatchObject({
    status: 404,
    message: 'there is no pod',
  });
  const broken = async () => {
    throw new TypeError('x is not a function');
  };
  await expect(lookedUp(asking, broken)).rejects.toThrow(TypeError);
});

describe('a lookup for a process that does not prove what it may', () => {
  it.each([
    ['without a word about it', {}],
    ['with a wrong proof', { proof: 'fairlead' }],
  ])('does not ask the source: %s', async (_, parameters) => {
    const askers = new Askers((name) => name === 'right');
    const query = new URLSearchParams(parameters as Record<string, string>);
    let asked = 0;
    const ask = async () => (asked += 1);
    await expect(lookedUp({ askers, query }, ask)).rejects.toMatchObject({
      status: 403,
      message: expect.stringContaining('CAP_NET_ADMIN'),
    });
    expect(asked).toBe(0);
  });

  it('lists sockets for it one after the other, with a rest', async () => {
    const checked: string[] = [];
    const clock = new ToyClock();
    const wait = (ms: number) => new Promise<void>((done) => clock.after(ms, done));
    const askers = new Askers((name) => checked.push(name) < 0, wait);
    const asked = Promise.allSettled(['a', 'b', 'c'].map((name) => askers.admit(name)));
    await clock.pass(99);
    expect(checked).toEqual(['a']);
    await clock.pass(1);
    expect(checked).toEqual(['a', 'b']);
    await clock.pass(100);
    expect(checked).toEqual(['a', 'b', 'c']);
    await asked;
  });
});

describe('the proof of an asker', () => {
  const name = `fairlead-asker-${'0f'.repeat(16)}`;
  const found = (listener: Partial<Listener> | undefined) =>
    isProof(name, () => listener && { pid: 7, uid: 1000, ...listener });

  it.each<[string, Partial<Listener> | undefined, boolean]>([
    ['a process with CAP_NET_ADMIN', { administersNet: true }, true],
    ['another one, of any user', { administersNet: false }, false],
    ['another one of root', { administersNet: false, uid: 0 }, false],
    ['one of another user, where there can be no proof', { uid: 1_000_000 }, false],
    ['one of root, where there can be no proof', { uid: 0 }, true],
    ['none', undefined, false],
  ])('is the socket of %s: %o %s', (_, listener, isProven) => {
    expect(found(listener)).toBe(isProven);
  });

  it('is not the socket of the lock, which is there all the time', () => {
    const all = (): Listener => ({ pid: 1, uid: 0, administersNet: true });
    for (const other of ['fairlead', `${name}0`, `x${name}`])
      expect(isProof(other, all)).toBe(false);
    expect(isProof(name, all)).toBe(true);
  });

  it('does not count when sockets cannot be read', () => {
    const failing = () => {
      throw new Error('EAGAIN');
    };
    expect(isProof(name, failing)).toBe(false);
  });

  it('is there until the question is answered', () => {
    const proof = openProof()!;
    expect(isProof(proof.name)).toBe(true);
    proof.close();
    expect(isProof(proof.name)).toBe(false);
  });
});
