/** Short functions to write buffers of ops and expressions, and to read dumps. */
import { expect } from 'vitest';
import type { Kernel, ReplyOf } from '../../src/kernel/kernel.ts';
import { NFT_TYPE } from '../../src/kernel/nft/constants.ts';
import {
  type Expression,
  expressions,
  type KernelOp,
  kernelOps,
  type Reply,
  type Request,
} from '../../src/kernel/ops.ts';
import { RecordWriter, readRecords } from '../../src/kernel/records.ts';

/** A set of IPv4 addresses, for setAdd. */
export const addressSet = {
  flags: 0,
  keyType: NFT_TYPE.ipv4_addr,
  keyLength: 4,
  dataType: 0,
  dataLength: 0,
  timeoutMs: 0,
  size: 0,
  statement: new Uint8Array(0),
  comment: '',
} as const;

/** A buffer of ops. */
export function batch(...ops: readonly KernelOp[]): Uint8Array {
  const writer = new RecordWriter(kernelOps);
  for (const op of ops) writer.write(op.kind, op as never);
  return writer.finish();
}

/** The expressions of a rule. */
export function rule(...list: readonly Expression[]): Uint8Array {
  const writer = new RecordWriter(expressions);
  for (const expression of list) writer.write(expression.kind, expression as never);
  return writer.finish();
}

/** The expressions of a rule, decoded. */
export function readRule(bytes: Uint8Array): Expression[] {
  return [...readRecords(expressions, bytes)];
}

/** Applies ops. Fails when the kernel refuses one. */
export async function applied(kernel: Kernel, ...ops: readonly KernelOp[]): Promise<void> {
  expect(await kernel.apply(batch(...ops))).toEqual({ kind: 'applied' });
}

/** The records of a dump. An interrupted dump is read again, as every caller must do. */
export async function dumped<K extends Reply['kind']>(
  kernel: Kernel,
  kind: K,
  request: Request,
): Promise<ReplyOf<K>[]> {
  for (let attempt = 0; attempt < 10_000; attempt += 1) {
    const { records, consistent } = await kernel.dump(request);
    if (consistent) {
      return records.filter((each): each is ReplyOf<K> => each.kind === kind);
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
  throw new Error(`${request.kind}: no consistent dump in 10,000 attempts`);
}

/** Part of `bytes`: a byte, hexadecimal digits, or bytes. */
export type Part = number | string | Uint8Array;

export function bytes(...parts: readonly Part[]): Uint8Array {
  return Uint8Array.from(
    parts.flatMap((part) => {
      if (typeof part === 'number') return [part];
      return typeof part === 'string' ? [...Buffer.from(part, 'hex')] : [...part];
    }),
  );
}

/** A number of 32 bits in host order, as in records and in fields of the kernel. */
export function u32(value: number): Uint8Array {
  return new Uint8Array(Uint32Array.of(value).buffer);
}

export function u64(value: number): Uint8Array {
  return new Uint8Array(BigUint64Array.of(BigInt(value)).buffer);
}

/** A port or another 16-bit number in network order. */
export function u16Be(value: number): Uint8Array {
  return Uint8Array.of(value >> 8, value & 0xff);
}

/** Entry part `verdict`: code, length of the chain's name, the name padded to a multiple of 4. */
export function verdict(code: number, chain = ''): Uint8Array {
  const name = new TextEncoder().encode(chain);
  const padding = new Uint8Array(-name.length & 3);
  return bytes(u32(code >>> 0), u32(name.length), name, padding);
}

export const noBytes: Uint8Array = new Uint8Array(0);
