/** The text of --help, which also stands before the error about a bad flag. */
import { type FlagGroup, flagGroups } from './flag-spec.ts';
import { type FlagName, flagNames, flagTable } from './flag-table.ts';
import { flagRules } from './flag-types.ts';
import { flagDefault, flagMeaning } from './flags.ts';
import { fieldRules } from './validate.ts';

const columnsMax = 100;
const indent = ' '.repeat(10);
/** A blank at which no line is broken. */
const unbreakable = '\u00a0';

const introduction = `fairlead is a service proxy for Kubernetes nodes. It takes kube-proxy's flags
and configuration.

Usage:
  fairlead [run] [flags]
          Proxy the Services of this node.
  fairlead config convert --from openshift|ovhcloud|flags FILE
  fairlead config validate FILE
          Translate other configurations into kube-proxy's, and check one.
  fairlead demo
          Show three pods, a Service and one pod's death on this machine; needs no cluster.
`;

/** `--v` is written `-v, --v`. */
function heading(name: FlagName): string {
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

function describe(name: FlagName): string {
  const standard = shownDefault(name);
  const meaning = [flagMeaning(flagTable[name]), ruleSentence(name)].join('');
  const own = flagTable[name].own ? ' Not a flag of kube-proxy.' : '';
  const ending = standard === '' ? '' : ` (default${unbreakable}${standard})`;
  return `  ${heading(name)}\n${wrap(`${meaning}${own}${ending}`)}`;
}

function wrap(text: string): string {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && indent.length + line.length + 1 + word.length > columnsMax) {
      lines.push(indent + line);
      line = word;
    } else line = line === '' ? word : `${line} ${word}`;
  }
  return [...lines, indent + line].join('\n').replaceAll(unbreakable, ' ');
}

/** Flags by group; deprecated ones are left out. */
export function helpText(): string {
  const groups = (Object.keys(flagGroups) as FlagGroup[]).map((group) => {
    const names = flagNames.filter(
      (name) => flagTable[name].group === group && flagTable[name].deprecated === undefined,
    );
    return `\n${flagGroups[group]}:\n${names.map(describe).join('\n')}\n`;
  });
  return `${introduction}${groups.join('')}`;
}
