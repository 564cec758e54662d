import { describe, expect, it } from 'vitest';
import { SharedObjects } from '../../../src/modes/shared-objects.ts';

const chain = { id: 'chain', isShared: true, bytes: 1 } as const;

describe('objects that several Forwardings share', () => {
  it('are attributed to the Forwarding that needs them, not to one that no longer does', () => {
    const objects = new SharedObjects();
    objects.claim('first', chain);
    objects.release('first', chain);
    objects.claim('second', chain);
    expect(objects.take().added).toEqual([
      expect.objectContaining({ owner: 'second', object: chain }),
    ]);
  });

  it('are unchanged when one Forwarding replaces another', () => {
    const objects = new SharedObjects();
    objects.resume('first', chain);
    objects.release('first', chain);
    objects.claim('second', chain);
    expect(objects.take()).toEqual({ added: [], deleted: [] });
  });

  it('are written again in place when their content changes', () => {
    const objects = new SharedObjects();
    const [before, after] = [
      { ...chain, content: 'all' },
      { ...chain, content: 'listed' },
    ];
    objects.resume('', before);
    objects.release('', before);
    objects.claim('', after);
    expect(objects.changes('chain')).toBe(true);
    expect(objects.take()).toEqual({
      added: [{ owner: '', object: after, isThere: true }],
      deleted: [],
    });
    objects.release('', after);
    objects.claim('', { ...after });
    expect(objects.changes('chain')).toBe(false);
    expect(objects.take()).toEqual({ added: [], deleted: [] });
  });
});
