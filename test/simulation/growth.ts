/** Which collections of this process grow, whoever has them. */
import { Session } from 'node:inspector';
import { types } from 'node:util';

type Collection = Map<unknown, unknown> | Set<unknown> | unknown[];

export class Growth {
  /** The sizes of each collection at each time, as long as it lives. */
  readonly #sizes = new WeakMap<Collection, number[]>();
  #times = 0;

  /** Collects garbage, and takes the sizes of what is left. */
  measure(): void {
    for (const one of collections()) {
      const sizes = this.#sizes.get(one) ?? [];
      if (sizes.length === this.#times) this.#sizes.set(one, [...sizes, sizeOf(one)]);
    }
    this.#times += 1;
  }

  /** What has grown each time by `least` or more, in words with its last element. */
  growing(least: number): string[] {
    return [...collections()].flatMap((one) => {
      const sizes = this.#sizes.get(one) ?? [];
      const grows = sizes.every((size, i) => i === 0 || size >= sizes[i - 1]! + least);
      if (sizes.length < this.#times || !grows) return [];
      const sample = JSON.stringify([...one].at(-1), shortened)?.slice(0, 200);
      return `${one.constructor.name} of ${sizes.join(', ')}: ${sample}`;
    });
  }
}

function* collections(): Generator<Collection> {
  const session = new Session();
  session.connect();
  for (const kind of ['Map', 'Set', 'Array']) {
    // Prototypes of classes that extend these are found, too: they hold nothing.
    for (const one of instances(session, `${kind}.prototype`)) {
      if (types.isMap(one) || types.isSet(one) || Array.isArray(one)) yield one;
    }
  }
  session.disconnect();
}

function instances(session: Session, expression: string): readonly unknown[] {
  const global = globalThis as { found?: readonly unknown[] };
  const { objectId: prototypeObjectId } = post(session, 'Runtime.evaluate', { expression }).result;
  const { objectId } = post(session, 'Runtime.queryObjects', { prototypeObjectId }).objects;
  const functionDeclaration = 'function () { globalThis.found = this; }';
  post(session, 'Runtime.callFunctionOn', { objectId, functionDeclaration });
  const { found = [] } = global;
  delete global.found;
  post(session, 'Runtime.releaseObject', { objectId });
  return found;
}

// biome-ignore lint/suspicious/noExplicitAny: one of several answers
function post(session: Session, method: string, params: object): any {
  let answer: unknown;
  session.post(method, params, (error, result) => {
    if (error) throw new Error(error.message);
    answer = result;
  });
  return answer;
}

function sizeOf(one: Collection): number {
  return Array.isArray(one) ? one.length : one.size;
}

function shortened(_: string, value: unknown): unknown {
  const isLarge = typeof value === 'object' && value !== null && Object.keys(value).length > 8;
  return isLarge ? '…' : value;
}
