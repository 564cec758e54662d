import { describe, expect, it } from 'vitest';
import { pacedJson } from '../../../src/serve/ask/paced-json.ts';

describe('JSON in pieces', () => {
  it('is what JSON.stringify makes', async () => {
    const body = {
      kind: 'List',
      items: Array.from({ length: 40 }, (_, i) => ({
        name: `"${i}`,
        at: [i, { i }],
        no: undefined,
      })),
      none: [],
      absent: undefined,
      nothing: null,
      nested: { list: ['ü', 1.5, true] },
    };
    expect(await pacedJson(body, () => undefined)).toBe(JSON.stringify(body));
  });

  it('lets others have their turns between the items of a list', async () => {
    let pauses = 0;
    const pause = async (): Promise<void> => {
      pauses += 1;
    };
    const items = Array.from({ length: 800 }, (_, i) => ({ i }));
    expect(await pacedJson({ items }, pause)).toBe(JSON.stringify({ items }));
    expect(pauses).toBe(50);
  });
});
