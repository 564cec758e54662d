import { closeSync, openSync, readSync } from 'node:fs';

/** Types of program headers (elf.h). */
const PT_LOAD = 1;
const PT_DYNAMIC = 2;
/** Tags of the dynamic section. */
const DT_NEEDED = 1;
const DT_STRTAB = 5;

interface Segment {
  readonly type: number;
  readonly offset: number;
  readonly address: number;
  readonly size: number;
}

/**
 * The names of the shared libraries (`libc.so.6`) that a 64-bit x86 program or library asks the
 * loader for, without those that these need in turn. None for any other file.
 */
export function neededLibraries(path: string): string[] {
  const file = openSync(path, 'r');
  try {
    return readNeeded((offset, size) => {
      const bytes = Buffer.alloc(size);
      return bytes.subarray(0, readSync(file, bytes, 0, size, offset));
    });
  } finally {
    closeSync(file);
  }
}

function readNeeded(read: (offset: number, size: number) => Buffer): string[] {
  const header = read(0, 64);
  if (!isX64Elf(header)) return [];
  const segments = parseSegments(header, read);
  const dynamic = segments.find(({ type }) => type === PT_DYNAMIC);
  if (dynamic === undefined) return [];
  const entries = parsePairs(read(dynamic.offset, dynamic.size));
  const strings = entries.find(({ tag }) => tag === DT_STRTAB)?.value ?? 0;
  return entries
    .filter(({ tag }) => tag === DT_NEEDED)
    .map(({ value }) => {
      const nameMax = 256;
      const text = read(fileOffset(strings + value, segments), nameMax);
      return text.toString('latin1', 0, text.indexOf(0));
    });
}

/** | "\x7fELF" | class: 2 = 64 bits | order: 1 = little endian | … | machine, at byte 18 | … | */
function isX64Elf(header: Buffer): boolean {
  const start = Buffer.from([0x7f, 0x45, 0x4c, 0x46, 2, 1]);
  const machineX64 = 62;
  return (
    header.length === 64 &&
    header.subarray(0, 6).equals(start) &&
    header.readUInt16LE(18) === machineX64
  );
}

/** Elf64_Phdr: | type 4 | flags 4 | offset 8 | address 8 | physical 8 | size in the file 8 | … | */
function parseSegments(header: Buffer, read: (offset: number, size: number) => Buffer): Segment[] {
  const start = Number(header.readBigUInt64LE(32));
  const entrySize = header.readUInt16LE(54);
  const count = header.readUInt16LE(56);
  const table = read(start, entrySize * count);
  return Array.from({ length: count }, (_, i) => {
    const entry = table.subarray(i * entrySize);
    return {
      type: entry.readUInt32LE(0),
      offset: Number(entry.readBigUInt64LE(8)),
      address: Number(entry.readBigUInt64LE(16)),
      size: Number(entry.readBigUInt64LE(32)),
    };
  });
}

/** Elf64_Dyn: | tag 8 | value 8 | */
function parsePairs(section: Buffer): { tag: number; value: number }[] {
  return Array.from({ length: section.length / 16 }, (_, i) => ({
    tag: Number(section.readBigUInt64LE(i * 16)),
    value: Number(section.readBigUInt64LE(i * 16 + 8)),
  }));
}

function fileOffset(address: number, segments: readonly Segment[]): number {
  const segment = segments.find(
    (candidate) =>
      candidate.type === PT_LOAD &&
      address >= candidate.address &&
      address < candidate.address + candidate.size,
  );
  return segment === undefined ? address : address - segment.address + segment.offset;
}
