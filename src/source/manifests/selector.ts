/** Label selectors, in the API server's syntax. */
import type { RawObject } from '../decode/field-reader.ts';
import { LookupError } from '../lookup.ts';

type Requirement = (labels: RawObject) => boolean;

const key = String.raw`[\w./-]+`;
const value = String.raw`[\w.-]*`;
const setBased = new RegExp(String.raw`^(${key})\s+(in|notin)\s*\(([^()]*)\)$`);
const equality = new RegExp(String.raw`^(${key})\s*(==?|!=)\s*(${value})$`);
const existence = new RegExp(String.raw`^(!?)\s*(${key})$`);

/** `app=web,tier!=db,env in (a, b),!old`: all requirements must match. Throws a LookupError. */
export function parseSelector(text: string): Requirement {
  // Commas within parentheses separate values, the others requirements.
  const parts = text.split(/,(?![^()]*\))/).map((part) => part.trim());
  const requirements = parts.filter((part) => part !== '').map(requirementOf);
  return (labels) => requirements.every((holds) => holds(labels));
}

function requirementOf(text: string): Requirement {
  const [, named, word, list] = setBased.exec(text) ?? [];
  if (list !== undefined) {
    const values: unknown[] = list.split(',').map((one) => one.trim());
    return (labels) => values.includes(labels[named!]) === (word === 'in');
  }
  const [, equal, sign, wanted] = equality.exec(text) ?? [];
  if (wanted !== undefined) return (labels) => (labels[equal!] === wanted) === (sign !== '!=');
  const [, not, present] = existence.exec(text) ?? [];
  if (present !== undefined) return (labels) => (labels[present] !== undefined) === (not === '');
  throw new LookupError('question', `"${text}" is not a label selector, as in app=web,tier!=db`);
}
