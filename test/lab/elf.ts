/** What a shared object says about its protection (elf.h, ELF64 little-endian). */

export interface Protection {
  /** All symbols are bound when it is loaded. */
  readonly bindsNow: boolean;
  /** What needs no more writing after that is read-only. */
  readonly relro: boolean;
  /** Functions that it takes from libraries. */
  readonly imports: readonly string[];
}

const PT_LOAD = 1;
const PT_DYNAMIC = 2;
const PT_GNU_RELRO = 0x6474e552;
const DT_STRTAB = 5n;
const DT_FLAGS = 30n;
const DT_FLAGS_1 = 0x6ffffffbn;
const DF_BIND_NOW = 8n;
const DF_1_NOW = 1n;
const SHT_DYNSYM = 11;
const symbolBytes = 24;

export function protectionOf(file: Buffer): Protection {
  if (file.readUInt32BE(0) !== 0x7f454c46 || file[4] !== 2 || file[5] !== 1) {
    throw new Error('this is no ELF64 file of a little-endian machine');
  }
  const programs = table(file, { offsetAt: 0x20, bytesAt: 0x36, countAt: 0x38 });
  const segments = programs.map((at) => ({
    type: file.readUInt32LE(at),
    offset: file.readBigUInt64LE(at + 8),
    address: file.readBigUInt64LE(at + 16),
    bytes: file.readBigUInt64LE(at + 32),
  }));
  const offsetOf = (address: bigint): number => {
    const load = segments.find(
      (one) => one.type === PT_LOAD && address >= one.address && address < one.address + one.bytes,
    );
    return Number(address - load!.address + load!.offset);
  };
  const dynamic = segments.find(({ type }) => type === PT_DYNAMIC)!;
  const tags = new Map<bigint, bigint>();
  for (let at = Number(dynamic.offset); at < Number(dynamic.offset + dynamic.bytes); at += 16) {
    tags.set(file.readBigUInt64LE(at), file.readBigUInt64LE(at + 8));
  }
  const flags = (tags.get(DT_FLAGS) ?? 0n) & DF_BIND_NOW;
  const flags1 = (tags.get(DT_FLAGS_1) ?? 0n) & DF_1_NOW;
  return {
    bindsNow: flags !== 0n || flags1 !== 0n,
    relro: segments.some(({ type }) => type === PT_GNU_RELRO),
    imports: importsOf(file, offsetOf(tags.get(DT_STRTAB)!)),
  };
}

/** Offsets of the entries of a table of headers. */
function table(
  file: Buffer,
  { offsetAt, bytesAt, countAt }: { offsetAt: number; bytesAt: number; countAt: number },
): number[] {
  const offset = Number(file.readBigUInt64LE(offsetAt));
  const bytes = file.readUInt16LE(bytesAt);
  return Array.from({ length: file.readUInt16LE(countAt) }, (_, i) => offset + i * bytes);
}

function importsOf(file: Buffer, strings: number): string[] {
  const sections = table(file, { offsetAt: 0x28, bytesAt: 0x3a, countAt: 0x3c });
  const symbols = sections.find((at) => file.readUInt32LE(at + 4) === SHT_DYNSYM)!;
  const first = Number(file.readBigUInt64LE(symbols + 0x18));
  const end = first + Number(file.readBigUInt64LE(symbols + 0x20));
  const names: string[] = [];
  for (let at = first; at < end; at += symbolBytes) {
    if (file.readUInt16LE(at + 6) !== 0) continue;
    const name = strings + file.readUInt32LE(at);
    names.push(file.toString('latin1', name, file.indexOf(0, name)));
  }
  return names;
}
