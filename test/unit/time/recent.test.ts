import { expect, it } from 'vitest';
import { RecentResults } from '../../../src/time/recent.ts';

/** Results that resolve when the test says so. */
function questions(
  options: Omit<ConstructorParameters<typeof RecentResults<string>>[0], 'clock'> = { keepMs: 1000 },
) {
  let nowMs = 0;
  const recent = new RecentResults<string>({ clock: { now: () => nowMs }, ...options });
  const asked: PromiseWithResolvers<string>[] = [];
  const of = (question: string): Promise<string> => {
    return recent.of(question, () => {
      const made = Promise.withResolvers<string>();
      asked.push(made);
      return made.promise;
    });
  };
  return { asked, of, pass: (ms: number) => (nowMs += ms) };
}

it('one answer serves all who ask the same while it is made, and until its time is over', async () => {
  const { asked, of, pass } = questions();
  const first = of('a');
  pass(5000);
  const second = of('a');
  asked[0]!.resolve('answer');
  expect(await Promise.all([first, second])).toEqual(['answer', 'answer']);
  void of('a');
  pass(999);
  asked[1]!.resolve('another');
  expect(await of('a')).toBe('another');
  expect(asked).toHaveLength(2);
  pass(1);
  void of('a');
  expect(asked).toHaveLength(3);
});

it('an answer without a time serves those who ask while it is made', async () => {
  const { asked, of } = questions({});
  const both = [of('a'), of('a')];
  asked[0]!.resolve('answer');
  await Promise.all(both);
  void of('a');
  expect(asked).toHaveLength(2);
});

it('an answer that took long serves longer', async () => {
  const { asked, of, pass } = questions({ keepMs: 1000, restFactor: 2 });
  const first = of('a');
  pass(600);
  asked[0]!.resolve('answer');
  await first;
  pass(1199);
  expect(await of('a')).toBe('answer');
  pass(1);
  void of('a');
  expect(asked).toHaveLength(2);
});

it('an answer that failed or is too large is not kept', async () => {
  const { asked, of } = questions({ keepMs: 1000, isKept: (result) => result !== 'large' });
  const failed = of('a');
  asked[0]!.reject(new Error('refused'));
  await expect(failed).rejects.toThrow('refused');
  const large = of('a');
  asked[1]!.resolve('large');
  expect(await large).toBe('large');
  void of('a');
  expect(asked).toHaveLength(3);
});

it('an answer says how long it serves, and the oldest one has to go where there is no room', async () => {
  const { asked, of, pass } = questions({
    keepMs: (result) => (result === 'lasting' ? 2000 : 1000),
    resultsMax: 2,
  });
  const both = [of('a'), of('b')];
  asked[0]!.resolve('lasting');
  asked[1]!.resolve('short');
  await Promise.all(both);
  pass(1000);
  expect(await of('a')).toBe('lasting');
  void of('b');
  expect(asked).toHaveLength(3);
  void of('c');
  void of('b');
  expect(asked).toHaveLength(4);
  void of('a');
  expect(asked).toHaveLength(5);
});
