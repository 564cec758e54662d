import { expect, it } from 'vitest';
import { Crowd, type Holding } from '../../../../src/modes/sockets/crowd.ts';
import { withRandom } from '../../../chaos/random.ts';

const end = (): void => {};

it('the client that has most is known, and its oldest, as a look at all of them says', () =>
  withRandom(async (random) => {
    const crowd = new Crowd<Holding>();
    let all: readonly Holding[] = [];
    for (let step = 0; step < 2000; step += 1) {
      if (all.length > 0 && random.below(2) === 0) {
        const gone = random.below(4) === 0 ? crowd.oldestOfMost! : random.pick(all);
        crowd.delete(gone);
        // Once more changes nothing.
        crowd.delete(gone);
        all = all.filter((one) => one !== gone);
      } else {
        const more = { client: String(random.below(8)), end };
        crowd.add(more);
        all = [...all, more];
      }
      const byClient = Map.groupBy(all, ({ client }) => client);
      const most = Math.max(0, ...[...byClient.values()].map((its) => its.length));
      expect(crowd.most).toBe(most);
      const oldest = crowd.oldestOfMost;
      if (most === 0) expect(oldest).toBeUndefined();
      else {
        const its = byClient.get(oldest!.client)!;
        expect(its.length).toBe(most);
        expect(its[0]).toBe(oldest);
        expect(crowd.countOf(oldest!.client)).toBe(most);
      }
    }
  }));
