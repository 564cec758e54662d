/**
 * Looks into .github/workflows, as actionlint and OpenSSF Scorecard would, and where these do not:
 * who may do what, that all code of others is pinned by its digest, and that steps call scripts of
 * this repository, so that everything can be run without a forge. Part of `npm run check`.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parse } from 'yaml';

interface Step {
  readonly uses?: string;
  readonly run?: string;
  readonly with?: Readonly<Record<string, unknown>>;
}

interface Job extends Step {
  readonly permissions?: unknown;
  readonly 'timeout-minutes'?: unknown;
  readonly container?: { readonly image: string };
  readonly steps?: readonly Step[];
}

interface Workflow {
  readonly permissions?: unknown;
  readonly jobs: Readonly<Record<string, Job>>;
}

const root = resolve(import.meta.dirname, '..');
const folder = '.github/workflows';
const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  scripts: Readonly<Record<string, string>>;
};
const dockerfile = readFileSync(join(root, 'deploy/Dockerfile'), 'utf8');
/** Verifiers of SLSA provenance want the generator's tag, and accept no digest. */
const generator = /^slsa-framework\/slsa-github-generator\/\S+\.yml@v\d+\.\d+\.\d+$/;
/** The digests of each repository of actions. */
const digests = new Map<string, Set<string>>();

/** What is wrong with a line that uses an action: `OWNER/NAME/PATH@DIGEST # vVERSION`. */
function wrongUse(use: string): string | undefined {
  if (generator.test(use)) return undefined;
  const [, action, digest] =
    /^([\w.-]+\/[\w.-]+)\S*@([0-9a-f]{40}) # v\d+\.\d+\.\d+$/.exec(use) ?? [];
  if (action === undefined) return `${use} is not pinned by a digest with its version`;
  const known = digests.get(action) ?? new Set();
  digests.set(action, known.add(digest!));
  return known.size > 1 ? `${action} has two digests` : undefined;
}

/** What is wrong with a command: values come by the environment, and logic is in scripts. */
function wrongRun(command: string): string | undefined {
  const [, script] = /^npm run (\S+)$/.exec(command) ?? [];
  if (script !== undefined) return script in scripts ? undefined : `there is no npm run ${script}`;
  const [, path] = /^(?:ba)?sh (\S+)(?: "\$[A-Z_]+")*$/.exec(command) ?? [];
  if (path === undefined) return `${JSON.stringify(command)} is not the call of a script`;
  return existsSync(join(root, path)) ? undefined : `there is no ${path}`;
}

function* wrongJob(job: Job): Generator<string | undefined> {
  if (typeof job.permissions !== 'object') yield 'has no permissions of its own';
  // A reusable workflow has its own limits.
  if (job.uses === undefined && typeof job['timeout-minutes'] !== 'number')
    yield 'has no time limit';
  const image = job.container?.image;
  if (image !== undefined && !dockerfile.includes(`=${image}\n`)) {
    yield 'runs in another image than that of deploy/Dockerfile';
  }
  for (const { uses, run, with: given } of job.steps ?? []) {
    if (run !== undefined) yield wrongRun(run);
    if (uses?.startsWith('actions/checkout@') && given?.['persist-credentials'] !== false) {
      yield 'leaves its token in the checkout';
    }
  }
}

function* wrongWorkflow(text: string): Generator<string | undefined> {
  const { permissions, jobs } = parse(text) as Workflow;
  if (JSON.stringify(permissions) !== '{}') yield 'permissions at the top are not {}';
  if (text.includes('pull_request_target')) yield 'pull_request_target has secrets';
  for (const [, use] of text.matchAll(/^[ -]*uses: (.*)$/gm)) yield wrongUse(use!);
  for (const [name, job] of Object.entries(jobs)) {
    for (const reason of wrongJob(job)) if (reason !== undefined) yield `${name}: ${reason}`;
  }
}

const names = readdirSync(join(root, folder)).sort();
const wrong = names.flatMap((name) =>
  [...wrongWorkflow(readFileSync(join(root, folder, name), 'utf8'))]
    .filter((reason) => reason !== undefined)
    .map((reason) => `${folder}/${name}: ${reason}`),
);
for (const line of wrong) console.error(line);
process.exitCode = wrong.length === 0 ? 0 : 1;
