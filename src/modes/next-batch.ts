import type { Backend, Types, Writer } from './backend.ts';

/** The batch that a planner writes at present, until it is taken. */
export class NextBatch<T extends Types> {
  readonly #backend: Backend<T>;
  readonly #frontendBytes: number;
  #writer: ReturnType<Backend<T>['writer']>;
  /** Bytes of ops, about. */
  bytes = 0;
  /** See `ModePlanner.indivisible`. */
  isIndivisible = false;
  /** It has a part of a repair. */
  isRepair = false;

  /** `frontendBytes`: what each frontend adds to `bytes`, even if nothing is written of it. */
  constructor(backend: Backend<T>, frontendBytes: number) {
    this.#backend = backend;
    this.#frontendBytes = frontendBytes;
    this.#writer = backend.writer();
  }

  get writer(): ReturnType<Backend<T>['writer']> {
    return this.#writer;
  }

  /** Begins another one. */
  begin(): void {
    this.#writer = this.#backend.writer();
    this.bytes = 0;
    this.isIndivisible = false;
    this.isRepair = false;
  }

  /** Counts a frontend that costs this number of bytes. */
  addFrontend(bytes = 0): void {
    this.bytes += bytes + this.#frontendBytes;
  }

  writeWhole(object: T['shared'], owner: string, isThere: boolean): void {
    this.#writer.write({ of: 'shared', id: object.id, owner, after: object, isThere });
  }
}

/** Deletes an object that nothing needs. */
export function writeDeletion<T extends Types>(writer: Writer<T>, id: string, owner = ''): void {
  writer.write({ of: 'shared', id, owner, after: undefined, isThere: true });
}
