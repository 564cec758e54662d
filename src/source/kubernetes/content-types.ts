/** The encoding of an answer's body. */
export type Form = 'json' | 'protobuf';

const protobufType = 'application/vnd.kubernetes.protobuf';
export const jsonType = 'application/json';
/** Media types that can be read, or that let the server choose one that can. */
const readable: readonly string[] = [protobufType, jsonType, 'application/*', '*/*'];

export interface ContentTypeOptions {
  /** `clientConnection.contentType` */
  readonly contentType: string;
  /** `clientConnection.acceptContentTypes`; empty = the type of `contentType`, or else JSON. */
  readonly acceptContentTypes: string;
}

/**
 * Selects the encoding of answers from kube-proxy's configuration. If the server, or a proxy in
 * front of it, refuses protobuf, requests ask for JSON until the connection is lost: the next
 * server may answer in protobuf.
 */
export class ContentTypes {
  readonly #acceptTypes: string;
  readonly #onRefused: (reason: string) => void;
  #isRefused = false;
  #isReported = false;

  /**
   * `onRefused` is called once with the reason why answers are JSON although the configuration asks
   * for protobuf.
   */
  constructor(options: ContentTypeOptions, onRefused: (reason: string) => void = () => {}) {
    this.#acceptTypes = acceptTypes(options);
    this.#onRefused = onRefused;
  }

  /** The Accept header. */
  get accept(): string {
    return this.#isRefused ? jsonType : this.#acceptTypes;
  }

  /** The encoding of an answer with status 200. Other types are read as JSON, which then fails. */
  formOf(contentType: unknown): Form {
    if (typeof contentType === 'string' && isProtobuf(contentType)) return 'protobuf';
    if (isProtobuf(this.accept) && contentType === jsonType) this.#report('it answers in JSON');
    return 'json';
  }

  /**
   * Takes the status of an answer to a request for `accept`. Returns true if the request must be
   * repeated, with `this.accept`.
   */
  refuses(accept: string, status: number): boolean {
    if (!isProtobuf(accept) || ![406, 415].includes(status)) return false;
    this.#isRefused = true;
    this.#report(`it answers with status ${status}`);
    return true;
  }

  /** Must be called when the connection is lost: the next request asks for everything again. */
  lost(): void {
    this.#isRefused = false;
  }

  #report(what: string): void {
    if (this.#isReported) return;
    this.#isReported = true;
    this.#onRefused(`${what} where protobuf is asked for: JSON is used, which costs more`);
  }
}

/** The Accept header of the configuration, without unreadable types. */
function acceptTypes({ contentType, acceptContentTypes }: ContentTypeOptions): string {
  const listed = acceptContentTypes
    .split(',')
    .map((type) => type.trim())
    .filter((type) => readable.includes(mediaType(type)));
  if (listed.length > 0) return listed.join(', ');
  const asksProtobuf = acceptContentTypes.trim() === '' && mediaType(contentType) === protobufType;
  return asksProtobuf ? `${protobufType}, ${jsonType};q=0.9` : jsonType;
}

/** Whether a header lists protobuf. */
function isProtobuf(types: string): boolean {
  return types.split(',').some((type) => mediaType(type) === protobufType);
}

function mediaType(type: string): string {
  return type.split(';')[0]!.trim().toLowerCase();
}
