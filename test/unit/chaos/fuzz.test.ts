import { expect, it } from 'vitest';
import { repetitionsOf } from '../../chaos/corpus.ts';
import { boundaries, fuzzRepetitions, fuzzText } from '../../chaos/fuzz.ts';

const all = Object.keys(boundaries);

// `npm run fuzz` has more inputs, some of them repeated millions of times.
it.each(all)('the fuzz target %s accepts or rejects every input without crashing', async (one) => {
  const { executions } = await fuzzText(one, 1, { executions: 100, grown: false });
  expect(executions).toBe(100);
});

it.each(all.filter((one) => repetitionsOf(one).length > 0))(
  'the fuzz target %s keeps little memory of what is repeated 100,000 times and more',
  async (one) => {
    await fuzzRepetitions(one);
  },
);
