import { describe, expect, it } from 'vitest';
import { boundaries, fuzzRepetitions, fuzzText } from '../../chaos/fuzz.ts';

// `npm run fuzz` has more inputs, some of them repeated millions of times.
describe.each(Object.keys(boundaries))('the fuzz target %s', (boundary) => {
  it('accepts or rejects every input without crashing', async () => {
    const { executions } = await fuzzText(boundary, 1, { executions: 100, grown: false });
    expect(executions).toBe(100);
  });

  it('keeps little memory of what is repeated 100,000 times and more', async () => {
    await fuzzRepetitions(boundary);
  });
});
