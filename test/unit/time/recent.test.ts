import { expect, it } from 'vitest';
import { RecentResults } from '../../../src/time/recent.ts';

/** Results that resolve when the test says so. */
function questions(isKept?: (result: string) => boolean) {
  let nowMs = 0;
  const recent = new RecentResults<string>({ now: () => nowMs }, isKept);
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

it('one answer serves all who ask the same within a second', async () => {
  const { asked, of, pass } = questions();
  const first = of('a');
  pass(999);
  const second = of('a');
  asked[0]!.resolve('answer');
  expect(await Promise.all([first, second])).toEqual(['answer', 'answer']);
  pass(1);
  void of('a');
  expect(asked).toHaveLength(2);
});

it('an answer that failed or is too large is not kept', async () => {
  const { asked, of } = questions((result) => result !== 'large');
  const failed = of('a');
  asked[0]!.reject(new Error('refused'));
  await expect(failed).rejects.toThrow('refused');
  const large = of('a');
  asked[1]!.resolve('large');
  expect(await large).toBe('large');
  void of('a');
  expect(asked).toHaveLength(3);
});

it('an old answer that fails late does not take the newer one away', async () => {
  const { asked, of, pass } = questions();
  const old = of('a');
  pass(1000);
  const newer = of('a');
  asked[0]!.reject(new Error('timed out'));
  await expect(old).rejects.toThrow('timed out');
  const third = of('a');
  asked[1]!.resolve('newer');
  expect(await Promise.all([newer, third])).toEqual(['newer', 'newer']);
  expect(asked).toHaveLength(2);
});
