import { after, caught, done, noSteps, type Steps } from '../../../state/steps.ts';
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
  read(reader: WireReader): Steps<RawObject> {
    const { at, end } = reader;
    const read = (): Steps<RawObject> => {
      const found = readMessage(reader, objects[this.#resource]);
      reader.end = end;
      return after(this.#readLists(reader, end, found), () => done(found));
    };
    return caught(read, (error) => {
      if (!(error instanceof WireError)) throw error;
      reader.at = at;
      reader.end = end;
      const field = error.path === '' ? '' : `${error.path}: `;
      throw new Error(`${this.#describe(reader)}: ${field}${error.message}`);
    });
  }

  /** Replaces the positions of ports and endpoints by what is there. */
  #readLists(reader: WireReader, end: number, found: Found): Steps<undefined> {
    if (this.#resource === 'services') {
      return replacePorts(reader, found.spec, 'spec.ports', servicePort);
    }
    if (this.#resource !== 'endpointslices') return noSteps;
    const ports = replacePorts(reader, found, 'ports', endpointPort);
    return after(ports, () => this.#readEndpoints(reader, end, found));
  }

  #readEndpoints(reader: WireReader, end: number, found: Found): Steps<undefined> {
    const { endpoints: positions, addressType } = found;
    if (!Array.isArray(positions)) return noSteps;
    const isUsual = positions.length <= entriesMax.endpoints;
    const family = addressType === 'IPv4' || addressType === 'IPv6' ? addressType : undefined;
    const columns =
      isUsual && family
        ? readColumns(reader, positions, { ...this.#context, family })
        : done(undefined);
    const endpoints = after(columns, (read): Steps<unknown> => {
      reader.end = end;
      return read
        ? done(new ReadEndpoints(read))
        : messagesAt(reader, positions, 'endpoints', endpoint);
    });
    return set(found, 'endpoints', endpoints);
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
function replacePorts(
  reader: WireReader,
  found: unknown,
  path: string,
  port: Message,
): Steps<undefined> {
  const parent = found as Found | undefined;
  if (!Array.isArray(parent?.ports)) return noSteps;
  return set(parent, 'ports', messagesAt(reader, parent.ports, path, port));
}

/** Sets a field to what the steps result in. */
function set(found: Found, field: string, steps: Steps<unknown>): Steps<undefined> {
  return after(steps, (value) => {
    found[field] = value;
    return noSteps;
  });
}
