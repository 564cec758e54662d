/** How an answer is written. */
export type Form = 'json' | 'protobuf';

export const protobufType = 'application/vnd.kubernetes.protobuf';
export const jsonType = 'application/json';
/** What the server may choose of, where it is asked for. */
const readable: readonly string[] = [protobufType, jsonType, 'application/*', '*/*'];

export interface ContentTypeOptions {
  /** `clientConnection.contentType` */
  readonly contentType: string;
  /** `clientConnection.acceptContentTypes`; empty = what `contentType` says, or else JSON. */
  readonly acceptContentTypes: string;
}

/**
 * What answers are asked for, in the words of kube-proxy's configuration. Where protobuf is refused,
 * by the server or by a proxy before it, JSON is asked for, until the connection is lost: then
 * another server may answer.
 */
export class ContentTypes {
  readonly #wanted: string;
  readonly #onRefused: (reason: string) => void;
  #isRefused = false;
  #isTold = false;

  /** `onRefused` is told once why answers are JSON though protobuf is asked for. */
  constructor(options: ContentTypeOptions, onRefused: (reason: string) => void = () => {}) {
    this.#wanted = wanted(options);
    this.#onRefused = onRefused;
  }

  /** The Accept header. */
  get accept(): string {
    return this.#isRefused ? jsonType : this.#wanted;
  }

  /** The form of an answer with status 200; what is neither is read as JSON, and fails as such. */
  formOf(contentType: unknown): Form {
    if (typeof contentType === 'string' && isProtobuf(contentType)) return 'protobuf';
    if (isProtobuf(this.accept) && contentType === jsonType) this.#tell('it answers in JSON');
    return 'json';
  }

  /** An answer had this status. Returns true when the request should be made again, for JSON. */
  refuses(status: number): boolean {
    if (this.#isRefused || !isProtobuf(this.#wanted) || ![406, 415].includes(status)) return false;
    this.#isRefused = true;
    this.#tell(`it answers with status ${status}`);
    return true;
  }

  /** The connection was lost. */
  lost(): void {
    this.#isRefused = false;
  }

  #tell(what: string): void {
    if (this.#isTold) return;
    this.#isTold = true;
    this.#onRefused(`${what} where protobuf is asked for: JSON is used, which costs more`);
  }
}

/** Types that cannot be read are not asked for. */
function wanted({ contentType, acceptContentTypes }: ContentTypeOptions): string {
  const listed = acceptContentTypes
    .split(',')
    .map((type) => type.trim())
    .filter((type) => readable.includes(mediaType(type)));
  if (listed.length > 0) return listed.join(', ');
  const asksProtobuf = acceptContentTypes.trim() === '' && mediaType(contentType) === protobufType;
  return asksProtobuf ? `${protobufType}, ${jsonType};q=0.9` : jsonType;
}

/** Whether a header begins with it. */
function isProtobuf(types: string): boolean {
  return types.split(',').some((type) => mediaType(type) === protobufType);
}

function mediaType(type: string): string {
  return type.split(';')[0]!.trim().toLowerCase();
}
