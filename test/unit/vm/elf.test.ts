import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { neededLibraries } from '../../vm/elf.ts';

const work = mkdtempSync(join(tmpdir(), 'fairlead-elf-'));
afterAll(() => rmSync(work, { recursive: true }));

describe('the libraries that a file needs', () => {
  it.each([process.execPath, '/bin/sh'])('of %s are all found by the loader, too', (program) => {
    const needed = neededLibraries(program);
    const listing = execFileSync('ldd', [program], { encoding: 'utf8' });
    expect(needed).toContain('libc.so.6');
    expect(needed.filter((name) => !listing.includes(name))).toEqual([]);
  });

  it.each([
    ['an empty file', Buffer.alloc(0)],
    ['a script', Buffer.from(`#!/bin/sh\n${'# long enough for a header\n'.repeat(9)}`)],
    ['a 32-bit program', Buffer.concat([Buffer.from('\x7fELF\x01\x01'), Buffer.alloc(99)])],
  ])('of %s are empty', (_name, content) => {
    const path = join(work, 'file');
    writeFileSync(path, content);
    expect(neededLibraries(path)).toEqual([]);
  });
});
