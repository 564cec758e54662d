import { readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { join, resolve } from 'node:path';
import { describe, expect, it, test } from 'vitest';
import { changedText, defects } from '../../simulation/defects.ts';

const root = resolve(import.meta.dirname, '..', '..', '..');

describe('the defects that the simulation must find', () => {
  test.each(defects)('have a place in src: $name', (defect) => {
    const text = readFileSync(join(root, 'src', defect.file), 'utf8');
    // Throws where the text does not occur exactly once, and where the result has wrong syntax.
    expect(stripTypeScriptTypes(changedText(defect, text))).not.toBe(stripTypeScriptTypes(text));
  });

  it('have different names', () => {
    expect(new Set(defects.map(({ name }) => name)).size).toBe(defects.length);
  });
});
