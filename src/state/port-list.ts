import { type ColumnForm, Columns, copyOfPart, type List, numberAt, partMax } from '../net/list.ts';
import { protocols } from '../net/protocol.ts';
import type { ServicePort, SlicePort } from './types.ts';

/** Protocol, number and node port, and where the name ends in the text of all names. */
const form: ColumnForm<ServicePort> = {
  width: 8,
  read: (bytes, at, names) => {
    const from = at === 0 ? 0 : numberAt(bytes, at - 3, 3);
    return {
      name: copyOfPart(names, from, numberAt(bytes, at + 5, 3)),
      protocol: protocols[bytes.charCodeAt(at)]!,
      port: numberAt(bytes, at + 1, 2),
      nodePort: numberAt(bytes, at + 3, 2),
    };
  },
};

/** Three bytes say where a name ends. */
const textMax = 2 ** 24 - 1;

/** The ports that are packed in one step. */
const portsAStep = 1024;

/**
 * Many ports to keep, in steps: 8 bytes and the name for each, instead of an object. Names that no
 * API server accepts take more than the objects, which are kept then.
 */
export function* packedPorts<T extends SlicePort>(
  ports: readonly T[],
): Generator<undefined, List<T | ServicePort>> {
  const text = ports.map(({ name }) => name).join('');
  if (text.length > textMax || ports.some(({ name }) => name.length > partMax)) return ports;
  const bytes = Buffer.alloc(ports.length * form.width);
  let end = 0;
  for (let i = 0; i < ports.length; i += 1) {
    if (i % portsAStep === portsAStep - 1) yield;
    const one: SlicePort & Partial<ServicePort> = ports[i]!;
    const at = i * form.width;
    end += one.name.length;
    bytes[at] = protocols.indexOf(one.protocol);
    bytes.writeUInt16BE(one.port, at + 1);
    bytes.writeUInt16BE(one.nodePort ?? 0, at + 3);
    bytes.writeUIntBE(end, at + 5, 3);
  }
  return new Columns(form, bytes, text);
}
