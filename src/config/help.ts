/** The text about the flags of kube-proxy's command line. */
import { flagMeaning } from './flags.ts';
import { flagKeys, flagOf, type SettingKey, settingTable } from './settings/index.ts';
import { type FlagGroup, flagGroups } from './settings/spec.ts';
import { defaultOf, isZero, rulesOf } from './types.ts';
import { settingRules } from './validate.ts';

const indent = ' '.repeat(10);

/** `--v` is written `-v, --v level`. */
export function heading(key: SettingKey): string {
  const { shorthand } = settingTable[key];
  const short = shorthand === undefined ? '' : `-${shorthand}, `;
  return `${short}--${flagOf(key)} ${rulesOf(key).shown}`.trimEnd();
}

/** The default as --help and the documentation show it; empty when it is the zero value. */
export function shownDefault(key: SettingKey): string {
  const standard = defaultOf(key);
  return isZero(key, standard) ? '' : rulesOf(key).format(standard);
}

/** What a flag means, with its values and its default. */
export function describeFlag(key: SettingKey): string {
  const rules = settingRules(key);
  const standard = shownDefault(key);
  const parts = [
    flagMeaning(key),
    rules === '' ? '' : ` Value: ${rules}.`,
    settingTable[key].origin === 'own' ? ' Not a flag of kube-proxy.' : '',
    standard === '' ? '' : ` (default${unbreakable}${standard})`,
  ];
  return parts.join('');
}

/** The flags of a group that are not deprecated. */
export function flagsIn(group: FlagGroup): SettingKey[] {
  return [...flagKeys.values()].filter(
    (key) => settingTable[key].group === group && settingTable[key].deprecated === undefined,
  );
}

/** Flags by group; deprecated ones are left out. */
export function flagsText(): string {
  const groups = (Object.keys(flagGroups) as FlagGroup[]).map((group) => {
    const described = flagsIn(group).map(
      (key) => `  ${heading(key)}\n${wrap(describeFlag(key), indent)}`,
    );
    return `${flagGroups[group]}:\n${described.join('\n')}\n`;
  });
  return groups.join('\n');
}

const columnsMax = 100;
/** A blank at which no line is broken. */
const unbreakable = '\u00a0';

/** Breaks a text into lines that begin with `indent`. */
export function wrap(text: string, indent: string): string {
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
