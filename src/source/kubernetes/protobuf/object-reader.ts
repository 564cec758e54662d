import { ReadEndpoints } from '../../decode/endpoint-columns.ts';
import { entriesMax } from '../../decode/entries.ts';
import type { RawObject } from '../../decode/field-reader.ts';
import { type DecodeContext, kindOf } from '../../decode.ts';
import type { Watched } from '../../source.ts';
import { readColumns } from './endpoints.ts';
import { endpoint, endpointPort, objectMeta, objects, servicePort } from './kinds.ts';
import { type Found, type Message, messagesAt, readMessage, readNested } from './message.ts';
import { WireError, type WireReader } from './wire.ts';

/** The most characters of a namespace and a name. */
const keyMax = 320;

/**
 * Reads objects of one resource from protobuf: the fields that decoding knows, as in JSON. So only
 * decoding determines what is valid. There are many endpoints: ordinary ones are read directly into
 * columns.
 */
export class ObjectReader {
  readonly #resource: Watched;
  readonly #context: DecodeContext;

  constructor(resource: Watched, context: DecodeContext) {
    this.#resource = resource;
    this.#context = context;
  }

  /**
   * Reads an object, from the reader's index to its end, in steps. Throws a one-line Error, with
   * object and field if these are known.
   */
  *read(reader: WireReader): Generator<undefined, RawObject> {
    const { at, end } = reader;
    try {
      const found = readMessage(reader, objects[this.#resource]);
      reader.end = end;
      if (this.#resource === 'services') {
        yield* replacePorts(reader, found.spec, 'spec.ports', servicePort);
      } else if (this.#resource === 'endpointslices') {
        yield* replacePorts(reader, found, 'ports', endpointPort);
        yield* this.#readEndpoints(reader, end, found);
      }
      return found;
    } catch (error) {
      if (!(error instanceof WireError)) throw error;
      reader.at = at;
      reader.end = end;
      const field = error.path === '' ? '' : `${error.path}: `;
      throw new Error(`${this.#describe(reader)}: ${field}${error.message}`);
    }
  }

  /** Replaces the positions of endpoints by the endpoints. */
  *#readEndpoints(reader: WireReader, end: number, found: Found): Generator<undefined, void> {
    const { endpoints: positions, addressType } = found;
    if (!Array.isArray(positions)) return;
    const isUsual = positions.length <= entriesMax.endpoints;
    const family = addressType === 'IPv4' || addressType === 'IPv6' ? addressType : undefined;
    const columns =
      isUsual && family
        ? yield* readColumns(reader, positions, { ...this.#context, family })
        : undefined;
    reader.end = end;
    found.endpoints = columns
      ? new ReadEndpoints(columns)
      : yield* messagesAt(reader, positions, 'endpoints', endpoint);
  }

  /**
   * `Service shop/web`. Metadata are the first field, so they can be read if later fields can't.
   */
  #describe(reader: WireReader): string {
    const kind = kindOf[this.#resource];
    try {
      reader.tag();
      const { namespace, name } = readNested(reader, objectMeta);
      const key = [namespace, name].filter(Boolean).join('/').slice(0, keyMax);
      return `${kind} ${key}`.trim();
    } catch {
      return kind;
    }
  }
}

/** Replaces the positions of ports by the ports. */
function* replacePorts(
  reader: WireReader,
  found: unknown,
  path: string,
  port: Message,
): Generator<undefined, void> {
  const parent = found as Found | undefined;
  if (Array.isArray(parent?.ports)) {
    parent.ports = yield* messagesAt(reader, parent.ports, path, port);
  }
}
