/**
 * Reads JSON as people write it into API consoles: with comments and with commas after the last
 * member, both of which are reported as notes. The rest is left to the YAML parser, since JSON is
 * YAML; what is neither is an error that names its line.
 */
import type { Problem, Tree } from '../../config/tree.ts';
import { parseYaml } from '../../config/yaml.ts';

type RelaxedJsonResult =
  | { readonly ok: true; readonly tree: Tree; readonly notes: readonly string[] }
  | { readonly ok: false; readonly problem: Problem };

const string = /"(?:[^"\\\n]|\\[^\n])*"/;
const comment = /\/\/[^\n]*|#[^\n]*|\/\*[\s\S]*?\*\//;
const trailingComma = /,(?=\s*[}\]])/;

export function parseRelaxedJson(text: string): RelaxedJsonResult {
  const comments = blank(text, comment);
  const commas = blank(comments.text, trailingComma);
  const parsed = parseYaml(Buffer.from(commas.text));
  if (!parsed.ok) {
    const problem = parsed.problems[0]!;
    return { ok: false, problem: { ...problem, text: problem.text.replace(/^yaml: /, '') } };
  }
  const notes = [...parsed.warnings.map((warning) => warning.text)];
  if (comments.lines !== '') {
    notes.push(`comments, which JSON does not have, were skipped (line ${comments.lines})`);
  }
  if (commas.lines !== '') {
    const what = 'a comma after the last member, which JSON does not allow,';
    notes.push(`${what} was skipped (line ${commas.lines})`);
  }
  return { ok: true, tree: parsed.tree, notes };
}

/** Blanks what `found` finds outside of strings, and says on which lines that was. */
function blank(text: string, found: RegExp): { readonly text: string; readonly lines: string } {
  const lines = new Set<number>();
  const either = new RegExp(`${string.source}|(${found.source})`, 'g');
  const blanked = text.replace(either, (whole, match: string | undefined, at: number) => {
    if (match === undefined) return whole;
    lines.add(text.slice(0, at).split('\n').length);
    return match.replace(/[^\n]/g, ' ');
  });
  return { text: blanked, lines: [...lines].join(', ') };
}
