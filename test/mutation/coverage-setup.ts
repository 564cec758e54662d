/** Runs before each test file: says afterwards which files of src it has run. See `coverage.ts`. */
import { appendFileSync } from 'node:fs';
import { Session } from 'node:inspector';
import { relative } from 'node:path';
import { afterAll, expect } from 'vitest';

const session = new Session();
session.connect();
session.post('Profiler.enable');
// Sets counts to 0, whatever the tests before have measured in this process.
session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });

afterAll(() => {
  // In this process the answer comes immediately.
  session.post('Profiler.takePreciseCoverage', (_, { result }) => {
    const ran = result.filter(({ functions }) =>
      functions.some(({ ranges }) => ranges.some(({ count }) => count > 0)),
    );
    const test = relative('.', expect.getState().testPath!);
    const sources = ran.flatMap(({ url }) => /\bsrc\/.*\.ts$/.exec(url)?.[0] ?? []);
    const lines = ['', ...sources].map((source) => `${test} ${source}\n`);
    appendFileSync(process.env.FAIRLEAD_COVERAGE!, lines.join(''));
    session.disconnect();
  });
});
