import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { parse } from 'yaml';
import { readManifest, root } from './manifests.ts';

interface Rule {
  readonly alert?: string;
  readonly expr: string;
  readonly labels?: { readonly severity?: string };
  readonly annotations?: {
    readonly summary?: string;
    readonly description?: string;
    readonly runbook_url?: string;
  };
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

it('alerts have a severity, a summary, a description, and a section of the runbook', () => {
  const incomplete = alerts.filter(
    ({ labels, annotations }) =>
      !/^(warning|critical)$/.test(labels?.severity ?? '') ||
      annotations?.summary === undefined ||
      annotations.description === undefined ||
      !annotations.runbook_url?.startsWith('docs/runbook.md#'),
  );
  expect(alerts.length).toBeGreaterThan(10);
  expect(incomplete).toEqual([]);
});

it('alert rules keep the labels of the cluster, and of the node if they are about one', () => {
  const groupings = rules.groups
    .flatMap((group) => group.rules)
    .flatMap(({ expr }) => expr.match(/\b(by|on) \([^)]*\)/g) ?? []);
  expect(groupings.length).toBeGreaterThan(20);
  const ofNoNode = [
    'by (cluster, job)',
    'on (cluster, job)',
    'by (cluster, job, reason)',
    'by (cluster, job, ip_family, namespace, service, port)',
  ];
  const incomplete = groupings.filter(
    (text) => !/cluster, job, node, instance/.test(text) && !ofNoNode.includes(text),
  );
  expect(incomplete).toEqual([]);
  const unnamed = alerts.filter(
    ({ annotations }) =>
      /\$labels\.(node|instance)/.test(annotations!.summary!) &&
      !annotations!.summary!.includes('{{ or $labels.node $labels.instance }}'),
  );
  expect(unnamed).toEqual([]);
});

it('each alert has a test in which it fires', () => {
  const { tests } = read('test/prometheus/rules.yaml') as RuleTests;
  const firing = tests
    .flatMap((test) => test.alert_rule_test)
    .filter(({ exp_alerts = [] }) => exp_alerts.length > 0)
    .map(({ alertname }) => alertname);
  expect([...new Set(firing)].sort()).toEqual(alerts.map(({ alert }) => alert).sort());
});

it('the manifest for OpenShift has the same alert rules', () => {
  const rule = readManifest('openshift.yaml').find(({ kind }) => kind === 'PrometheusRule');
  expect(rule?.spec).toEqual(rules);
});
