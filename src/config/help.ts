/** The text of --help, which also stands before the error about a bad flag. */
import { unbreakable, usage, wrap } from './commands.ts';
import { type FlagGroup, flagGroups } from './flag-spec.ts';
import { type FlagName, flagNames, flagTable } from './flag-table.ts';
import { flagRules } from './flag-types.ts';
import { flagDefault, flagMeaning } from './flags.ts';
import { fieldRules } from './validate.ts';

const indent = ' '.repeat(10);

const introduction = `fairlead is a service proxy for Kubernetes nodes. It takes kube-proxy's flags
and configuration.

`;

/** `--v` is written `-v, --v level`. */
export function heading(name: FlagName): string {
  const { shorthand } = flagTable[name];
  const { shown } = flagRules(name);
  return `${shorthand === undefined ? '' : `-${shorthand}, `}--${name} ${shown}`.trimEnd();
}

/** The default as --help and the documentation show it; empty when it is the zero value. */
export function shownDefault(name: FlagName): string {
  const rules = flagRules(name);
  const text = rules.format(flagDefault(name));
  return text === rules.format(rules.zero) ? '' : text;
}

/** What a value must be, where the meaning does not say it. */
function ruleSentence(name: FlagName): string {
  const { field } = flagTable[name];
  const rules = field === undefined ? '' : fieldRules(field);
  return rules === '' ? '' : ` Value: ${rules}.`;
}

/** What a flag means, with its values and its default. */
export function describeFlag(name: FlagName): string {
  const standard = shownDefault(name);
  const meaning = [flagMeaning(flagTable[name]), ruleSentence(name)].join('');
  const own = flagTable[name].own ? ' Not a flag of kube-proxy.' : '';
  const ending = standard === '' ? '' : ` (default${unbreakable}${standard})`;
  return `${meaning}${own}${ending}`;
}

function describe(name: FlagName): string {
  return `  ${heading(name)}\n${wrap(describeFlag(name), indent)}`;
}

/** Flags by group; deprecated ones are left out. */
export function helpText(): string {
  const groups = (Object.keys(flagGroups) as FlagGroup[]).map((group) => {
    const names = flagNames.filter(
      (name) => flagTable[name].group === group && flagTable[name].deprecated === undefined,
    );
    return `\n${flagGroups[group]}:\n${names.map(describe).join('\n')}\n`;
  });
  return `${introduction}${usage()}${groups.join('')}`;
}
