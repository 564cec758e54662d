import { addressBytes, type Family, readIPv6 } from '../../net/address.ts';
import {
  arrayMax,
  type ColumnForm,
  type List,
  Columns as ListOfColumns,
  numberAt,
} from '../../net/list.ts';
import { Condition, type EndpointSlice, type Place, podBytes } from '../../state/types.ts';
import type { Interner } from '../interner.ts';
import { isOrdinaryIPv4 } from './addresses.ts';

export interface EndpointContext {
  readonly family: Family;
  /** This node's name. */
  readonly nodeName: string;
  readonly strings: Interner;
}

export type Columns = Pick<
  EndpointSlice,
  'length' | 'addresses' | 'conditions' | 'zoneHints' | 'places' | 'pods'
>;

/** The fields of an endpoint, without its address. */
interface Endpoint {
  /** `Condition` bits ready, serving and terminating. */
  readonly conditions: number;
  /** Empty = absent; so is `zone`. */
  readonly node: string;
  readonly zone: string;
  readonly hintedNodes: readonly string[];
  readonly hintedZones: readonly string[];
  /** See `podHash`; 0 = no pod is named. */
  readonly pod: number;
}

export const noNames: readonly string[] = Object.freeze([]);
const nowhere: Place = { node: '', zone: '' };

/** A zone is the value of a label of nodes, which is no longer. */
const zoneMax = 63;

/** Endpoints that were decoded directly into columns, in place of JSON's list. */
export class ReadEndpoints {
  readonly columns: Columns;

  constructor(columns: Columns) {
    this.columns = columns;
  }
}

/**
 * Builds the columns of a slice, endpoint by endpoint, without an object for each. An address is
 * written first; if no `write` method accepts it, the endpoint is left out.
 */
export class ColumnWriter {
  readonly #context: EndpointContext;
  readonly #stride: number;
  readonly #addresses: Buffer;
  readonly #conditions: Buffer;
  readonly #most: number;
  #pods: Buffer | undefined;
  #zoneHints: (readonly string[])[] | undefined;
  #places: Place[] | undefined;
  #length = 0;

  /** For at most this number of endpoints. */
  constructor(context: EndpointContext, most: number) {
    this.#context = context;
    this.#stride = addressBytes[context.family];
    this.#most = most;
    // From Node's pool, because they become strings soon.
    this.#addresses = Buffer.allocUnsafe(most * this.#stride);
    this.#conditions = Buffer.allocUnsafe(most);
  }

  /** Writes an IPv4 address of `textLength` characters, unless it needs a warning. */
  writeOrdinaryIPv4(value: number, textLength: number): boolean {
    if (!isOrdinaryIPv4(value, textLength)) return false;
    this.#addresses.writeUInt32BE(value, this.#length * this.#stride);
    return true;
  }

  /** Writes an IPv6 address, unless it is invalid or needs a warning. */
  writeOrdinaryIPv6(text: string): boolean {
    const at = this.#length * this.#stride;
    return readIPv6(text, this.#addresses, at) && isOrdinaryIPv6(this.#addresses[at]!);
  }

  write(address: Uint8Array): void {
    this.#addresses.set(address, this.#length * this.#stride);
  }

  /** Adds the endpoint whose address has been written. */
  add({ conditions, node, zone: said, hintedNodes, hintedZones, pod }: Endpoint): void {
    const { nodeName, strings } = this.#context;
    const zone = said.length > zoneMax ? '' : said;
    this.#conditions[this.#length] =
      conditions |
      (node === nodeName ? Condition.local : 0) |
      (hintedNodes.length > 0 ? Condition.nodeHinted : 0) |
      (hintedNodes.includes(nodeName) ? Condition.nodeHintedHere : 0);
    if (hintedZones.length > 0) {
      this.#zoneHints ??= Array.from({ length: this.#most }, () => noNames);
      this.#zoneHints[this.#length] = strings.list(hintedZones);
    }
    if (node !== '' || zone !== '') {
      this.#places ??= Array.from({ length: this.#most }, () => nowhere);
      this.#places[this.#length] = strings.place(node, zone);
    }
    if (pod !== 0) {
      this.#pods ??= Buffer.allocUnsafe(this.#most * podBytes).fill(0);
      this.#pods.writeUInt32BE(pod, this.#length * podBytes);
    }
    this.#length += 1;
  }

  columns(): Columns {
    const length = this.#length;
    const isFull = length === this.#most;
    return {
      length,
      addresses: this.#addresses.toString('latin1', 0, length * this.#stride),
      conditions: this.#conditions.toString('latin1', 0, length),
      zoneHints: this.#zoneHints && hintList(this.#zoneHints.slice(0, length)),
      pods: this.#pods?.toString('latin1', 0, length * podBytes),
      places: isFull ? this.#places : this.#places?.slice(0, length),
    };
  }
}

/** A number for the name of a pod (FNV-1a); 0 for an empty name alone. */
export function podHash(name: Uint8Array, from = 0, to = name.length): number {
  if (from === to) return 0;
  let hash = 0x811c9dc5;
  for (let i = from; i < to; i += 1) hash = Math.imul(hash ^ name[i]!, 0x01000193);
  return hash >>> 0 || 1;
}

/** `Condition` bits; absent ones have the API's defaults. */
export function conditionBits(
  ready: boolean | undefined,
  serving: boolean | undefined,
  terminating: boolean | undefined,
): number {
  return (
    ((ready ?? true) ? Condition.ready : 0) |
    ((serving ?? true) ? Condition.serving : 0) |
    (terminating === true ? Condition.terminating : 0)
  );
}

/** Whether the first byte is of 2000::/3 or fc00::/7, where no address is special or IPv4. */
function isOrdinaryIPv6(first: number): boolean {
  return (first & 0xe0) === 0x20 || (first & 0xfe) === 0xfc;
}

type Names = readonly string[];

/** No name of a zone contains it. */
const separator = '\n';

/** Three bytes say where the names of an endpoint end. */
const textMax = 2 ** 24 - 1;

/** Where the names of an endpoint end in the text of all names. */
const form: ColumnForm<Names> = {
  width: 3,
  read: (bytes, at, text) => {
    const names = text.slice(at === 0 ? 0 : numberAt(bytes, at - 3, 3), numberAt(bytes, at, 3));
    return names === '' ? [] : names.split(separator);
  },
};

/**
 * The zone hints of endpoints, to keep. Those of a cluster are few lists, which endpoints share. If
 * there are many different ones, they take their text and 3 bytes for each endpoint.
 */
export function hintList(hints: readonly Names[]): List<Names> {
  if (new Set(hints).size <= arrayMax) return hints;
  const texts = hints.map((names) => names.join(separator));
  const text = texts.join('');
  const isPlain = (name: string): boolean => name !== '' && !name.includes(separator);
  if (text.length > textMax || !hints.flat().every(isPlain)) return hints;
  const bytes = Buffer.alloc(hints.length * form.width);
  let end = 0;
  texts.forEach((one, i) => {
    end += one.length;
    bytes.writeUIntBE(end, i * form.width, 3);
  });
  return new ListOfColumns(form, bytes, text);
}
