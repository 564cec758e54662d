import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { parse } from 'yaml';
import { readManifest, root } from './manifests.ts';

interface Rule {
  readonly alert?: string;
  readonly labels?: { readonly severity?: string };
  readonly annotations?: { readonly summary?: string; readonly runbook_url?: string };
}

interface Rules {
  readonly groups: readonly { readonly rules: readonly Rule[] }[];
}

interface RuleTests {
  readonly tests: readonly {
    readonly alert_rule_test: readonly { alertname: string; exp_alerts?: unknown[] }[];
  }[];
}

const read = (path: string): unknown => parse(readFileSync(join(root, path), 'utf8'));

const rules = read('deploy/chart/rules.yaml') as Rules;
const alerts = rules.groups.flatMap((group) => group.rules).filter(({ alert }) => alert);

it('alerts say how bad it is, what it is, and where the runbook has it', () => {
  const incomplete = alerts.filter(
    ({ labels, annotations }) =>
      !/^(warning|critical)$/.test(labels?.severity ?? '') ||
      annotations?.summary === undefined ||
      !annotations.runbook_url?.startsWith('docs/runbook.md#'),
  );
  expect(alerts.length).toBeGreaterThan(10);
  expect(incomplete).toEqual([]);
});

it('each alert has a test in which it fires', () => {
  const { tests } = read('test/prometheus/rules.yaml') as RuleTests;
  const firing = tests
    .flatMap((test) => test.alert_rule_test)
    .filter(({ exp_alerts = [] }) => exp_alerts.length > 0)
    .map(({ alertname }) => alertname);
  expect([...new Set(firing)].sort()).toEqual(alerts.map(({ alert }) => alert).sort());
});

it('the manifest for OpenShift has the same rules', () => {
  const rule = readManifest('openshift.yaml').find(({ kind }) => kind === 'PrometheusRule');
  expect(rule?.spec).toEqual(rules);
});
