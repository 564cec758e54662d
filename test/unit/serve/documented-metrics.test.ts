import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { modeNames } from '../../../src/config/config.ts';
import { builtModes } from '../../../src/modes/index.ts';
import { resources } from '../../../src/state/change.ts';
import { started, web } from '../agent/running.ts';
import { quiet } from '../sync/double.ts';

const root = resolve(import.meta.dirname, '../../..');

function read(path: string): string {
  return readFileSync(resolve(root, path), 'utf8');
}

/** Labels of every metric by name, as docs/metrics.md has them. */
const documented = new Map(
  [...read('docs/metrics.md').matchAll(/^\| `(\w+)` \| \w+ \| (.*?) \|/gm)].map((match) => [
    match[1]!,
    [...match[2]!.matchAll(/`(\w+)`/g)].map((label) => label[1]!),
  ]),
);

/** What people read, or deploy. That of kube-proxy's behaviour is about kube-proxy's metrics. */
const written = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], { cwd: root })
  .toString()
  .split('\n')
  .filter((path) => /^(README|docs\/|deploy\/|bench\/README)/.test(path))
  .filter((path) => !/metrics\.md$|kube-proxy-behaviour\.md$/.test(path));

/** Labels that Prometheus gives. */
const given = ['cluster', 'job', 'instance', 'le'];

/**
 * `name{label,label="value"}` and `prefix_{one,two}_suffix` in a text, one by one, without
 * recording rules, which are named `level:name:operation`.
 */
function named(text: string): { name: string; labels: string[] }[] {
  const found =
    /(?<!:)\b((?:fairlead|kubeproxy)_[a-z_]*(?:\{[a-z_,]+\}_\w+)?)(\{[a-z_]+[^}]*\})?(?!\/)/g;
  return [...text.matchAll(found)].flatMap(([, words = '', braces = '']) => {
    const [, before, choice, after] = /^(.*)\{(.*)\}(.*)$/.exec(words) ?? [];
    const names = choice?.split(',').map((one) => `${before}${one}${after}`) ?? [words];
    const labels = [...braces.matchAll(/[{,]([a-z_]+)/g)].map(([, label]) => label!);
    return names.map((name) => ({ name, labels }));
  });
}

/** Of a metric, or of the parts of a histogram. */
function labelsOf(name: string): readonly string[] | undefined {
  return documented.get(name) ?? documented.get(name.replace(/_(bucket|sum|count)$/, ''));
}

/** A prefix stands for all that begin so. */
function isKnown(name: string): boolean {
  if (!name.endsWith('_')) return labelsOf(name) !== undefined;
  return [...documented.keys()].some((known) => known.startsWith(name));
}

describe('metrics', () => {
  it.each(written)('that %s names exist, with their labels', (path) => {
    const wrong = named(read(path)).filter(({ name, labels }) => {
      return (
        !isKnown(name) ||
        labels.some((label) => ![...given, ...(labelsOf(name) ?? [])].includes(label))
      );
    });
    expect(wrong).toEqual([]);
  });

  it('are found in documents', () => {
    expect(named('a fairlead_a_{b,c}_total, `kubeproxy_d{e,f="g"}` and fairlead_h_*')).toEqual([
      { name: 'fairlead_a_b_total', labels: [] },
      { name: 'fairlead_a_c_total', labels: [] },
      { name: 'kubeproxy_d', labels: ['e', 'f'] },
      { name: 'fairlead_h_', labels: [] },
    ]);
    expect(isKnown('fairlead_no_such_total')).toBe(false);
  });

  it.each(modeNames)('that the program has in mode %s are documented', async (mode) => {
    const app = await started('--manifests=/anywhere');
    app.source.say(...web);
    app.source.listed(...resources);
    await quiet();
    app.app.metrics.running(builtModes().get(mode)!);
    const texts = [
      await (await app.get('metrics', '/metrics')).text(),
      await (await app.get('metrics', '/metrics/slis')).text(),
    ];
    await app.stop();
    const names = [...texts.join('\n').matchAll(/^# TYPE (\w+) /gm)].map(([, name]) => name!);
    expect(names.length).toBeGreaterThan(50);
    const page = read('docs/metrics.md');
    expect(names.filter((name) => !page.includes(`\`${name}\``))).toEqual([]);
  });
});
