/** Long lists of addresses and of blocks, packed. */
import { Address, type AddressKey, addressBytes, type CIDR } from './address.ts';
import { arrayMax, type ColumnForm, Columns, type List, numberAt } from './list.ts';

/** In a list that has IPv6 addresses, each has a byte for its length, and room for 16. */
const anyBytes = 1 + addressBytes.IPv6;

function readIPv4At(bytes: string, at: number): Address {
  return Address.ofIPv4(numberAt(bytes, at, addressBytes.IPv4));
}

function readAnyAt(bytes: string, at: number): Address {
  const from = at + 1;
  if (bytes.charCodeAt(at) === addressBytes.IPv4) return readIPv4At(bytes, from);
  return Address.from(Buffer.from(bytes.slice(from, at + anyBytes), 'latin1'));
}

const ipv4Form: ColumnForm<Address> = { width: addressBytes.IPv4, read: readIPv4At };
const anyForm: ColumnForm<Address> = { width: anyBytes, read: readAnyAt };

/** The prefix length follows the address. */
function blockForm({ width, read }: ColumnForm<Address>): ColumnForm<CIDR> {
  return {
    width: width + 1,
    read: (bytes, at, text) => {
      return { address: read(bytes, at, text), prefixLength: bytes.charCodeAt(at + width) };
    },
  };
}

const ipv4BlockForm = blockForm(ipv4Form);
const anyBlockForm = blockForm(anyForm);

/** A list to keep. */
export function addressList(list: readonly Address[]): List<Address> {
  if (list.length <= arrayMax) return list;
  const form = list.every(isIPv4) ? ipv4Form : anyForm;
  const bytes = new Uint8Array(list.length * form.width);
  list.forEach((address, i) => {
    write(address, bytes, i * form.width, form === ipv4Form);
  });
  return new Columns(form, bytes);
}

/**
 * A test whether a list has one of these addresses. It searches the bytes of a packed list, where
 * the end of one address and the start of the next may look like another: then it is true, too.
 */
export function mayHaveAny(keys: ReadonlySet<AddressKey>): (list: List<Address>) => boolean {
  const isAmong = ({ key }: Address): boolean => keys.has(key);
  const texts = Array.from(keys, (key) => {
    return typeof key === 'number' ? Address.ofIPv4(key).latin1 : key;
  });
  return (list) =>
    list instanceof Columns ? texts.some((text) => list.bytes.includes(text)) : list.some(isAmong);
}

/** A list to keep. */
export function blockList(list: readonly CIDR[]): List<CIDR> {
  if (list.length <= arrayMax) return list;
  const form = list.every(({ address }) => isIPv4(address)) ? ipv4BlockForm : anyBlockForm;
  const bytes = new Uint8Array(list.length * form.width);
  list.forEach(({ address, prefixLength }, i) => {
    write(address, bytes, i * form.width, form === ipv4BlockForm);
    bytes[(i + 1) * form.width - 1] = prefixLength;
  });
  return new Columns(form, bytes);
}

function isIPv4({ family }: Address): boolean {
  return family === 'IPv4';
}

function write(address: Address, to: Uint8Array, at: number, isBare: boolean): void {
  if (!isBare) to[at] = addressBytes[address.family];
  address.copy(to, isBare ? at : at + 1);
}
