import { readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';

/**
 * A module of ours as JavaScript, which imports others as JavaScript. Without this, Node's
 * stripping of types would be part of the measurement.
 */
export function asJavaScript(file: string): string {
  const code = stripTypeScriptTypes(readFileSync(file, 'utf8'));
  return code.replaceAll(/((?:from|import\() ?'\.[^']*)\.ts'/g, "$1.js'");
}
