import { expect, test } from 'vitest';
import { ClusterLife } from '../../chaos/life.ts';
import { Random } from '../../chaos/random.ts';

test('no frontend has an endpoint twice, since the kernel has each once', () => {
  // In these a random number comes twice.
  for (const seed of [632, 762, 937, 1061]) {
    for (const endpoints of new ClusterLife(40, new Random(seed)).wanted().values()) {
      expect(new Set(endpoints).size).toBe(endpoints.length);
    }
  }
});
