/** An API server that reviews tokens: it knows two, of which one may get answers. */
import type { AccessOptions } from '../../../../src/serve/readers/access.ts';

interface Review {
  readonly kind: string;
  readonly spec: { readonly token?: string; readonly [field: string]: unknown };
}

export class FakeReviews {
  readonly asked: (Review & { readonly path: string })[] = [];
  /** While set, it does not answer. */
  isSilent = false;
  /** Called when it is asked, and does not answer. */
  waits: () => void = () => {};
  audiences: readonly string[] | undefined = ['fairlead'];
  isClosed = false;

  readonly open: AccessOptions['open'] = async () => ({
    create: async (path, object, signal) => {
      const review = object as Review;
      this.asked.push({ ...review, path });
      if (this.isSilent) {
        await new Promise((_, fail) => {
          signal.addEventListener('abort', () => fail(new Error('aborted')));
          this.waits();
        });
      }
      const { token, user } = review.spec;
      const status = token === undefined ? { allowed: user === 'reader' } : this.#identity(token);
      return (async function* () {
        yield Buffer.from(JSON.stringify({ ...review, status }));
      })();
    },
    close: () => {
      this.isClosed = true;
    },
  });

  #identity(token: string): object {
    const username = { good: 'reader', poor: 'visitor' }[token];
    if (username === undefined) return { authenticated: false, error: 'unknown' };
    const user = { username, uid: 'u', groups: ['g'], extra: { x: ['y'] } };
    return { authenticated: true, user, audiences: this.audiences };
  }

  /** How many reviews of this kind it was asked for. */
  count(kind: 'TokenReview' | 'SubjectAccessReview'): number {
    return this.asked.filter((one) => one.kind === kind).length;
  }
}
