/** A second API server behind the same address, which may know less than the first one. */
import { FakeApiServer, type FakeApiServerOptions } from '../fake/api-server.ts';

export class Replica {
  readonly server: FakeApiServer;
  /** Events that it does not know yet; undefined: it knows all. */
  #later: (() => void)[] | undefined;

  constructor({ store }: FakeApiServer, options: FakeApiServerOptions) {
    this.server = new FakeApiServer({ ...options, leader: store });
    const { onEvent } = store;
    store.onEvent = (...event) => {
      onEvent(...event);
      const follow = (): void => this.server.store.follow(...event);
      if (this.#later === undefined) follow();
      else this.#later.push(follow);
    };
  }

  /** It knows all until now, and nothing more until `catchUp`. */
  fallBehind(): void {
    this.catchUp();
    this.#later = [];
  }

  /** It knows all until now. */
  settle(): void {
    if (this.#later !== undefined) this.fallBehind();
  }

  catchUp(): void {
    for (const follow of this.#later ?? []) follow();
    this.#later = undefined;
  }
}
