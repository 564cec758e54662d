import { chmodSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { type Entry, encodeArchive } from '../../vm/cpio.ts';

const work = mkdtempSync(join(tmpdir(), 'fairlead-cpio-'));
afterAll(() => rmSync(work, { recursive: true }));

interface Listed {
  readonly mode: string;
  readonly name: string;
  readonly content: string;
  readonly mtimeS: number;
}

/** A reader of its own, after the kernel's documentation: 13 hex fields, both parts aligned to 4. */
function list(archive: Buffer): Listed[] {
  const listed: Listed[] = [];
  for (let offset = 0; offset < archive.length; ) {
    expect(archive.toString('latin1', offset, offset + 6)).toBe('070701');
    const field = (index: number) =>
      Number.parseInt(
        archive.toString('latin1', offset + 6 + index * 8, offset + 14 + index * 8),
        16,
      );
    const nameEnd = offset + 110 + field(11);
    const content = (nameEnd + 3) & ~3;
    const name = archive.toString('utf8', offset + 110, nameEnd - 1);
    const mode = field(1).toString(8);
    const contentEnd = content + field(6);
    const text = archive.toString('utf8', content, contentEnd);
    listed.push({ mode, name, content: text, mtimeS: field(5) });
    offset = (contentEnd + 3) & ~3;
  }
  return listed;
}

function encode(...entries: Entry[]): Buffer {
  return Buffer.concat([...encodeArchive(entries)]);
}

function summary(...entries: Entry[]): string[] {
  return list(encode(...entries)).map(({ mode, name, content }) => `${mode} ${name} ${content}`);
}

describe('an initramfs archive', () => {
  it('creates the parent folders of an entry first, each once, and ends with a mark', () => {
    expect(
      summary(
        { kind: 'text', path: '/etc/a/hosts', text: 'x' },
        { kind: 'script', path: '/etc/init', text: 'four' },
        { kind: 'link', path: '/bin', target: 'usr/bin' },
        { kind: 'directory', path: '/etc' },
      ),
    ).toEqual([
      '40755 etc ',
      '40755 etc/a ',
      '100644 etc/a/hosts x',
      '100755 etc/init four',
      '120777 bin usr/bin',
      '0 TRAILER!!! ',
    ]);
  });

  it('keeps the first of two entries with the same path', () => {
    const entries = summary(
      { kind: 'text', path: '/a', text: 'first' },
      { kind: 'text', path: '/a', text: 'second' },
    );
    expect(entries).toEqual(['100644 a first', '0 TRAILER!!! ']);
  });

  it("copies a file's content, executable bit and time", () => {
    const hostPath = join(work, 'tool');
    writeFileSync(hostPath, 'content');
    chmodSync(hostPath, 0o711);
    utimesSync(hostPath, 1_000_000, 1_234_567.8);
    const [entry] = list(encode({ kind: 'copy', path: '/tool', hostPath }));
    expect(entry).toEqual({ mode: '100755', name: 'tool', content: 'content', mtimeS: 1_234_567 });
  });

  it('encodes names and contents of any length so that the next entry starts at a word', () => {
    const texts = ['', 'a', 'ab', 'abc', 'abcd', 'ü'];
    const entries = texts.map(
      (text, i): Entry => ({
        kind: 'text',
        path: `/${'n'.repeat(i + 1)}`,
        text,
      }),
    );
    expect(summary(...entries)).toEqual([
      ...texts.map((text, i) => `100644 ${'n'.repeat(i + 1)} ${text}`),
      '0 TRAILER!!! ',
    ]);
  });
});
