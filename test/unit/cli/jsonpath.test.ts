import { describe, expect, it } from 'vitest';
import { UsageError } from '../../../src/cli/errors.ts';
import { writerOf } from '../../../src/cli/output.ts';

function printed(template: string): string {
  return writerOf(`jsonpath=${template}`)(answer, () => '');
}

const answer = {
  kind: 'List',
  items: [
    { name: 'a', state: 'waiting', ports: [80, 443], labels: { 'a/b': 'x' } },
    { name: 'b', state: 'in force', ports: [53] },
  ],
};

describe('a jsonpath template', () => {
  it.each([
    ['{.kind}', 'List'],
    ['{$.kind} of {@.items[0].name}', 'List of a'],
    ['{.items[*].name}', 'a b'],
    ['{.items[-1].ports[0]}', '53'],
    ['{.items[0].ports}', '[80,443]'],
    ["{.items[0].labels['a/b']}", 'x'],
    ['{.items[?(@.state=="waiting")].name}', 'a'],
    ["{.items[?(@.state!='waiting')].name}", 'b'],
    ['{.items[?(@.labels)].name}', 'a'],
    ['{.items[?(@.ports[0]==53)].name}', 'b'],
    ['{range .items[*]}{.name}={.state}{"\\n"}{end}', 'a=waiting\nb=in force\n'],
    ['{range .items[*]}{range .ports[*]}{@},{end};{end}', '80,443,;53,;'],
    ['{.nothing}{.items[7].name}', ''],
  ])('%s prints %j', (template, text) => {
    expect(printed(template)).toBe(text);
  });

  it.each([
    '{.items[}',
    '{.a',
    '{range .items[*]}{.name}',
    '{end}',
    '{.items[?(@.a==x y)]}',
    '{a b}',
  ])('%s is wrong usage', (template) => {
    expect(() => printed(template)).toThrow(UsageError);
  });
});
