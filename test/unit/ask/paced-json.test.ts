import { describe, expect, it } from 'vitest';
import { pacedJson } from '../../../src/serve/ask/routes.ts';

describe('JSON that is made with pauses', () => {
  it('equals that of JSON.stringify', async () => {
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
    expect((await pacedJson(body, () => undefined)).join('')).toBe(JSON.stringify(body));
  });

  it('yields to other tasks between the items of a list', async () => {
    let pauses = 0;
    const pause = async (): Promise<void> => {
      pauses += 1;
    };
    const items = Array.from({ length: 800 }, (_, i) => ({ i }));
    expect((await pacedJson({ items }, pause)).join('')).toBe(JSON.stringify({ items }));
    expect(pauses).toBe(50);
  });
});
