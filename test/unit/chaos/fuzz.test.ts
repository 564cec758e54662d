import { expect, it } from 'vitest';
import { boundaries, fuzzText } from '../../chaos/fuzz.ts';
import { freshSeed } from '../../chaos/random.ts';

// A failure names the seed and has the input: `npm run fuzz -- --seed N` repeats it.
it.each(Object.keys(boundaries))(
  'the fuzz target %s accepts or rejects every input without crashing',
  async (boundary) => {
    const { executions } = await fuzzText(boundary, freshSeed(), { executions: 300, seconds: 5 });
    expect(executions).toBeGreaterThan(0);
  },
  60_000,
);
