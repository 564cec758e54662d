import { readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';

/**
 * A module of ours as JavaScript that imports others as such: Node's compiler for TypeScript would
 * be measured with what is measured.
 */
export function asJavaScript(file: string): string {
  const code = stripTypeScriptTypes(readFileSync(file, 'utf8'));
  return code.replaceAll(/((?:from|import\() ?'\.[^']*)\.ts'/g, "$1.js'");
}
